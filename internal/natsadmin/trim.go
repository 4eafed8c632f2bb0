package natsadmin

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// replicaLag: with replicas, a consumer's leader may not have seen yet what the stream's leader stored, and would count it
// as done; so what is trimmed must be older than any such lag, by the server's own times.
const replicaLag = time.Minute

// Trim drops the oldest events that are applied, once EVENTS is more than half full: until then they are the repair log
// (DESIGN 3). It reports up to which sequence. Nothing that a partition has not acknowledged is ever dropped.
func (a *Admin) Trim(ctx context.Context) (upTo uint64, err error) {
	s, err := a.streams.LeaderStream(ctx, events.EventsStream)
	if err != nil {
		return 0, fmt.Errorf("trim: %w", natsio.WrapErr(err))
	}
	info := s.CachedInfo()
	state, limit := info.State, info.Config.MaxBytes
	if limit <= 0 || state.Bytes < uint64(limit)/2 || state.Msgs == 0 {
		return 0, nil
	}
	floor, err := a.streams.UnappliedOf(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("trim: %w", err)
	}
	// Events are of one size on average: a quarter of the sequences is about a quarter of the bytes.
	upTo = min(floor, state.FirstSeq+(state.LastSeq-state.FirstSeq)/4+1)
	if upTo <= state.FirstSeq {
		return 0, nil
	}
	if err := a.usable(ctx); err != nil {
		return 0, fmt.Errorf("trim: %w", err)
	}
	if info.Config.Replicas > 1 {
		m, err := s.GetMsg(ctx, upTo)
		if err != nil || state.LastTime.Sub(m.Time) < replicaLag {
			return 0, nil
		}
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(upTo)); err != nil {
		return 0, fmt.Errorf("trim: %w", natsio.WrapErr(err))
	}
	return upTo, nil
}

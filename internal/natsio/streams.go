package natsio

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Where streams are.

// LastSeqs is the last sequence of a stream of each name.
func (st Streams) LastSeqs(ctx context.Context, streams ...string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range streams {
		s, err := st.c.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, WrapErr(err))
		}
		out[name] = s.CachedInfo().State.LastSeq
	}
	return out, nil
}

// Unapplied is the lowest sequence of EVENTS that some partition may not have applied. A partition without its consumer
// may have applied nothing. s is EVENTS: what came behind its cached state is not looked at.
func Unapplied(ctx context.Context, s jetstream.Stream) (uint64, error) {
	floor := s.CachedInfo().State.LastSeq + 1
	left := map[string]bool{}
	for p := range events.Partitions {
		left[events.PartitionConsumer(p)] = true
	}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if !left[info.Name] {
			continue
		}
		delete(left, info.Name)
		if info.NumPending > 0 || info.NumAckPending > 0 {
			floor = min(floor, info.AckFloor.Stream+1)
		}
	}
	if err := list.Err(); err != nil {
		return 0, WrapErr(err)
	}
	if len(left) > 0 {
		return 1, nil
	}
	return floor, nil
}

package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/pkg/events"
)

// Extent is what ITEMS holds.
type Extent struct {
	Stream      string    // names this very stream: another one, also after it was deleted and made again, has another
	First, Last uint64    // sequences; First is Last+1 when it is empty
	Match       uint64    // sequence of the newest item that matches the filters; 0 = there is none
	Stored      time.Time // when that was stored
}

// Extent asks ITEMS' leader what it holds now. In a cluster it may be what was some seconds ago (leader.go): a reader that is told
// to be at the end may have items before it that it gets all the same.
func (its Items) Extent(ctx context.Context, filters []string) (Extent, error) {
	s, err := its.c.Streams().LeaderStream(ctx, events.ItemsStream)
	if err != nil {
		return Extent{}, fmt.Errorf("extent of ITEMS: %w", WrapErr(err))
	}
	info := s.CachedInfo()
	e := Extent{
		Stream: info.Created.UTC().Format(time.RFC3339Nano), Last: info.State.LastSeq,
		First: max(info.State.FirstSeq, 1), // a stream that never held a message says 0
	}
	for _, filter := range filters {
		m, err := newestOn(ctx, s, filter)
		if err != nil {
			return Extent{}, fmt.Errorf("extent of ITEMS: %w", err)
		}
		if m.Sequence > e.Match {
			e.Match, e.Stored = m.Sequence, m.Time
		}
	}
	return e, nil
}

// newestOn is the newest message of a stream on a subject; its Sequence is 0 where there is none.
func newestOn(ctx context.Context, s Messages, subject string) (jetstream.RawStreamMsg, error) {
	m, err := s.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return jetstream.RawStreamMsg{}, nil
	case err != nil:
		return jetstream.RawStreamMsg{}, WrapErr(err)
	}
	return *m, nil
}

package gcnats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Birth tells the streams that a collector relies on apart from others of their name: when each was made.
func (w *World) Birth(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range []string{
		events.RecordsStream, events.EventsStream, events.DeadStream, events.ObjectStream(events.NodesBucket),
		events.ObjectStream(events.BlobsBucket), events.ObjectStream(events.ArtifactsBucket), events.ObjectStream(events.InboxBucket),
	} {
		s, err := w.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, natsio.WrapErr(err))
		}
		out[name] = s.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	}
	return out, nil
}

// Remember stores what the next collector must know of this cycle, in a stream of its own: a record bucket that was set
// back would have set it back as well.
func (w *World) Remember(ctx context.Context, state any) error {
	b, err := json.Marshal(state)
	if err == nil {
		_, err = w.streams.Send(ctx, []*nats.Msg{{Subject: events.GCStateSubject, Data: b}})
	}
	if err != nil {
		return fmt.Errorf("remember the cycle: %w", err)
	}
	return nil
}

// Recall reads what the last collector remembered into state; it leaves it alone when there was none.
func (w *World) Recall(ctx context.Context, state any) error {
	s, err := natsio.MessagesOf(ctx, w.streams, events.GCStream)
	if err != nil {
		return fmt.Errorf("recall the last cycle: %w", natsio.WrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCStateSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("recall the last cycle: %w", natsio.WrapErr(err))
	}
	if err := json.Unmarshal(m.Data, state); err != nil {
		return fmt.Errorf("recall the last cycle: %w: %w", record.ErrValue, err)
	}
	return nil
}

package natsadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// What a backup reads, and a restore writes (internal/backup); a restore writes objects and records through the driver.

// StoredMessage is one message as a stream holds it.
type StoredMessage struct {
	Subject string
	Header  map[string][]string
	Data    []byte
	Seq     uint64
	Time    time.Time
}

// EachMessage gives every message of a stream from a sequence on, up to the newest, in order.
func (a *Admin) EachMessage(ctx context.Context, stream string, from uint64, f func(StoredMessage) error) error {
	s, err := a.streams.LeaderStream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream, natsio.WrapErr(err))
	}
	err = a.streams.EachUntilNewest(ctx, s, from, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(StoredMessage{m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp})
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream, err)
	}
	return nil
}

// Unapplied is the lowest sequence of EVENTS that some partition may not have applied: what is below is in the threads.
func (a *Admin) Unapplied(ctx context.Context) (uint64, error) {
	s, err := a.js.Stream(ctx, events.EventsStream)
	if err != nil {
		return 0, fmt.Errorf("unapplied events: %w", natsio.WrapErr(err))
	}
	return a.streams.UnappliedOf(ctx, s)
}

// Empty tells whether none of Spool's streams is there; what is there is named.
func (a *Admin) Empty(ctx context.Context) (there []string, err error) {
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		switch _, err := a.js.Stream(ctx, cfg.Name); {
		case err == nil:
			there = append(there, cfg.Name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, natsio.WrapErr(err))
		}
	}
	return there, nil
}

// PutMessages stores messages as they were, in order; on an error, some of them.
func (a *Admin) PutMessages(ctx context.Context, msgs []StoredMessage) error {
	out := mapped.List(msgs, func(m StoredMessage) *nats.Msg { return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data} })
	if _, err := a.streams.Send(ctx, out); err != nil {
		return fmt.Errorf("store %d messages: %w", len(msgs), err)
	}
	return nil
}

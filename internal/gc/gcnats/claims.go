package gcnats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Claims finds what events that may not be applied yet, and dead letters, hold on to.
func (w *World) Claims(ctx context.Context) (*record.Claims, error) {
	claims := &record.Claims{Bodies: map[string]bool{}, Blobs: map[string]bool{}}
	s, err := w.streams.LeaderStream(ctx, events.EventsStream)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", natsio.WrapErr(err))
	}
	floor, err := w.streams.UnappliedOf(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	note := func(envelope []byte) {
		e, err := events.Decode(envelope)
		if err != nil {
			return // it goes to the dead letters as it is, and claims nothing
		}
		if e.Ref != nil {
			claims.Bodies[e.Ref.Object] = true
		}
		for _, one := range e.Each() {
			for ref := range artifacts.Mentions(one.Body) {
				claims.Blobs[ref] = true
			}
		}
	}
	err = w.streams.EachUntilNewest(ctx, s, floor, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		note(m.Data())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read claims of events: %w", err)
	}
	dead, err := w.streams.LeaderStream(ctx, events.DeadStream)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", natsio.WrapErr(err))
	}
	err = w.streams.EachUntilNewest(ctx, dead, 1, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		if name := m.Headers().Get(natsio.HeaderObject); name != "" {
			claims.Bodies[name] = true
		}
		note(m.Data())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read claims of dead letters: %w", err)
	}
	return claims, nil
}

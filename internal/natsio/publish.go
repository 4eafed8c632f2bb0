package natsio

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"spool/pkg/events"
)

// headerRoom is what a message leaves below max_payload for subject and headers.
const headerRoom = 16 << 10

// PublishEvents stores events in order and returns when all are durable. A body above max_payload goes to the inbox first
// and travels as a claim check. On an error some may be stored; publishing all of them again is safe then, and needed:
// each event is linked to the one before it in its thread (Prev), so none is applied without those before it.
func (c *Conn) PublishEvents(ctx context.Context, evs []*events.Event) error {
	groups := group(evs)
	msgs := make([]*nats.Msg, len(groups))
	for i, e := range groups {
		data, err := c.encode(ctx, e)
		if err != nil {
			return err
		}
		msgs[i] = &nats.Msg{Subject: events.EventSubject(e.Thread, e.Kind), Data: data}
	}
	if err := c.events.send(ctx, c, msgs); err != nil {
		return fmt.Errorf("publish %d events: %w", len(evs), err)
	}
	return nil
}

// groupBytes is how much small entries of one thread share a message: what a server does for a message it then does for
// all of them.
const groupBytes = 64 << 10

// group puts neighbouring entries of a thread into one event, and links each event to the one before it in its thread. The
// order within a session is kept.
func group(evs []*events.Event) []*events.Event {
	type open struct {
		*events.Event
		size int
	}
	groups := make([]*events.Event, 0, len(evs))
	last := make(map[events.Thread]uint64, 8)
	sessions := make(map[string]open, 8)
	for _, e := range evs {
		g := sessions[e.Thread.Session]
		if g.Event != nil && joins(g.Event, e) && g.size+len(e.Body) <= groupBytes {
			g.More = append(g.More, events.Entry{Seq: e.Seq, Time: e.Time, Body: e.Body})
		} else {
			first := *e
			first.Prev = last[e.Thread]
			g = open{Event: &first}
			groups = append(groups, &first)
		}
		g.size += len(e.Body) + 24
		sessions[e.Thread.Session] = g
		last[e.Thread] = e.Seq
	}
	return groups
}

// joins reports whether an entry can share the event of another one.
func joins(g, e *events.Event) bool {
	return g.Kind == events.KindEntry && e.Kind == events.KindEntry && g.Ref == nil && e.Ref == nil && g.Thread == e.Thread &&
		g.Dialect == e.Dialect && g.Producer == e.Producer && g.Epoch == e.Epoch && g.User == e.User && g.Host == e.Host &&
		g.Trace == e.Trace
}

// encode is the envelope, with its body checked in at the inbox when it does not fit. A retry checks it in again, under
// another name; the one that no event claims is left to gc.
func (c *Conn) encode(ctx context.Context, e *events.Event) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if len(e.Body)+headerRoom <= c.MaxPayload() {
		return e.Encode(), nil
	}
	ref, err := c.CheckIn(ctx, bytes.NewReader(e.Body))
	if err != nil {
		return nil, err
	}
	claim := *e
	claim.Body, claim.Ref = nil, &ref
	return claim.Encode(), nil
}

// DiscardBody drops what a claim check was for, once its event is applied.
func (c *Conn) DiscardBody(ctx context.Context, ref events.BodyRef) error {
	return c.Discard(ctx, events.InboxBucket, ref.Object)
}

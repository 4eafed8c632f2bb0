package natsio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// headerRoom is what a message leaves below max_payload for subject and headers.
const headerRoom = 16 << 10

// PublishEvents stores events in order and returns when all are durable. A body above max_payload goes to the inbox first
// and travels as a claim check. On an error some may be stored; publishing all of them again is safe then, and needed:
// events.Link links each event to the one before it of its producer, so none is applied without those before it.
//
// Without an error, all messages of this one call are stored, in their order: nothing below tries a part of a call again.
func (es Events) PublishEvents(ctx context.Context, evs []*events.Event) error {
	if err := es.c.begun(); err != nil {
		return text.Errorf("publish %d events: %w", len(evs), err)
	}
	if user := events.UserFrom(ctx); user != "" {
		for _, e := range evs {
			e.Identify(user)
		}
	}
	groups := events.Link(evs, min(groupBytes, es.c.MaxPayload()-headerRoom))
	msgs := make([]*nats.Msg, len(groups))
	for i, e := range groups {
		data, err := es.encode(ctx, e)
		if err != nil {
			return err
		}
		msgs[i] = &nats.Msg{Subject: es.subject(e, events.ScopeFrom(ctx)), Data: data}
	}
	if err := es.c.events.send(ctx, es.c, msgs); err != nil {
		return text.Errorf("publish %d events: %w", len(evs), err)
	}
	return nil
}

// MayPublish asks whether the user of a connection may publish events, with one that the stream refuses, as it is said to be for
// another stream. record.ErrDenied: the user may not. What else comes of it says nothing.
func MayPublish(ctx context.Context, es Events) error {
	ctx, cancel := context.WithTimeout(ctx, mayTime)
	defer cancel()
	e := &events.Event{Kind: events.KindEntry, Thread: events.Thread{Session: "none", Name: events.MainThread}}
	m := &nats.Msg{Subject: es.subject(e, ""), Header: nats.Header{jetstream.ExpectedStreamHeader: {"none"}}}
	ctx, done, err := es.c.denied.watch(ctx, func(subject string) bool { return subject == m.Subject })
	if err != nil {
		return err
	}
	defer done()
	if _, err = es.c.nc.RequestMsgWithContext(ctx, m); errors.Is(outcome(ctx, err), record.ErrDenied) {
		return outcome(ctx, err)
	}
	return nil
}

// mayTime is how long the server has to say that somebody may not publish.
const mayTime = 5 * time.Second

// Stamped reports whether a connection is one of a user that may publish no event without a scope, and writes no records: of ingest.
func Stamped(es Events) bool { return es.c.scope != "" }

// subject is where an event goes. What stamps it: whoever made it, else whoever asks, else whoever we are.
func (es Events) subject(e *events.Event, asked events.Scope) string {
	return cmp.Or(e.Scope, asked, es.c.scope).Stamp(events.EventSubject(e.Thread, e.Kind))
}

// groupBytes is how much small entries of one thread share a message, if the server takes messages as large as that: what
// it does for a message it then does for all of them. None shares one with an entry whose body goes to the inbox.
const groupBytes = 64 << 10

// encode is the envelope, with its body checked in at the inbox when it does not fit. A retry checks it in again, under
// another name; the one that no event claims is left to gc.
func (es Events) encode(ctx context.Context, e *events.Event) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if len(e.Body)+headerRoom <= es.c.MaxPayload() {
		return e.Encode(), nil
	}
	ref, err := es.c.Inbox().CheckIn(ctx, bytes.NewReader(e.Body))
	if err != nil {
		return nil, err
	}
	claim := *e
	claim.Body, claim.Ref = nil, &ref
	return claim.Encode(), nil
}

// DiscardBody drops what a claim check was for, once its event is applied.
func (in Inbox) DiscardBody(ctx context.Context, ref events.BodyRef) error {
	return in.c.Objects().discard(ctx, events.InboxBucket, ref.Object)
}

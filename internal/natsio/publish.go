package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"spool/pkg/events"
)

// headerRoom is what a message leaves below max_payload for subject and headers.
const headerRoom = 16 << 10

// PublishEvents stores events in order and returns when all are durable. A body above max_payload goes to the inbox first
// and travels as a claim check. On an error some may be stored; publishing all of them again is safe then, and needed:
// events.Link links each event to the one before it of its producer, so none is applied without those before it.
//
// Without an error, all messages of this one call are stored, in their order: nothing below tries a part of a call again.
func (c *Conn) PublishEvents(ctx context.Context, evs []*events.Event) error {
	groups := events.Link(evs, groupBytes)
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

// Headers of a dead letter; its payload is the message as it came.
const (
	HeaderReason   = "Spool-Reason"
	HeaderSubject  = "Spool-Subject"
	HeaderEventSeq = "Spool-Event-Seq"
	HeaderObject   = "Spool-Object" // in InboxBucket: the message, where it does not fit beside the headers
)

// Dead stores an event that could not be applied (SPEC B1). One that comes again, after a crash or a replay, is not stored
// again.
func (c *Conn) Dead(ctx context.Context, d events.Dead) error {
	if again, err := c.isDead(ctx, d); err != nil || again {
		return err
	}
	m := &nats.Msg{Subject: events.DeadSubject(d.Thread.Session, d.Thread.Name, d.Kind), Data: d.Data, Header: nats.Header{
		HeaderReason:   {oneLine(d.Reason, 2048)},
		HeaderSubject:  {oneLine(d.Subject, 1024)},
		HeaderEventSeq: {strconv.FormatUint(d.Seq, 10)},
	}}
	if len(d.Data)+headerRoom > c.MaxPayload() {
		name := fmt.Sprintf("dead.%d.%s", d.Seq, ulid.Make())
		if _, err := c.UploadFrom(ctx, events.InboxBucket, name, bytes.NewReader(d.Data)); err != nil {
			return err
		}
		m.Data, m.Header[HeaderObject] = nil, []string{name}
	}
	_, err := c.publish(ctx, []*nats.Msg{m})
	return err
}

// isDead reports whether there is a letter of an event, among those that came since it was stored: an older one is of an event that had
// its sequence in a stream that is gone. They are read only where there is one.
func (c *Conn) isDead(ctx context.Context, d events.Dead) (is bool, err error) {
	if d.Stored == 0 {
		return false, nil
	}
	subject := events.DeadSubject(d.Thread.Session, d.Thread.Name, d.Kind)
	s, err := c.leaderStream(ctx, events.DeadStream)
	if err != nil {
		return false, fmt.Errorf("dead letter: %w", wrapErr(err))
	}
	newest, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	since := time.Unix(0, d.Stored)
	if err != nil || newest.Time.Before(since) {
		return false, wrapErr(err)
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return false, fmt.Errorf("dead letter: %w", wrapErr(err))
	}
	err = c.each(ctx, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		l := deadLetter(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
		is = is || l.Seq == d.Seq && l.Subject == oneLine(d.Subject, 1024) && (l.object != "" || bytes.Equal(l.Data, d.Data))
		return nil
	})
	return is, err
}

// DiscardBody drops what a claim check was for, once its event is applied.
func (c *Conn) DiscardBody(ctx context.Context, ref events.BodyRef) error {
	return c.Discard(ctx, events.InboxBucket, ref.Object)
}

func oneLine(s string, limit int) string {
	b := []byte(s)
	if len(b) > limit {
		b = b[:limit]
	}
	for i, ch := range b {
		if ch < ' ' || ch == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}

package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// DeadLetter is an event that could not be applied, as SPOOL_DEAD holds it (SPEC B1).
type DeadLetter struct {
	events.Dead           // Data is nil where the bytes are in the inbox: OpenDead
	At          uint64    // sequence in SPOOL_DEAD
	Time        time.Time // when it got there
	Size        int64     // bytes of the message; -1 when they are in the inbox and it was not asked
	object      string
}

// DeadLetters gives every dead letter of a session, or of all, oldest first.
func (c *Conn) DeadLetters(ctx context.Context, session string, f func(DeadLetter) error) error {
	s, err := c.leaderStream(ctx, events.DeadStream)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", wrapErr(err))
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.DeadFilter(session)}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", wrapErr(err))
	}
	err = c.each(ctx, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(deadLetter(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp))
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	return nil
}

// Letters gives the EVENTS sequence of every event that is a dead letter.
func (c *Conn) Letters(ctx context.Context, f func(event uint64) error) error {
	return c.DeadLetters(ctx, "", func(d DeadLetter) error { return f(d.Seq) })
}

// DeadLetter reads one. record.ErrNotFound: there is none at that sequence.
func (c *Conn) DeadLetter(ctx context.Context, at uint64) (d DeadLetter, err error) {
	s, err := c.leaderStream(ctx, events.DeadStream)
	if err != nil {
		return d, fmt.Errorf("read dead letter %d: %w", at, wrapErr(err))
	}
	m, err := s.GetMsg(ctx, at)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return d, fmt.Errorf("%w: dead letter %d", record.ErrNotFound, at)
	}
	if err != nil {
		return d, fmt.Errorf("read dead letter %d: %w", at, wrapErr(err))
	}
	return deadLetter(m.Subject, m.Header, m.Data, m.Sequence, m.Time), nil
}

func deadLetter(subject string, h nats.Header, data []byte, at uint64, when time.Time) DeadLetter {
	d := DeadLetter{At: at, Time: when, Size: int64(len(data)), object: h.Get(HeaderObject)}
	d.Thread, d.Kind = events.ParseDead(subject)
	d.Reason, d.Subject, d.Data = h.Get(HeaderReason), h.Get(HeaderSubject), data
	d.Seq, _ = strconv.ParseUint(h.Get(HeaderEventSeq), 10, 64)
	if d.object != "" {
		d.Data, d.Size = nil, -1
	}
	return d
}

// OpenDead reads the message as it came, from wherever its bytes are.
func (c *Conn) OpenDead(ctx context.Context, d DeadLetter) (io.Reader, error) {
	if d.object == "" {
		return bytes.NewReader(d.Data), nil
	}
	o, err := c.Stat(ctx, events.InboxBucket, d.object)
	if err != nil {
		return nil, fmt.Errorf("bytes of dead letter %d: %w", d.At, err)
	}
	return c.Open(ctx, o), nil
}

// DropDead removes a dead letter for good. Its bytes in the inbox, if it has such, are gc's from then on. Doing it again changes
// nothing.
func (c *Conn) DropDead(ctx context.Context, at uint64) error {
	s, err := c.leaderStream(ctx, events.DeadStream)
	if err != nil {
		return fmt.Errorf("remove dead letter %d: %w", at, wrapErr(err))
	}
	if err = s.SecureDeleteMsg(ctx, at); err == nil {
		return nil
	}
	if _, gone := s.GetMsg(ctx, at); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("remove dead letter %d: %w", at, wrapErr(err))
}

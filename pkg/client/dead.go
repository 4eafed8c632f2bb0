package client

import (
	"context"
	"fmt"
	"io"

	"spool/internal/natsio"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// DeadLetter is an event that could not be applied (SPEC B1).
type DeadLetter = natsio.DeadLetter

// DeadLetters lists the dead letters, oldest first.
func (s SessionHandle) DeadLetters(ctx context.Context) (out []DeadLetter, err error) {
	err = s.c.dead.EachLetter(ctx, events.Thread{Session: s.ID}, func(d DeadLetter) error { out = append(out, d); return nil })
	return out, err
}

// DeadLetter reads one by its sequence in SPOOL_DEAD.
func (a Admin) DeadLetter(ctx context.Context, at uint64) (DeadLetter, error) {
	return a.c.dead.Letter(ctx, at)
}

// OpenDeadLetter reads the bytes of one as they came.
func (a Admin) OpenDeadLetter(ctx context.Context, d DeadLetter) (io.Reader, error) {
	return a.c.dead.OpenLetter(ctx, d)
}

// letterBytes reads them all: an envelope, whose body is beside it when it is large.
func (c *Client) letterBytes(ctx context.Context, d DeadLetter) ([]byte, error) {
	r, err := c.dead.OpenLetter(ctx, d)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		err = fmt.Errorf("dead letter %d: %w", d.At, err)
	}
	return raw, err
}

// RemoveDeadLetters removes dead letters for good. record.ErrNotFound: there is none at one of the numbers.
func (a Admin) RemoveDeadLetters(ctx context.Context, at ...uint64) error {
	return a.c.dead.DropLetters(ctx, at...)
}

// ReplayDeadLetter publishes the event of a dead letter again, to the thread that it was for, behind whatever came since. Where
// what was wrong with it still is, it comes back with the reason. It is published under an identity of its own, made of the
// event's: its thread may have gone on to later events of its producer, and replaying it twice adds it once, from another letter
// of the same event too, and from that of what came back. had: its thread had it from an earlier replay, and nothing is
// published. An error when the bytes are no event, which no version of this program has published.
func (a Admin) ReplayDeadLetter(ctx context.Context, at uint64) (had bool, err error) {
	d, err := a.c.dead.Letter(ctx, at)
	if err != nil {
		return false, err
	}
	raw, err := a.c.letterBytes(ctx, d)
	if err != nil {
		return false, err
	}
	e, err := events.Open(d.Subject, raw)
	if err != nil {
		return false, fmt.Errorf("dead letter %d is not an event that can be published again: %w", at, err)
	}
	if !threads.IsReplayer(e.Producer) { // else it came back, and has its identity
		is := e.Digest()
		e.Producer, e.Epoch = threads.ReplayerOf(e.Producer, e.Epoch, e.Seq, is[:]), 0
	}
	e.Prev = 0
	if h, err := a.c.Thread(e.Thread).Head(ctx); err == nil && h.Duplicate(e.Producer, e.Epoch, e.Seq) {
		return true, nil
	}
	return false, a.c.events.PublishEvents(ctx, []*events.Event{&e})
}

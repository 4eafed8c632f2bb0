package client

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"spool/internal/natsio"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// DeadLetter is an event that could not be applied (SPEC B1).
type DeadLetter = natsio.DeadLetter

// DeadLetters lists them, oldest first; those of a session, or all.
func (c *Client) DeadLetters(ctx context.Context, session string) (out []DeadLetter, err error) {
	err = c.dead.EachLetter(ctx, session, func(d DeadLetter) error { out = append(out, d); return nil })
	return out, err
}

// DeadLetter reads one by its sequence in SPOOL_DEAD.
func (c *Client) DeadLetter(ctx context.Context, at uint64) (DeadLetter, error) {
	return c.dead.Letter(ctx, at)
}

// OpenDeadLetter reads the bytes of one as they came.
func (c *Client) OpenDeadLetter(ctx context.Context, d DeadLetter) (io.Reader, error) {
	return c.dead.OpenLetter(ctx, d)
}

// RemoveDeadLetters removes dead letters for good. record.ErrNotFound: there is none at one of the numbers.
func (c *Client) RemoveDeadLetters(ctx context.Context, at ...uint64) error {
	return c.dead.DropLetters(ctx, at...)
}

// ReplayDeadLetter publishes the event of a dead letter again, to the thread that it was for, behind whatever came since. Where
// what was wrong with it still is, it comes back with the reason. It is published under an identity of its own, that of the
// letter: its thread may have gone on to later events of its producer, and replaying it twice adds it once. An error when the
// bytes are no event, which no version of this program has published.
func (c *Client) ReplayDeadLetter(ctx context.Context, at uint64) error {
	d, err := c.dead.Letter(ctx, at)
	if err != nil {
		return err
	}
	r, err := c.dead.OpenLetter(ctx, d)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(r) // an envelope: its body is beside it when it is large
	if err != nil {
		return fmt.Errorf("dead letter %d: %w", at, err)
	}
	e, err := events.Open(d.Subject, raw)
	if err != nil {
		return fmt.Errorf("dead letter %d is not an event that can be published again: %w", at, err)
	}
	e.Producer, e.Epoch, e.Prev = threads.Ephemeral+"dead."+strconv.FormatUint(at, 10), 0, 0
	return c.events.PublishEvents(ctx, []*events.Event{&e})
}

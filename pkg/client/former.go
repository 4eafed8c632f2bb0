package client

import (
	"context"
	"errors"
	"fmt"

	"spool/pkg/events"
)

// Retire gives all that a thread holds the name of a former one and frees its own, so that the source of the thread,
// which was rewritten, can be imported under it (SPEC P6). It returns when both are done, with the name that it has
// now. After a crash in between both threads are there, and doing it again goes on. Errors are those of Fork and
// Remove; ErrBusyThread: an event was applied to the thread meanwhile, and it stays.
func (c *Client) Retire(ctx context.Context, t events.Thread) (former events.Thread, err error) {
	head, err := c.AwaitThread(ctx, t)
	if err != nil {
		return t, err
	}
	former = events.FormerThread(t, head.Head().Ref.Hex())
	if err := c.quiet(ctx, t, false); err != nil {
		return former, err
	}
	err = c.Fork(ctx, former, events.Fork{Session: t.Session, Thread: t.Name, Whole: true})
	if err != nil && !errors.Is(err, ErrThreadExists) {
		return former, err
	}
	err = c.remove(ctx, t, events.Remove{UnchangedSince: head.Applied})
	if now, look := c.Thread(ctx, t); errors.Is(err, ErrRefused) && look == nil && now.Applied > head.Applied {
		err = fmt.Errorf("%w: somebody writes to %s: %w", ErrBusyThread, t, err)
	}
	return former, err
}

// Beside are the other threads of a thread's session.
func (c *Client) Beside(ctx context.Context, t events.Thread) ([]events.Thread, error) {
	all, err := c.Threads(ctx, t.Session)
	if err != nil {
		return nil, err
	}
	var out []events.Thread
	for _, x := range all {
		if x.Thread != t {
			out = append(out, x.Thread)
		}
	}
	return out, nil
}

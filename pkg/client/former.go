package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"spool/internal/apply"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Retire gives all that a thread holds the name of a former one and frees its own, so that the source of the thread,
// which was rewritten, can be imported under it (SPEC P6). head is what the caller knows of the thread. Retire returns when
// both are done, with the name that it has now. After a crash in between both threads are there, and doing it again goes on.
// Those who retire one thread from the same head do it once: all of them are given its name. Errors are those of Fork and
// Remove; ErrBusyThread: an event was applied to the thread since head, and it stays.
func (i Internal) Retire(ctx context.Context, t events.Thread, head threads.Head) (former events.Thread, err error) {
	former = events.FormerThread(t, head.Head().Ref.Hex())
	p := i.c.Publisher(PublisherConfig{Producer: retirerOf(head)})
	// Another one may do the same at any time: it is done where the name was left by that producer's removal.
	err = i.c.retire(ctx, p, t, former, head)
	if done, look := i.c.retired(ctx, t, p.Producer()); err != nil && look == nil && done {
		return former, nil
	}
	return former, err
}

// retirerOf is who retires a thread from a head: the same for all who do, so that persisters take their operations for one, sent again.
func retirerOf(head threads.Head) string {
	return fmt.Sprintf("%sretire.%s.%d", threads.Ephemeral, head.Head().Ref.Hex()[:16], head.Applied)
}

func (c *Client) retire(ctx context.Context, p *Publisher, t, former events.Thread, head threads.Head) error {
	if err := c.unchanged(ctx, t, head); err != nil {
		return err
	}
	if err := c.quiet(ctx, t, false); err != nil {
		return err
	}
	whole := events.Fork{Session: t.Session, Thread: t.Name, Whole: true}
	switch err := c.checkFork(ctx, former, whole); {
	case errors.Is(err, ErrThreadExists): // a crash came behind the fork
	case err != nil:
		return fmt.Errorf("fork %s: %w", former, err)
	default:
		if err := p.Control(ctx, former, 1, events.Control{Op: events.OpFork, Fork: &whole}); err != nil {
			return err
		}
		if err := c.awaitStored(ctx, former, p.Producer(), 0, 1); err != nil {
			return err
		}
	}
	if err := c.unchanged(ctx, t, head); err != nil {
		return err
	}
	rm := events.Control{Op: events.OpRemove, Remove: &events.Remove{UnchangedSince: head.Applied}}
	if err := c.Publisher(p.cfg).destroy(ctx, t, rm); err != nil {
		return err
	}
	err := c.awaitLeaving(ctx, t, p.Producer())
	if busy := c.unchanged(ctx, t, head); errors.Is(err, ErrRefused) && errors.Is(busy, ErrBusyThread) {
		err = fmt.Errorf("%w: %w", busy, err)
	}
	return err
}

// unchanged returns ErrBusyThread where an event was applied to a thread since a head of it.
func (c *Client) unchanged(ctx context.Context, t events.Thread, head threads.Head) error {
	now, err := c.Thread(t).AwaitHead(ctx)
	if err == nil && now.Applied > head.Applied {
		err = fmt.Errorf("%w: somebody writes to %s", ErrBusyThread, t)
	}
	return err
}

// retired tells whether a producer has removed a thread.
func (c *Client) retired(ctx context.Context, t events.Thread, producer string) (bool, error) {
	left, err := apply.ReadLeft(ctx, c.records, t)
	return left != nil && left.Head.Duplicate(producer, 0, 1), err
}

// Beside are the other threads of a thread's session, with where they are.
func (i Internal) Beside(ctx context.Context, t events.Thread) (iter.Seq2[events.Thread, threads.Head], error) {
	all, err := i.c.Session(t.Session).Threads(ctx)
	return func(yield func(events.Thread, threads.Head) bool) {
		for _, x := range all {
			if x.Thread != t && !yield(x.Thread, x.Head) {
				return
			}
		}
	}, err
}

package client

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/natsio"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Had is an item that was stored under a name; the zero value is none.
type Had struct {
	N    int64
	Life uint64
	Node string // where it is in its thread; "": as SPOOL_ITEMS has the item
}

func hadOf(it Item) Had { return Had{it.N, it.Life, it.Node} }

// CameBack reports whether an item under a name is of the thread that the item before it is of, which a reader of the name
// had in an earlier life of it: it was renamed, and had its name again. What came between is stored under its other names;
// it is what follows the earlier item in the nodes of head. Without a start, head is of another thread. An error: nobody can tell.
func (i Internal) CameBack(ctx context.Context, t events.Thread, at, had Had) (head threads.Head, err error) {
	if had.N <= 0 || had.N >= at.N || had.Life >= at.Life {
		return head, nil
	}
	if had.Node == "" {
		had.Node, err = i.c.nodeOf(ctx, t, had)
	}
	if err == nil {
		head, err = i.c.holder(ctx, t, at)
	}
	if err != nil {
		return threads.Head{}, err
	}
	if same, err := i.c.has(ctx, head, had); err != nil || !same {
		return threads.Head{}, err
	}
	return head, nil
}

// Continues reports whether what a reader had, in an earlier life of some name, is of the thread that has a name now, with
// that head: it was renamed since. That is certain under the name that it began with, where that was used before, and is
// found out by the item where it has had the name before; what cannot be told is false.
func (i Internal) Continues(ctx context.Context, t events.Thread, head threads.Head, had Had) (bool, error) {
	switch {
	case had.N > head.N, had.Life >= head.Life, head.Life == head.Began: // the last: it was never renamed
		return false, nil
	case had.Life != 0 && had.Life == head.Began:
		return true, nil
	case had.N <= 0, had.Life != 0 && had.Life < head.Began:
		return false, nil
	}
	node, err := i.c.nodeOf(ctx, t, had)
	if errors.Is(err, threads.ErrNoPoint) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	had.Node = node
	return i.c.has(ctx, head, had)
}

// nodeOf finds where an item is in its thread, as SPOOL_ITEMS has it.
func (c *Client) nodeOf(ctx context.Context, t events.Thread, h Had) (string, error) {
	stored, err := c.items.First(ctx, t, h.Life, h.N)
	if err != nil {
		return "", err
	}
	if stored.N != h.N || stored.Life != h.Life {
		return "", fmt.Errorf("%w: which thread it was that had the name %s before cannot be told: SPOOL_ITEMS has its item %d no more",
			threads.ErrNoPoint, t, h.N)
	}
	was, err := parseItem(stored.Data)
	return was.Node, err
}

// holder finds the thread that an item was stored of under a name, whatever it is called now. threads.ErrNoThread: no thread has the item.
func (c *Client) holder(ctx context.Context, t events.Thread, at Had) (threads.Head, error) {
	head, err := c.Thread(t).Head(ctx)
	if err == nil && head.Life == at.Life {
		return head, nil
	}
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		return head, err
	}
	all, err := c.Session(t.Session).Threads(ctx)
	if err != nil {
		return head, err
	}
	for _, x := range all {
		if x.Head.N < at.N {
			continue
		}
		if ok, err := c.has(ctx, x.Head, at); err != nil && !isUnreadable(err) {
			return head, err
		} else if ok {
			return x.Head, nil
		}
	}
	return threads.Head{}, fmt.Errorf("%w: %s: another one has its name now, and none of the session its item %d",
		threads.ErrNoThread, t, at.N)
}

// has reports whether a thread has an item.
func (c *Client) has(ctx context.Context, head threads.Head, h Had) (bool, error) {
	step, err := c.reader.At(ctx, head, threads.Point{Item: h.N})
	if errors.Is(err, threads.ErrNoPoint) {
		return false, nil
	}
	return err == nil && step.At.Ref.String() == h.Node, err
}

// hadBefore is what a reader who began at a position had of a name when an item came, if SPOOL_ITEMS still has it.
func (c *Client) hadBefore(ctx context.Context, t events.Thread, before uint64, began natsio.Position) (Had, error) {
	m, err := c.items.LastBefore(ctx, events.ItemFilter(t.Session, t.Name, ""), before, began)
	if err != nil || m.Seq == 0 {
		return Had{}, err
	}
	it, err := parseItem(m.Data)
	return Had{it.N, m.Life, it.Node}, err
}

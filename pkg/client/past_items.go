package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// ItemsFrom makes the items of a thread again from its nodes, in order, from number n to the last one that the head has: the
// same, byte for byte, as were sent. What it reads does not depend on how much of the thread is before n.
func (t ThreadHandle) ItemsFrom(ctx context.Context, head threads.Head, n int64) iter.Seq2[events.Posted, error] {
	return project.ItemsFrom(ctx, t.c.reader, t.Thread, head, n)
}

// ItemsBack makes the items of a thread again, from the one before a number back to the first, over all its branches. Who stops early
// reads no more than that.
func (t ThreadHandle) ItemsBack(ctx context.Context, head threads.Head, before int64) iter.Seq2[events.Posted, error] {
	return project.ItemsBack(ctx, t.c.reader, t.Thread, head, before)
}

// maxFull is the most bytes of an item that FullItem gives.
const maxFull = 64 << 20

// ErrTooLong: an item is too large to be had in one piece. The log of its thread streams it (ThreadHandle.Log).
var ErrTooLong = family.Invalid.New("item of more than 64 MiB is too large to be read in one piece: read its local_log")

// FullItem makes an item as it was before any cut (SPEC I5), up to 64 MiB; above, the error wraps ErrTooLong.
// threads.ErrNoPoint: the thread has no item of that number.
func (t ThreadHandle) FullItem(ctx context.Context, head threads.Head, n int64) ([]byte, error) {
	step, err := t.c.reader.At(ctx, head, threads.Point{Item: n})
	if err != nil {
		return nil, err
	}
	lines := &bounded{most: maxFull}
	w := bufio.NewWriter(lines)
	if err := errors.Join(t.c.writeItems(ctx, t.Thread, step, w), w.Flush()); err != nil {
		return nil, fmt.Errorf("item %d of %s: %w", n, t.Thread, err)
	}
	for line := range bytes.Lines(lines.buf.Bytes()) {
		if got, _ := jsonscan.Int(jsonscan.Get(line, "n")); got == n {
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
	}
	return nil, fmt.Errorf("%w: item %d of %s", threads.ErrNoPoint, n, t.Thread)
}

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	buf  bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		return 0, ErrTooLong
	}
	return b.buf.Write(p)
}

var _ io.Writer = (*bounded)(nil)

// FindNode finds the thread that a state is in, and the number of its first item: that which hint names if it has it, else any.
// It looks through the heads of all threads that begin like the state's. threads.ErrNoStep: no thread has it. A state that is in
// no pack costs one look at the headers of all, and none for a while when it is asked for again.
func (c *Client) FindNode(ctx context.Context, ref casstore.Ref, hint events.Thread) (t events.Thread, n int64, err error) {
	if hint.Validate() == nil {
		if head, err := c.Thread(hint).Head(ctx); err == nil {
			if step, err := c.reader.FindNode(ctx, head, ref); err == nil {
				return hint, step.Entry.First, nil
			}
		}
	}
	at, err := c.reader.Nodes.Locate(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) {
		return t, 0, fmt.Errorf("%w: %w", threads.ErrNoStep, err)
	}
	if err != nil {
		return t, 0, err
	}
	state, err := c.reader.State(ctx, at)
	if errors.Is(err, threads.ErrShape) {
		return t, 0, fmt.Errorf("%w: %s is a node, but no state of a thread", threads.ErrNoStep, ref)
	}
	if err != nil {
		return t, 0, err
	}
	all, err := c.EverySession().Threads(ctx)
	if err != nil {
		return t, 0, err
	}
	for _, one := range all {
		if one.Head.Start.Ref != state.Start {
			continue
		}
		switch _, err := c.reader.FindNode(ctx, one.Head, ref); {
		case err == nil:
			return one.Thread, state.Entry.First, nil
		case !errors.Is(err, threads.ErrNoPoint):
			return t, 0, err
		}
	}
	return t, 0, fmt.Errorf("%w: %s is stored, but in no thread: its thread was removed, or goes on without it", threads.ErrNoStep, ref)
}

// Forked is where a thread left another one.
type Forked struct {
	From  events.Thread
	N     int64        // items that both have
	Point casstore.Ref // newest state that both have; zero: they have the start alone
}

// ForkPoint is where a thread left the one that it is a fork of; ok is false for a thread that is none. It walks back to that
// point.
func (i Internal) ForkPoint(ctx context.Context, head threads.Head) (f Forked, ok bool, err error) {
	if len(head.Recent) == 0 {
		return f, false, nil
	}
	for step, err := range i.c.reader.Walk(ctx, head.Head()) {
		if err != nil {
			return f, false, err
		}
		if step.Role != threads.RoleFork {
			continue
		}
		f.N, f.Point = step.Entry.First-1, step.Parent
		f.From, ok = ForkedFrom(step.State)
		return f, ok, nil
	}
	return f, false, nil
}

// ForkedFrom is the thread that one was forked from, as the first state of the fork says; ok is false for another state.
func ForkedFrom(st threads.State) (from events.Thread, ok bool) {
	if st.Role != threads.RoleFork {
		return from, false
	}
	meta, err := casstore.DecodeValue(st.Meta)
	m, _ := meta.(map[string]any)
	name, _ := m["from"].(string)
	if err == nil {
		from, err = events.ParseThread(name)
	}
	return from, err == nil
}

// SeekBlob reads a blob from any place, in bounded memory, and says how long it is. Whoever reads it from beginning to end learns
// at its end if the bytes have another hash. Errors wrap casstore.ErrNotFound or casstore.ErrGone.
func (c *Client) SeekBlob(ctx context.Context, ref casstore.Ref) (io.ReadSeekCloser, int64, error) {
	return c.store.SeekBlob(ctx, ref)
}

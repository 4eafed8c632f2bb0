package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Renamed says that a thread has another name now. It is a threads.ErrNoThread.
type Renamed struct{ From, To events.Thread }

func (e *Renamed) Error() string { return fmt.Sprintf("%s was renamed: it is %s now", e.From, e.To) }

// Unwrap is threads.ErrNoThread: there is no thread of the old name.
func (e *Renamed) Unwrap() error { return threads.ErrNoThread }

func (c *Client) gone(ctx context.Context, t events.Thread) error {
	rs, err := c.records.Records(ctx, events.LeftKey(t))
	if err != nil {
		return err
	}
	if !rs[0].Exists() {
		return fmt.Errorf("%w: %s", threads.ErrNoThread, t)
	}
	left, err := record.DecodeLeft(rs[0].Value)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", rs[0].Key, err)
	case left.To != "":
		return &Renamed{From: t, To: events.Thread{Session: t.Session, Name: left.To}}
	}
	return fmt.Errorf("%w: %s was removed", threads.ErrNoThread, t)
}

// Compact makes a summary stand for everything so far in what a model is sent, but for the entries from firstKept on, an id or
// the ref of a state, if it is not "" (SPEC C6). All that came before stays in the thread. In an omp session it appends the
// compaction that omp itself writes. Errors wrap threads.ErrNoThread, ErrEnded, events.ErrControl or sessions.ErrNotFound.
func (t ThreadHandle) Compact(ctx context.Context, summary, firstKept string) error {
	head, err := t.c.open(ctx, t.Thread)
	if err != nil {
		return err
	}
	if summary == "" {
		return fmt.Errorf("%w: compact %s: the summary is empty", events.ErrControl, t.Thread)
	}
	if firstKept != "" {
		if _, err := apply.FindKept(ctx, t.c.reader, t.Thread, head, firstKept); err != nil {
			return err
		}
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: summary, FirstKept: firstKept}})
}

// Reopen makes a failed thread active again (SPEC I7, P10). It takes entries meanwhile.
func (t ThreadHandle) Reopen(ctx context.Context) error {
	head, err := t.c.open(ctx, t.Thread)
	if err == nil && head.Status != threads.StatusFailed {
		err = fmt.Errorf("%w: reopen: %s is %s; only a failed thread is reopened", events.ErrControl, t.Thread, head.Status)
	}
	if err != nil {
		return err
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpReopen, Reopen: &events.Reopen{}})
}

// Force, true, makes Rename and Remove not mind live runs and outputs: open outputs go with a thread that is renamed, and are dropped with
// one that is removed.
type Force bool

// Rename gives a thread another name in its session, and returns when it has it. Whoever reads the old name gets Renamed, what
// is published to it goes to the dead letters. Items that were sent keep the old name. ErrBusyThread: a prompt of the thread
// waits, or a run or an output of it is live. ErrThreadExists: the name is taken.
func (t ThreadHandle) Rename(ctx context.Context, to string, how ...Force) error {
	c, force := t.c, slices.Contains(how, true)
	target := events.Thread{Session: t.Session, Name: to}
	if err := target.Validate(); err != nil {
		return err
	}
	if _, err := c.open(ctx, t.Thread); err != nil {
		return err
	}
	if err := c.quiet(ctx, t.Thread, force); err != nil {
		return err
	}
	var was *Renamed
	switch _, err := c.Thread(target).AwaitHead(ctx); {
	case err == nil:
		return fmt.Errorf("rename %s: %w: %s", t.Thread, ErrThreadExists, target)
	case errors.As(err, &was) && was.To != t.Thread:
		return fmt.Errorf("rename %s: %w: %w", t.Thread, ErrThreadExists, err)
	case !errors.Is(err, threads.ErrNoThread):
		return err
	}
	p := c.Publisher(PublisherConfig{})
	if err := p.Control(ctx, t.Thread, 1, events.Control{Op: events.OpRename, Rename: &events.Rename{To: to, Force: force}}); err != nil {
		return err
	}
	return c.awaitLeaving(ctx, t.Thread, p.Producer())
}

// Remove takes a thread out of the index or the history (SPEC C9), and returns when it is gone. Its name is free then; its
// nodes stay for as long as another thread has them. ErrBusyThread as for Rename.
func (t ThreadHandle) Remove(ctx context.Context, how ...Force) error {
	c, force := t.c, slices.Contains(how, true)
	if _, err := t.AwaitHead(ctx); err != nil && !(force && isUnreadable(err)) {
		return err
	}
	if err := c.quiet(ctx, t.Thread, force); err != nil {
		return err
	}
	p := c.Publisher(PublisherConfig{})
	if err := p.destroy(ctx, t.Thread, events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: force}}); err != nil {
		return err
	}
	return c.awaitLeaving(ctx, t.Thread, p.Producer())
}

// ErrBusyThread: somebody works in the thread.
var ErrBusyThread = family.Conflict.New("thread is busy")

// quiet refuses to take a thread away from under an open prompt or, unless it is forced, a live run or output.
func (c *Client) quiet(ctx context.Context, t events.Thread, force bool) error {
	prompts, err := c.Session(t.Session).Prompts(ctx)
	if err != nil {
		return err
	}
	for _, p := range prompts {
		if p.Thread == t {
			return fmt.Errorf("%w: prompt %q of %s waits for its answer", ErrBusyThread, p.ID, t)
		}
	}
	if force {
		return nil
	}
	outputs, err := c.Session(t.Session).Outputs(ctx)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		if o.Thread == t {
			return fmt.Errorf("%w: output %s of %s is open", ErrBusyThread, o.ID, t)
		}
	}
	runs, err := c.Session(t.Session).Runs(ctx)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Thread == t && r.Active() {
			return fmt.Errorf("%w: run %s of %s is %s", ErrBusyThread, r.ID, t, r.State)
		}
	}
	return nil
}

// awaitLeaving returns when a thread has left its name, by the first event of a producer, which SPOOL_EVENTS has taken; ErrRefused if
// it has not, and ErrRemoved when its session was deleted behind.
func (c *Client) awaitLeaving(ctx context.Context, t events.Thread, producer string) error {
	err := natsio.Settle(ctx, c.events, t, natsio.UpTo(c.events, t, 0), func(done bool) (bool, error) {
		rs, err := c.records.Records(ctx, events.LeftKey(t), events.HeadKey(t))
		if err != nil {
			return false, err
		}
		if rs[0].Exists() {
			left, err := record.DecodeLeft(rs[0].Value)
			if err != nil {
				return false, err
			}
			if head, err := threads.DecodeHead(left.Head); err != nil || head.Duplicate(producer, 0, 1) {
				return true, err
			}
		}
		if rs[1].Exists() {
			if head, err := c.head(ctx, rs[1].Value); err == nil && head.Duplicate(producer, 0, 1) {
				return false, fmt.Errorf("%s: %w", t, ErrRefused)
			}
		}
		if done { // a name that no thread has notes nothing of what it refuses
			return false, cmp.Or(c.refusal(ctx, waited{thread: t, producer: producer, first: 1, seq: 1}), fmt.Errorf("%w: %s", ErrRemoved, t))
		}
		return false, nil
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%s has not left its name yet; is a persister running? %w", t, err)
	}
	return err
}

// HeadFilter chooses active threads; empty fields choose everything.
type HeadFilter struct {
	Session string
	Thread  string
	Current bool // begin with the threads as they are
}

func (f HeadFilter) from() natsio.From {
	if f.Current {
		return natsio.FromCurrent
	}
	return natsio.FromNow
}

// Heads follows the heads of active threads as they move, until ctx ends or the caller stops (SPEC C10). Of a head that moves
// quickly the last place comes for certain. Threads that end, and have ended, tell nothing. ready, if not nil, is called
// once the watch stands: every later move will come.
func (c *Client) Heads(ctx context.Context, f HeadFilter, ready func()) iter.Seq2[Thread, error] {
	return func(yield func(Thread, error) bool) {
		filter := events.HeadKey(events.Thread{Session: cmp.Or(f.Session, "*"), Name: cmp.Or(f.Thread, "*")})
		for r, err := range c.records.Watch(ctx, filter, f.from(), ready) {
			if err == nil && !r.Exists() {
				continue
			}
			t, _ := events.ParseHeadKey(r.Key)
			out := Thread{Thread: t}
			if err == nil {
				if out.Head, err = threads.DecodeHead(r.Value); err != nil {
					err = fmt.Errorf("%s: %w", r.Key, err)
				}
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

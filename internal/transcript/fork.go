package transcript

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// Fork is what an export says of a fork's file: where it branches off.
type Fork struct {
	Thread events.Thread // that the file is of
	From   events.Thread // that it was forked from
	Lines  int           // that both have: the file's first ones
}

// name has the file be its fork's, where it is of the session that the export says.
func (f *file) name() {
	switch fork := f.src.Fork; {
	case fork == nil:
	case f.id.Agent != "" || f.id.Thread.Session != fork.Thread.Session:
		f.src.Fork = nil
	default:
		f.id.Thread = fork.Thread
	}
}

// inOrder sorts forks so that each comes behind the one that it branches off from.
func inOrder(forks []Identity, files map[Identity][]*file) {
	from := map[events.Thread]events.Thread{}
	for _, id := range forks {
		from[id.Thread] = files[id][0].src.Fork.From
	}
	depth := func(id Identity) (n int) {
		for t, ok := from[id.Thread]; ok && n <= len(from); t, ok = from[t] {
			n++
		}
		return n
	}
	slices.SortStableFunc(forks, func(a, b Identity) int { return depth(a) - depth(b) })
}

// fork begins the thread of a file as the fork that an export says it is, so that it shares what both have with the thread that it
// branches off from. Where that thread does not have these lines, the file is imported whole. A crash behind it leaves a fork without
// lines of its own; the next import finds its producer there, and goes on. errOther: it does not have what the file begins with.
func (im *Importer) fork(ctx context.Context, f *file, c *claim) error {
	fork := f.src.Fork
	if fork == nil || c.thread != fork.Thread || c.lines+c.before > 0 || c.exported || c.joined || !c.started && len(c.head.Producers) > 0 {
		return nil
	}
	from := c.head
	if !c.started {
		im.mu.Lock()
		parent := im.claims[fork.From]
		im.mu.Unlock()
		if parent != nil {
			if err := im.settle(ctx, parent); err != nil {
				return err
			}
		}
		var err error
		if from, err = im.stored.Thread(ctx, fork.From); err != nil && !errors.Is(err, threads.ErrNoThread) {
			return err
		}
	}
	before, at, more, err := im.common(ctx, f, from)
	if err != nil {
		return err
	}
	switch {
	case c.started && (before == 0 || more): // since the fork was begun the file was rewritten, or is that of one which branches off earlier
		return errOther
	case before == 0:
		f.warn(fmt.Sprintf("it is imported whole: %s does not have the %d lines that it shares with it", fork.From, fork.Lines))
		return nil
	}
	if !c.started {
		p := pass{im: im, f: f, c: c}
		op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: fork.From.Session, Thread: fork.From.Name, Index: at}}
		e := &events.Event{Kind: events.KindControl, Seq: 1, Body: op.Encode()}
		if err := p.publish(ctx, []*events.Event{p.stamp(e, startOf(c.producer))}); err != nil {
			return err
		}
		c.started = true
		if err := im.stored.Await(ctx, c.thread, startOf(c.producer), epoch, 1); err != nil {
			return err
		}
		if c.head, err = im.stored.Thread(ctx, c.thread); err != nil {
			return err
		}
	}
	c.before, c.shared = before, true
	return nil
}

// common finds the lines that a fork shares in the thread that it branches off from: the sequence of the last of them in the file, and
// the place of its entry; more: the thread goes on with a line in the very next place, where it would have the entry of a fork. 0: the
// thread does not have them all, in their order.
func (im *Importer) common(ctx context.Context, f *file, from threads.Head) (before uint64, at int64, more bool, err error) {
	if f.src.Fork.Lines <= 0 || len(from.Producers) == 0 {
		return 0, 0, false, nil
	}
	next, stop := iter.Pull2(im.stored.RawEntries(ctx, from))
	defer stop()
	left := f.src.Fork.Lines
	for r, err := range f.src.records() {
		if err != nil {
			return 0, 0, false, err
		}
		if r.torn {
			break
		}
		for {
			line, err, ok := next()
			if err != nil || !ok {
				return 0, 0, false, err
			}
			if r.is(line) {
				at = line.Index
				break
			}
		}
		if before = r.seq(); !r.part {
			if left--; left == 0 {
				line, err, ok := next()
				return before, at, ok && err == nil && line.Index == at+1, nil
			}
		}
	}
	return 0, 0, false, nil
}

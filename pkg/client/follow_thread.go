package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// OutputFrame is a frame of one of a thread's outputs.
type OutputFrame struct {
	Output string
	Frame
}

// FollowOutputs gives the outputs of a thread that are open or begin, each as Follow would, but those that are open from where they
// stand: what they printed before is to be had from OutputFrom. ready is called with those once every later frame will come. It
// goes on until ctx ends.
func (t ThreadHandle) FollowOutputs(ctx context.Context, ready func(open []OpenOutput)) iter.Seq2[OutputFrame, error] {
	return func(yield func(OutputFrame, error) bool) {
		followers := map[string]*follower{}
		over := false
		follow := func(id string, at int64) *follower {
			f := &follower{c: t.c, thread: t.Thread, id: id, at: at, found: at > 0}
			f.yield = func(frame Frame, err error) bool {
				over = over || !yield(OutputFrame{id, frame}, err)
				return !over
			}
			followers[id] = f
			return f
		}
		begun := false
		for live, err := range t.c.live.FollowAll(ctx, t.Thread, silence) {
			if err == nil && !begun {
				begun = true
				var open []OpenOutput
				if open, err = t.Outputs(ctx); err == nil {
					for _, o := range open {
						follow(o.ID, o.Bytes).found = true
					}
					ready(open)
				}
			}
			switch {
			case err != nil:
			case live.Live != nil:
				f := followers[live.Output]
				if f == nil {
					f = follow(live.Output, 0)
				}
				err = f.take(ctx, live.Live)
			default:
				for _, f := range followers {
					err = errors.Join(err, f.take(ctx, nil))
				}
			}
			for id, f := range followers {
				if f.done {
					delete(followers, id)
				}
			}
			if over || ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(OutputFrame{}, err)
				return
			}
		}
	}
}

// Outputs lists the open outputs of a thread.
func (t ThreadHandle) Outputs(ctx context.Context) ([]OpenOutput, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	all, err := t.c.Session(t.Session).Outputs(ctx)
	if err != nil {
		return nil, err
	}
	open := all[:0]
	for _, o := range all {
		if o.Thread == t.Thread {
			open = append(open, o)
		}
	}
	return open, nil
}

// OutputFrom gives what is stored of an output from a byte on, without a gap; the last frame has End if the output has ended. An
// output that is not there yet gives nothing.
func (t ThreadHandle) OutputFrom(ctx context.Context, id string, at int64) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		f := &follower{c: t.c, thread: t.Thread, id: id, at: at, found: at > 0, yield: yield}
		if err := errors.Join(t.Validate(), events.CheckToken("output", id)); err != nil {
			yield(Frame{}, err)
			return
		}
		for more := true; more && !f.done; {
			err := f.catchUp(ctx)
			if err == nil && !f.done {
				more, err = f.behind(ctx)
			}
			if err != nil && !f.done {
				yield(Frame{}, err)
				return
			}
		}
	}
}

// behind reports whether more is stored than was given: the records of an output are read one by one, and may be written between.
func (f *follower) behind(ctx context.Context) (bool, error) {
	rs, err := f.c.records.Records(ctx, events.OutputKey(f.thread.Session, f.id))
	if err != nil || !rs[0].Exists() {
		return f.found, err
	}
	o, err := record.DecodeOutput(rs[0].Value)
	return o.Total > f.at, err
}

// Move is a head that moved.
type Move struct {
	Thread
	Rev  uint64 // of its record; it grows from move to move, over all threads
	Gone error  // not nil: there is no such thread any more, and why
}

// Moves follows the heads of threads like Heads, and tells also when a thread completes or goes.
func (c *Client) Moves(ctx context.Context, f HeadFilter, ready func()) iter.Seq2[Move, error] {
	return func(yield func(Move, error) bool) {
		filter := events.HeadKey(events.Thread{Session: cmp.Or(f.Session, "*"), Name: cmp.Or(f.Thread, "*")})
		for r, err := range c.records.Watch(ctx, filter, f.from(), ready) {
			t, ok := events.ParseHeadKey(r.Key)
			if err == nil && !ok {
				continue
			}
			m := Move{Thread: Thread{Thread: t}, Rev: r.Seq}
			switch {
			case err != nil:
			case r.Exists():
				m.readHead(r)
			default:
				m.Head, err = c.Thread(t).Head(ctx)
				if errors.Is(err, threads.ErrNoThread) {
					m.Gone, err = err, nil
				}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// HeadsSince lists the active threads whose heads moved behind a revision, in no particular order.
func (s SessionHandle) HeadsSince(ctx context.Context, rev uint64) ([]Move, error) {
	rs, err := s.c.records.List(ctx, events.HeadKeys(s.ID))
	if err != nil {
		return nil, err
	}
	var out []Move
	for _, r := range rs {
		t, ok := events.ParseHeadKey(r.Key)
		if !ok || r.Seq <= rev {
			continue
		}
		m := Move{Thread: Thread{Thread: t}, Rev: r.Seq}
		m.readHead(r)
		out = append(out, m)
	}
	return out, nil
}

// ItemsUntilNow gives the stored items that a filter chooses, from a position on, and ends behind the last one. It stops at the
// first error of f, and returns it. An item that was stored twice after a crash comes twice.
func (i Internal) ItemsUntilNow(ctx context.Context, f Filter, from Position, take func(Item) error) error {
	return i.c.items.UntilNow(ctx, f.subjects(), from.stored(), func(stored natsio.StoredItem) error {
		it, err := parseItem(stored.Data)
		if err != nil {
			return fmt.Errorf("%s, sequence %d: %w", stored.Subject, stored.Seq, err)
		}
		it.Seq, it.More, it.Life = stored.Seq, stored.Pending, stored.Life
		return take(it)
	})
}

// ItemsSpan is the sequence of the first item that ITEMS holds, and of the last one that it was given.
func (i Internal) ItemsSpan(ctx context.Context) (first, last uint64, err error) {
	return i.c.items.Span(ctx)
}

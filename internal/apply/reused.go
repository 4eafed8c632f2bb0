package apply

import (
	"context"
	"fmt"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// An entry whose sequence a head knows is a repeat if it says what the entry says that has the sequence. Otherwise its
// producer gave the sequence out twice, and the second entry, which was acknowledged, goes to the dead letters. So does
// what comes behind a later epoch of its producer, and is new: whoever sent it was not told that it is replaced. No
// head has a digest of what it has seen: EVENTS is read back, from the beginning of the thread's life, as far as it
// is there. Where it is not, the event is taken for a repeat (Verdict.Guessed), and fsck names it. So it is with
// operations, and with pieces of another output.

// repeated is the verdict over an event whose sequence a head knows.
func (d *draft) repeated(ctx context.Context, h *threads.Head) (Verdict, error) {
	last, known := h.Last(d.e.Producer)
	itself := (d.e.At <= last.At || d.e.At <= h.Applied) && !d.besideLast(h)
	if !known || d.st.Back == nil || itself {
		return Verdict{Is: Repeated}, nil
	}
	judge := d.reused
	if d.e.Epoch < last.Epoch {
		judge = d.fenced
	}
	verdict, err := judge(ctx, h, last.At)
	if err == nil && verdict.Is != Repeated {
		d.Doubt = true // nothing notes it: its sequence is another entry's
	}
	return verdict, err
}

// besideLast reports whether an event is of the message that a head has passed last: that one may have passed it by another event of the
// message, and know this one's sequence of an earlier event.
func (d *draft) besideLast(h *threads.Head) bool { return d.e.Shared && d.e.At == h.Applied }

// reused is the verdict over an event of the epoch that a head knows, up to the place of the last one that it knows.
func (d *draft) reused(ctx context.Context, h *threads.Head, last uint64) (Verdict, error) {
	repeated, seq, is := Verdict{Is: Repeated}, d.e.Event.Seq, d.e.came()
	if d.besideLast(h) && max(h.Began, d.begins()) >= d.e.At { // nothing came before its message
		return repeated, nil
	}
	given, err := d.given(ctx, h, last+1)
	if err != nil || given.own == nil {
		return Verdict{Is: Repeated, Guessed: true}, err
	}
	if !given.names(seq, d.e.At) {
		if d.besideLast(h) { // itself
			return repeated, nil
		}
		return d.lateForgotten(ctx, h)
	}
	if again, err := d.before(ctx, given); err != nil || again {
		return repeated, err
	}
	// What was refused so is behind the last event that the head knows, in the thread's life. It is no other when it is sent again.
	sent, err := d.st.Back.Sent(ctx, d.st.Key, d.e.Producer, d.e.Epoch, seq, is, max(last+1, d.lives(h)), d.e.At)
	if err != nil || sent {
		return repeated, err
	}
	return Refused(fmt.Errorf("%w: event %d of the producer %s: give every entry a sequence of its own",
		ErrReused, seq, d.e.Producer)), nil
}

// lateForgotten is the verdict over an event whose sequence a head counts as seen, and that nothing in the thread's life
// had. It is new, and late in a gap that the head has forgotten, if nothing of its session had it since.
func (d *draft) lateForgotten(ctx context.Context, h *threads.Head) (Verdict, error) {
	given, err := d.session(ctx, h, d.e.Event.Seq, d.e.At)
	if err != nil || given == nil || given.Names(d.e.Event.Seq, d.e.At) || d.op.Op == events.OpTail {
		return Verdict{Is: Repeated, Guessed: given == nil}, err
	}
	return Refused(cameLate(&d.e.Event)), nil
}

// cameLate is why an event is refused that comes behind a later one of its producer.
func cameLate(e *events.Event) error {
	return fmt.Errorf("%w: event %d of the producer %s", ErrLate, e.Seq, e.Producer)
}

// fenced is the verdict over an event of an earlier epoch than the one that a head knows.
func (d *draft) fenced(ctx context.Context, h *threads.Head, _ uint64) (Verdict, error) {
	seq := d.e.Event.Seq
	given, err := d.given(ctx, h, d.e.At+1)
	if err != nil || given.own == nil {
		return Verdict{Is: Repeated, Guessed: true}, err
	}
	again, err := d.before(ctx, given)
	if err != nil || again {
		return Verdict{Is: Repeated}, err
	}
	superseded, err := d.linkedToNothing(ctx, h)
	switch {
	case err != nil:
		return Verdict{}, err
	case superseded: // its producer was told
		return Verdict{Is: Superseded}, nil
	case d.e.Bad != nil:
		return Refused(d.e.Bad), nil
	}
	return Refused(fmt.Errorf("%w: event %d of epoch %d of the producer %s",
		ErrFenced, seq, d.e.Epoch, d.e.Producer)), nil
}

// linkedToNothing reports whether an event is linked to one that was never stored.
func (d *draft) linkedToNothing(ctx context.Context, h *threads.Head) (bool, error) {
	if d.e.Prev == 0 {
		return false, nil
	}
	given, err := d.givenTo(ctx, h, d.e.Prev, nil, d.e.At+1)
	return given.own != nil && !given.names(d.e.Prev, d.e.At+1), err
}

// given is what the producer of an event gave its sequences to: under the name of the thread in its life, and, where that has not the
// event, under all names of its session: the thread may have had it under another one. nil: nobody knows.
type given struct{ own, all *events.Given }

func (g given) names(seq, at uint64) bool {
	return g.own != nil && g.own.Names(seq, at) || g.all != nil && g.all.Names(seq, at)
}

func (d *draft) given(ctx context.Context, h *threads.Head, before uint64) (given, error) {
	is := d.e.came()
	return d.givenTo(ctx, h, d.e.Event.Seq, &is, before)
}

func (d *draft) givenTo(ctx context.Context, h *threads.Head, seq uint64, is *events.Digest, before uint64) (g given, err error) {
	g.own, err = d.st.Back.Given(ctx, d.st.Key, d.e.Producer, d.e.Epoch, seq, is, d.lives(h), before)
	if err != nil || g.own == nil || is != nil && g.own.Before(seq, *is, d.e.At) {
		return g, err
	}
	g.all, err = d.session(ctx, h, seq, before)
	return g, err
}

// session is what the producer of an event gave a sequence to in all threads of the session, since a thread began.
func (d *draft) session(ctx context.Context, h *threads.Head, seq, before uint64) (*events.Given, error) {
	all := events.Thread{Session: d.st.Key.Session, Name: events.EveryThread}
	return d.st.Back.Given(ctx, all, d.e.Producer, d.e.Epoch, seq, nil, max(h.Began, d.begins()), before)
}

// before reports whether the event's sequence was given to the same before: to this thread, under any name that it had. What came under
// the name of another thread is that one's.
func (d *draft) before(ctx context.Context, g given) (bool, error) {
	seq, is := d.e.Event.Seq, d.e.came()
	if g.own.Before(seq, is, d.e.At) {
		return true, nil
	}
	if g.all == nil || !g.all.Before(seq, is, d.e.At) {
		return false, nil
	}
	for _, place := range g.all.In(seq, is) {
		if place.In == d.st.Key.Name {
			earlier, err := d.earlier(ctx, place.At)
			if err != nil || !earlier {
				return err == nil, err
			}
			continue
		}
		other, err := d.others(ctx, events.Thread{Session: d.st.Key.Session, Name: place.In})
		if err != nil || !other {
			return err == nil, err
		}
	}
	return false, nil
}

// earlier reports whether what came under the thread's name came to another one that had it before, and not to the thread itself before
// it left the name and took it again.
func (d *draft) earlier(ctx context.Context, at uint64) (bool, error) {
	err := d.learnLeft(ctx)
	return d.Left != nil && at <= d.Left.Head.Applied, err
}

// others reports whether what came for a name is another thread's than this one. A name that a thread left by a rename leads to its
// present one, and is taken by nobody else.
func (d *draft) others(ctx context.Context, name events.Thread) (bool, error) {
	own := d.st.Key
	if d.renamed() {
		own.Name = d.Left.To
	}
	own, known, err := d.present(ctx, own)
	if err != nil || !known {
		return false, err
	}
	present, known, err := d.present(ctx, name)
	return known && present != own, err
}

// mostNames is how many names of a thread are followed.
const mostNames = 16

// present is the name that the thread has now, or had last, which had a name.
func (d *draft) present(ctx context.Context, t events.Thread) (now events.Thread, known bool, err error) {
	for range mostNames {
		if t == d.st.Key && !d.renamed() {
			break
		}
		if err := d.w.Settle(ctx, t); err != nil {
			return t, false, err
		}
		left, err := ReadLeft(ctx, d.w, t)
		if err != nil {
			if Passing(err) {
				return t, false, err
			}
			return t, false, nil // nobody knows
		}
		if left == nil || left.To == "" {
			break
		}
		t.Name = left.To
	}
	return t, true, nil
}

// lives is where in EVENTS the life of a thread begins.
func (d *draft) lives(h *threads.Head) uint64 { return max(h.Life, h.Began, d.begins()) }

// came is what an event means, as it came.
func (e *Staged) came() events.Digest {
	if e.Came != nil {
		return *e.Came
	}
	return e.Event.Means()
}

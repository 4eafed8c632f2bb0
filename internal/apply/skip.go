package apply

import (
	"context"
	"errors"
	"fmt"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// skip reports whether an event is not to be applied: its thread has it, or must not take it (yet).
func (d *draft) skip(ctx context.Context) (verdict Verdict, skipped bool, err error) {
	if d.e.At <= d.Head.Applied && !d.duplicate() {
		if err := d.learnLeft(ctx); err != nil {
			return verdict, false, err
		}
	}
	if verdict, had, err := d.had(ctx); had || err != nil {
		return verdict, had, err
	}
	if verdict, again, err := d.repeats(ctx); again || err != nil {
		return verdict, again, err
	}
	if verdict, late, err := d.late(ctx); late || err != nil {
		return verdict, true, err
	}
	standing, err := d.standing(ctx)
	if err != nil || standing == events.Stands {
		return verdict, false, err
	}
	d.mark(standing)
	d.Doubt = true
	if standing == events.Unlinked {
		why := fmt.Errorf("%w: event %d of the producer %s: publish both again", ErrUnlinked, d.e.Prev, d.e.Producer)
		return Refused(why), true, nil
	}
	return Verdict{Is: Superseded}, true, nil
}

// duplicate reports whether the thread's head knows the event.
func (d *draft) duplicate() bool { return d.Head.Duplicate(d.e.Producer, d.e.Epoch, d.e.Seq) }

// late reports whether an event comes behind a later one of its producer, and was never seen. Its producer has an ack for
// it (SPEC P1), but the entries of a producer are in its order.
func (d *draft) late(ctx context.Context) (verdict Verdict, late bool, err error) {
	if !d.Head.Late(d.e.Producer, d.e.Epoch, d.e.Seq) {
		return verdict, false, nil
	}
	if err := d.learnLeft(ctx); err != nil {
		return verdict, false, err
	}
	switch {
	case d.Left != nil && d.Left.Head.Duplicate(d.e.Producer, d.e.Epoch, d.e.Seq): // it was the removed thread's
		verdict, err = d.repeated(ctx, &d.Left.Head)
		return verdict, true, err
	case d.op.Op == events.OpTail: // the later one says all that it does
		return Verdict{Is: Repeated}, true, nil
	case d.e.Bad != nil:
		return d.refuse(d.e.Bad), true, nil
	}
	return d.refuse(cameLate(&d.e.Event)), true, nil
}

// forgets reports whether a head may have forgotten the producer of an event that it has passed. If it has not, EVENTS
// was made anew and counts from 1 again, or was set back and gives the sequences out again that it lost.
func (d *draft) forgets(h *threads.Head) bool {
	return h.Forgets() && (d.st.Back == nil || !d.st.Back.Reused(d.e.At, d.e.Stored))
}

// repeats reports whether a thread has an event already, and notes it.
func (d *draft) repeats(ctx context.Context) (verdict Verdict, repeats bool, err error) {
	duplicate := d.duplicate()
	// An event that the head has passed was applied, and its producer says so too, unless that one is forgotten.
	again := d.e.At <= d.Head.Applied && (duplicate || d.forgets(&d.Head))
	if again && d.Fresh { // an earlier owner of the partition committed it and did not ack
		d.Reconcile = append(d.Reconcile, Reconcile{d.st.Key, d.Head.Clone()})
	}
	d.Fresh = false
	switch {
	case !again && !duplicate:
		return verdict, false, nil
	case duplicate && d.besideLast(&d.Head):
		if verdict, err = d.repeated(ctx, &d.Head); err != nil || verdict.Is != Repeated || d.wasGood() {
			return verdict, true, err
		}
	case !again: // what its producer published again was dealt with when it came first
		d.Doubt = d.e.At > d.st.Looked // a head that was looked at after the event was stored needs no other look
		verdict, err = d.repeated(ctx, &d.Head)
		return verdict, true, err
	case d.wasGood():
		return Verdict{Is: Repeated}, true, nil
	}
	return Refused(d.e.Bad), true, nil // one that comes again may have no dead letter yet
}

// wasGood reports whether an event that comes again may have been applied, whatever is wrong with it now: its body is
// dropped since, or somebody died over it afterwards.
func (d *draft) wasGood() bool {
	return d.e.Bad == nil || errors.Is(d.e.Bad, ErrBody) || errors.Is(d.e.Bad, ErrPoison)
}

// Mark is how the last event of a producer stood that its thread's head does not note.
type Mark struct {
	Seq      uint64
	Standing events.Standing
}

// Marked names a producer in a thread.
type Marked struct {
	Thread   string
	Producer string
	Epoch    uint64
}

// MarkedBy names the producer of an event.
func MarkedBy(e *events.Event) Marked { return Marked{e.Thread.Name, e.Producer, e.Epoch} }

// maxMarks bounds the marks of a session; without one EVENTS is asked again.
const maxMarks = 1024

// mark remembers how an event stood: the next one is linked to it.
func (d *draft) mark(standing events.Standing) { d.Mark = &Mark{d.e.Seq, standing} }

// saw reports whether a thread, or the one that had its name before, has seen an event of the producer of this one.
func (d *draft) saw(seq uint64) bool {
	return d.Head.Duplicate(d.e.Producer, d.e.Epoch, seq) ||
		d.Left != nil && d.Left.Head.Duplicate(d.e.Producer, d.e.Epoch, seq)
}

// standing says how an event stands by what it is linked to (SPEC P2).
func (d *draft) standing(ctx context.Context) (events.Standing, error) {
	prev := d.e.Prev
	if prev == 0 || d.e.PrevRefused || d.saw(prev) {
		return events.Stands, nil
	}
	if m, ok := d.st.Session.Marks[MarkedBy(&d.e.Event)]; ok && m.Seq == prev {
		return m.Standing, nil
	}
	if err := d.learnLeft(ctx); err != nil {
		return 0, err
	}
	if d.saw(prev) {
		return events.Stands, nil
	}
	return d.lookBack(ctx)
}

// How far back EVENTS is searched for what an event is linked to: further with each look, most at last, in sequences of
// EVENTS.
const (
	firstLook = 1 << 10
	mostLook  = 1 << 20
)

// lookBack judges an event by what EVENTS holds before it.
func (d *draft) lookBack(ctx context.Context) (events.Standing, error) {
	if d.st.Back == nil {
		return events.Unlinked, nil
	}
	since, floor, at := d.since(), d.begins(), d.e.At
	for look := uint64(firstLook); ; look *= 8 {
		from := max(since, floor, at-min(look, at))
		past, err := d.st.Back.Past(ctx, d.st.Key, d.e.Producer, d.e.Epoch, from, at+1)
		if err != nil {
			return 0, err
		}
		for n := len(past.Links); n > 0 && past.Links[n-1].At == at && past.Links[n-1].Seq >= d.e.Seq; n-- {
			past.Links = past.Links[:n-1] // itself, and what is behind it in its message
		}
		standing := events.Stand(d.e.Prev, d.saw, past, since)
		if standing == events.Superseded && d.tookLinks() {
			return events.Unlinked, nil
		}
		if standing != events.Unlinked || past.From > from || from <= max(since, floor) || look >= mostLook {
			return standing, nil
		}
	}
}

// tookLinks reports whether the deletion of its session can have taken what an event is linked to: the thread knows a later event of its
// producer, and so what came before is nowhere.
func (d *draft) tookLinks() bool {
	last, known := d.Head.Last(d.e.Producer)
	return d.begins() > 1 && known && last.Epoch == d.e.Epoch && d.e.Prev < last.Seq
}

// since is the first sequence of EVENTS at which an event can have been stored that the thread does not know, of the
// producer of this one: that of the last one that it knows, whose message may hold others behind it.
func (d *draft) since() uint64 {
	since := uint64(1)
	heads := []*threads.Head{&d.Head}
	if d.Left != nil {
		heads = append(heads, &d.Left.Head)
	}
	for _, h := range heads {
		for _, p := range h.Producers {
			if p.ID == d.e.Producer && p.At < d.e.At { // else EVENTS was made anew, and counts from 1 again
				since = max(since, p.At)
			}
		}
	}
	return since
}

// begins is the first sequence of EVENTS that still holds what was published to the session of an event: what came
// before its deletion was dropped with it.
func (d *draft) begins() uint64 {
	deleted := d.st.Session.Deleted
	if deleted == nil || deleted.Seq > d.e.At {
		return 1
	}
	return deleted.Seq + 1
}

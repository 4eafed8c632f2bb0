package apply

import (
	"context"
	"fmt"
	"slices"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// An entry whose sequence a head knows is a repeat if it says what the entry says that has the sequence. Otherwise its
// producer gave the sequence out twice, and the second entry, which was acknowledged, goes to the dead letters. No head
// has a digest of what it has seen: EVENTS is read back, as far as it pays. Where it does not tell, the entry is a
// repeat.
//
// Operations and pieces of outputs are not held against each other: whoever makes the same one again may word it
// otherwise.

// How far EVENTS is read back from the last event of a producer that a head knows: further with each look, most at last,
// in sequences of EVENTS.
const (
	firstReread = 1 << 6
	mostReread  = 1 << 12
)

// repeated is the verdict over an event whose sequence a head knows.
func (d *draft) repeated(ctx context.Context, h *threads.Head) (Verdict, error) {
	reused, err := d.reused(ctx, h)
	if err != nil || !reused {
		return Verdict{Is: Repeated}, err
	}
	d.Doubt = true // nothing notes it: its sequence is the other entry's
	return Refused(fmt.Errorf("%w: event %d of the producer %s: give every entry a sequence of its own",
		ErrReused, d.e.Event.Seq, d.e.Producer)), nil
}

// reused reports whether the sequence of an event, which a head knows, is another entry's.
func (d *draft) reused(ctx context.Context, h *threads.Head) (bool, error) {
	last, known := h.Last(d.e.Producer)
	if !known || !d.st.Rules.Past || d.e.Kind != events.KindEntry || last.Epoch != d.e.Epoch || d.e.At <= last.At ||
		d.e.At <= h.Applied { // it comes again itself
		return false, nil
	}
	reread := func(from, before uint64) ([]events.Linked, bool, error) {
		return d.w.Reread(ctx, d.st.Key, d.e.Producer, d.e.Epoch, max(from, d.begins()), before)
	}
	is := d.e.came()
	before := last.At + 1
	for look, sure := uint64(firstReread), false; !sure; look *= 8 {
		from := before - min(look, last.At)
		links, more, err := reread(from, before)
		if err != nil {
			return false, err
		}
		all := !more || from <= d.begins()
		n := namingOf(links, d.e.Event.Seq, is)
		sure = n.first && n.follows || all && n.taken
		switch {
		case n.same, all && !n.taken:
			return false, nil
		case look >= mostReread && !n.first:
			return false, nil
		case look >= mostReread:
			sure = true
		}
	}
	// What was refused so is behind the last event that the head knows. It is no other when it is sent again.
	links, _, err := reread(max(before, d.e.At-min(mostReread, d.e.At)), d.e.At)
	return !namingOf(links, d.e.Event.Seq, is).same, err
}

// came is the digest of an event as it came.
func (e *Staged) came() events.Digest {
	if e.Came != nil {
		return *e.Came
	}
	return e.Event.Digest()
}

// naming is what a stretch of a producer's events says of a sequence.
type naming struct {
	same    bool // an event of it says the same
	taken   bool // there is one
	first   bool // it comes before all that are above it, as the one does that has the sequence
	follows bool // a message before it holds one that is below it
}

func namingOf(links []events.Linked, seq uint64, is events.Digest) (n naming) {
	n.same = slices.ContainsFunc(links, func(l events.Linked) bool { return l.Seq == seq && l.Is == is })
	n.taken = slices.ContainsFunc(links, func(l events.Linked) bool { return l.Seq == seq })
	if i := slices.IndexFunc(links, func(l events.Linked) bool { return l.Seq >= seq }); i >= 0 {
		n.first, n.follows = links[i].Seq == seq, links[0].At < links[i].At
	}
	return n
}

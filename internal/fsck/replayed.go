package fsck

import (
	"cmp"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// markRefused tells those of a thread's events apart that are dead letters, or were. To publish these again is the
// operator's (SPEC P1): an entry that a repair applied, and its letter too when it is replayed, would be there twice. A
// letter that was removed names a message alone: of several entries in it those are meant that were replayed, as far as
// can be told. A fork whose letter is lost has one again when a repair published it again.
func (a *accountant) markRefused(stored []record.StoredEvent) []replayed {
	in, again := map[uint64]int{}, []*events.Event{}
	for i := range stored {
		in[stored[i].Seq]++
		if threads.IsReplayer(stored[i].Producer) {
			again = append(again, &stored[i].Event)
		}
	}
	evs := make([]replayed, len(stored))
	for i, e := range stored {
		of, letter := a.letters[e.Seq]
		evs[i] = replayed{StoredEvent: e, refused: letter && slices.Contains(of, nameOf(&e.Event)) ||
			isFork(&e.Event) && a.hasLetter(refusal{e.Thread, nameOf(&e.Event)}, e.Event.Digest(), nil)}
		if letter && of == nil {
			evs[i].refused = in[e.Seq] == 1 || a.hasLetter(refusal{e.Thread, nameOf(&e.Event)}, e.Event.Digest(), nil) ||
				slices.ContainsFunc(again, func(r *events.Event) bool { return same(r, &e.Event) })
		}
	}
	return evs
}

// applied leaves the refused ones out.
func applied(evs []replayed) []replayed {
	return slices.DeleteFunc(slices.Clone(evs), func(e replayed) bool { return e.refused })
}

// replayed is an event of a thread.
type replayed struct {
	record.StoredEvent
	refused bool // it is a dead letter, or was one that an operator removed
	lost    bool // it came after the state that the thread goes back to
}

// again is the event to publish again: an entry that says no time keeps that at which it was stored first, so that it makes
// the same nodes, and an answer, which was given to this thread, counts also where the thread begins anew.
func (e replayed) again() *events.Event {
	ev := e.Event
	ev.Time = cmp.Or(ev.Time, e.Stored/int64(time.Millisecond))
	if op, err := events.ParseControl(ev.Body); ev.Kind == events.KindControl && err == nil && op.Op == events.OpAnswer {
		op.Answer.Life = 0
		ev.Body = op.Encode()
	}
	return &ev
}

func isFork(e *events.Event) bool {
	op, err := events.ParseControl(e.Body)
	return e.Kind == events.KindControl && err == nil && op.Op == events.OpFork
}

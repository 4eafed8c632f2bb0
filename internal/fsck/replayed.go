package fsck

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// events are those of a thread that SPOOL_EVENTS still has, in order, the refused ones too. What was published again, by a
// producer that got no ack or by a repair, is not among them: a persister passes it over. Of two copies the second one
// counts where the event before was not stored ahead of the first (SPEC P2): its producer was told, and published both
// again. Until it has, the event is in no thread.
func (f *fixer) events(ctx context.Context, t events.Thread) ([]replayed, error) {
	err := f.c.readLetters(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := f.underAllNames(ctx, t)
	if err != nil {
		return nil, err
	}
	copies := map[copyOf]int{}
	for _, e := range stored {
		copies[copyOf{e.Producer, e.Epoch, e.Event.Seq}]++
	}
	var seen, left, deleted threads.Head
	knows := func(e *record.StoredEvent, seq uint64) bool {
		return seen.Duplicate(e.Producer, e.Epoch, seq) || left.Duplicate(e.Producer, e.Epoch, seq)
	}
	stored = slices.DeleteFunc(stored, func(e record.StoredEvent) bool {
		one := copyOf{e.Producer, e.Epoch, e.Event.Seq}
		copies[one]--
		if e.Prev != 0 && (copies[one] > 0 || f.c.ledger.oldest <= 1) && !knows(&e, e.Prev) {
			return true
		}
		if seen.Duplicate(e.Producer, e.Epoch, e.Event.Seq) {
			return true
		}
		op, err := events.ParseControl(e.Body)
		leaves := e.Kind == events.KindControl && err == nil && (op.Op == events.OpDelete || op.Op == events.OpRemove)
		if leaves && (knows(&e, e.Event.Seq) || deleted.Duplicate(e.Producer, e.Epoch, e.Event.Seq)) {
			return true // it is done once
		}
		seen.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
		if !leaves {
			return false
		}
		if op.Op == events.OpRemove {
			seen.Inherit(&left)
			left = seen
		} else {
			deleted.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
			left = threads.Head{}
		}
		seen = threads.Head{} // what comes behind it has a new life
		return false
	})
	evs := f.c.ledger.markRefused(stored)
	for i := range evs {
		evs[i].Thread = t
	}
	return evs, nil
}

// underAllNames are the stored events of a thread under each name that it had, in order, without those that renamed it, however often
// these were sent.
func (f *fixer) underAllNames(ctx context.Context, t events.Thread) (all []record.StoredEvent, err error) {
	lefts, err := f.c.s.List(ctx, events.LeftKey(events.Thread{Session: t.Session, Name: "*"}))
	if err != nil {
		return nil, err
	}
	of := map[string][]record.StoredEvent{}
	load := func(name string) error {
		if _, done := of[name]; done {
			return nil
		}
		of[name], err = f.w.ThreadEvents(ctx, events.Thread{Session: t.Session, Name: name})
		return err
	}
	if err := load(t.Name); err != nil {
		return nil, err
	}
	name, before := t.Name, uint64(math.MaxUint64)
	followed := map[copyOf]bool{}
	for {
		for _, r := range lefts {
			was, ok := events.ParseLeftKey(r.Key)
			if left, err := record.DecodeLeft(r.Value); !ok || err != nil || left.To != name {
				continue
			}
			if err := load(was.Name); err != nil {
				return nil, err
			}
		}
		from, at, is := f.renamed(of, name, before)
		all = slices.Concat(slices.DeleteFunc(slices.Clone(of[name]), func(e record.StoredEvent) bool { return e.Seq <= at || e.Seq >= before }), all)
		if at == 0 {
			return slices.DeleteFunc(all, func(e record.StoredEvent) bool {
				return e.Kind == events.KindControl && followed[copyOf{e.Producer, e.Epoch, e.Event.Seq}]
			}), nil
		}
		name, before, followed[is] = from, at, true
	}
}

// renamed finds the last rename to a name before a sequence among the events of names: from which one. One that was sent again counts
// where it was first.
func (f *fixer) renamed(of map[string][]record.StoredEvent, to string, before uint64) (from string, at uint64, is copyOf) {
	for name, evs := range of {
		sent := map[copyOf]bool{}
		for i := range evs {
			e := &evs[i]
			op, err := events.ParseControl(e.Body)
			if e.Kind != events.KindControl || err != nil || op.Op != events.OpRename || op.Rename.To != to {
				continue
			}
			one := copyOf{e.Producer, e.Epoch, e.Event.Seq}
			if !sent[one] && e.Seq > at && e.Seq < before && !slices.Contains(f.c.ledger.letters[e.Seq], nameOf(&e.Event)) {
				from, at, is = name, e.Seq, one
			}
			sent[one] = true
		}
	}
	return from, at, is
}

// markRefused tells those of a thread's events apart that are dead letters, or were. To publish these again is the
// operator's (SPEC P1): an entry that a repair applied, and its letter too when it is replayed, would be there twice. A
// letter that was removed names a message alone: of several entries in it those are meant that were replayed, as far as
// can be told.
func (a *accountant) markRefused(stored []record.StoredEvent) []replayed {
	in, again := map[uint64]int{}, []*events.Event{}
	for i := range stored {
		in[stored[i].Seq]++
		if strings.HasPrefix(stored[i].Producer, threads.Replayer) {
			again = append(again, &stored[i].Event)
		}
	}
	evs := make([]replayed, len(stored))
	for i, e := range stored {
		of, letter := a.letters[e.Seq]
		evs[i] = replayed{StoredEvent: e, refused: letter && slices.Contains(of, nameOf(&e.Event))}
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

// copyOf is what two copies of an event of a thread share.
type copyOf struct {
	producer   string
	epoch, seq uint64
}

// replayed is an event of a thread.
type replayed struct {
	record.StoredEvent
	refused bool // it is a dead letter, or was one that an operator removed
	lost    bool // it came after the state that the thread goes back to
}

// again is the event to publish again: an entry that says no time keeps that at which it was stored first, so that it makes
// the same nodes.
func (e replayed) again() *events.Event {
	ev := e.Event
	ev.Time = cmp.Or(ev.Time, e.Stored/int64(time.Millisecond))
	return &ev
}

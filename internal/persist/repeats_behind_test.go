package persist_test

import (
	"fmt"
	"testing"

	"spool/pkg/events"
)

// What comes again behind a rename was applied under the old name: it is a repeat, and no dead letter. A letter that is replayed would
// have the thread take it twice.
func TestRepeatBehindARename(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p := r.deaf()
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	rename := renameTo("other")
	r.control(id, "op", rename)
	r.linked(id, 2, 1) // its ack was lost
	r.control(id, "op", rename)
	r.give(p, 1, 5)
	r.through(p, 5)
	r.noDead()
	r.wantEntries(events.Thread{Session: id.Session, Name: "other"}, 2)
}

func renameTo(name string) events.Control {
	return events.Control{Op: events.OpRename, Rename: &events.Rename{To: name}}
}

// The same of every kind of event, where the thread goes on under its new name, comes back, or goes for good.
func TestRepeatsUnderFormerNames(t *testing.T) {
	r := newRig(t)
	id, other := thread(0), events.Thread{Session: thread(0).Session, Name: "other"}
	p := r.deaf()
	chunk := func(seq uint64) {
		body := `{"op":"start","output":"o"}`
		if seq == 2 {
			body = `{"op":"end","output":"o","seq":1}`
		}
		r.store(&events.Event{Producer: "tool", Seq: seq, Kind: events.KindChunk, Thread: id, Time: 1, Body: []byte(body)})
	}
	again := func() {
		r.linked(id, 1, 0)
		r.control(id, "labels", events.Control{Op: events.OpRename, Rename: &events.Rename{To: id.Name}}) // it is refused
		chunk(1)
		chunk(2)
	}
	all := func() {
		last := r.lastSeq(events.EventsStream)
		r.give(p, uint64(p.Stats().Applied)+1, last)
		r.through(p, int64(last))
	}
	again()
	all()
	letters := len(r.whyDead())
	r.control(id, "away", renameTo("other"))
	again()
	all()
	r.control(other, "back", renameTo(id.Name))
	again()
	r.control(other, "back", renameTo(id.Name))
	all()
	r.store(&events.Event{Producer: "away", Seq: 2, Kind: events.KindControl, Thread: id, Time: 1, Body: renameTo("other").Encode()})
	r.control(other, "rm", events.Control{Op: events.OpRemove, Remove: &events.Remove{}})
	again()
	all()
	if why := r.whyDead(); len(why) != letters {
		t.Errorf("dead letters %q, want the first %d", why, letters)
	}
	if _, err := r.Thread(t.Context(), id); err == nil {
		t.Errorf("%s began anew with what it had", id)
	}
}

// A thread of whom a name was free before takes nothing from those who sent to the earlier one: it is not there any more, and what they
// publish anew is no repeat.
func TestPublishedAnewUnderAFormerName(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p := r.deaf()
	r.linked(id, 1, 0)
	r.control(id, "rm", events.Control{Op: events.OpRemove, Remove: &events.Remove{}})
	e := &events.Event{Producer: "q", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1, Body: message("e00000", "user", 10)}
	r.store(e)
	r.control(id, "away", renameTo("other"))
	r.linked(id, 1, 0)
	r.give(p, 1, 5)
	r.through(p, 5)
	if why := r.whyDead(); len(why) != 1 {
		t.Errorf("dead letters %q, want the entry that is published anew", why)
	}
}

// An event that was refused is refused again in a takeover, to whatever the name has become meanwhile, also when others were refused
// since, in commits of their own, and all that was acknowledged is forgotten.
func TestRefusedOperationIsGivenAgain(t *testing.T) {
	for _, between := range []int{0, 3} {
		t.Run(fmt.Sprint("others refused between: ", between), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			id, other := thread(0), events.Thread{Session: thread(0).Session, Name: "other"}
			remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: true}}
			p := r.deaf()
			r.linked(id, 1, 0)
			r.control(other, "remove", remove) // there is no such thread
			r.control(id, "rename", renameTo("other"))
			last := uint64(3)
			r.give(p, 1, last)
			r.through(p, 3)
			for i := range between {
				r.control(thread(1+i), "remove", remove)
				last++
				r.give(p, last, last)
				r.through(p, int64(last))
			}
			r.wantEntries(other, 1)
			for _, floor := range []uint64{1, 2, 1} {
				next := r.deaf()
				r.give(next, floor, last)
				r.through(next, int64(last-floor+1))
				r.wantEntries(other, 1)
			}
			if n := len(r.whyDead()); n != 1+between {
				t.Errorf("%d dead letters, want %d", n, 1+between)
			}
		})
	}
}

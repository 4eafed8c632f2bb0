package persist_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
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
	if _, err := r.Thread(id).Head(t.Context()); err == nil {
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
			must.Same(t, len(r.whyDead()), 1+between, "%d dead letters, want %d")
		})
	}
}

func removal() events.Control {
	return events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: true}}
}

// firstRefusals are operations that a name without a thread refuses, and what there is before they come.
func firstRefusals() map[string]func(r *rig, id events.Thread) {
	op := func(c events.Control) func(*rig, events.Thread) {
		return func(r *rig, id events.Thread) { r.control(id, "op", c) }
	}
	return map[string]func(*rig, events.Thread){
		"remove": op(removal()),
		"rename": op(renameTo("other")),
		"end":    op(events.Control{Op: events.OpEnd, End: &events.End{}}),
		"delete": func(r *rig, id events.Thread) { // a run of another thread lives
			elsewhere := events.Thread{Session: id.Session, Name: "elsewhere"}
			r.control(elsewhere, "run", events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "running", Lease: 3_600_000}})
			r.control(id, "op", events.Control{Op: events.OpDelete, Delete: &events.Delete{}})
			r.store(&events.Event{Producer: "run", Seq: 2, Kind: events.KindControl, Thread: elsewhere, Time: 2,
				Body: events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "completed"}}.Encode()})
		},
		"chunk": func(r *rig, id events.Thread) {
			r.store(&events.Event{Producer: "op", Seq: 1, Kind: events.KindChunk, Thread: id, Time: 1,
				Body: []byte(`{"op":"end","output":"o","seq":1}`)})
		},
	}
}

// What a name without a thread refused, no head notes. When its producer sends it again, behind the beginning of a thread there, it is
// refused again: it has its verdict, whoever has the partition by then, and whether a message is a batch or all of them are.
func TestRefusedOperationComesAgain(t *testing.T) {
	for name, refused := range firstRefusals() {
		for _, how := range []string{"one by one", "at once", "by another"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				r, id := newRig(t), thread(0)
				refused(r, id)
				at := r.lastSeq(events.EventsStream)
				r.linked(id, 1, 0)
				r.linked(id, 2, 1)
				refused(r, id) // its ack was lost
				p, last := r.deaf(), r.lastSeq(events.EventsStream)
				switch how {
				case "one by one":
					for seq := range last {
						r.give(p, seq+1, seq+1)
						r.through(p, int64(seq+1))
					}
				case "at once":
					r.give(p, 1, last)
					r.through(p, int64(last))
				case "by another":
					r.give(p, 1, at)
					r.through(p, int64(at))
					p = r.deaf()
					r.give(p, at+1, last)
					r.through(p, int64(last-at))
				}
				r.wantEntries(id, 2)
				why := r.whyDead()
				if len(why) != 2 || !strings.Contains(why[1], persist.ErrRefusedAgain.Error()) {
					t.Errorf("dead letters %q, want two, the second because of the first", why)
				}
				applied := p.Stats().Applied
				r.linked(id, 3, 2)
				r.give(p, last+1, last+1)
				r.through(p, applied+1)
				r.wantEntries(id, 3)
			})
		}
	}
}

// Behind the deletion of its session an operation is another one, that nobody has refused.
func TestRefusedOperationOfADeletedSession(t *testing.T) {
	r, id := newRig(t), thread(0)
	p := r.deaf()
	r.control(id, "op", removal())
	r.linked(id, 1, 0)
	r.control(id, "deletes", deletion())
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	r.control(id, "op", removal())
	r.give(p, 1, 6)
	r.through(p, 6)
	if _, err := r.Thread(id).Head(t.Context()); err == nil {
		t.Errorf("%s is there, want it removed", id)
	}
}

// Of what no head notes as refused the newest are known, so many as a quarter of a record holds.
func TestRefusedOperationsAreForgotten(t *testing.T) {
	r, id := newRig(t), thread(0)
	const limit = 4096
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) { d.MaxRecord = func() int { return limit } })
	const known = limit / 4 / 16
	for i := range known + 1 {
		r.control(id, fmt.Sprint("op", i), removal())
	}
	r.linked(id, 1, 0)
	r.control(id, "op1", removal())
	r.giveAll(p)
	r.wantEntries(id, 1)
	r.control(id, "op0", removal())
	last := r.lastSeq(events.EventsStream)
	r.give(p, last, last)
	r.through(p, int64(last))
	if _, err := r.Thread(id).Head(t.Context()); err == nil {
		t.Errorf("%s is there, want it removed by the operation that is forgotten", id)
	}
}

// What takes a thread from its name is done once: when it comes again, it is not done to the thread that has the name by then. Nor is it
// done then if it was refused.
func TestRemovalComesAgain(t *testing.T) {
	r, id := newRig(t), thread(0)
	again := []func(){
		func() { r.control(id, "rm", removal()) },
		func() { r.control(id, "mv", renameTo(id.Name)) }, // that is its name
	}
	p := r.deaf()
	give := func() {
		last := r.lastSeq(events.EventsStream)
		r.give(p, uint64(p.Stats().Applied)+1, last)
		r.through(p, int64(last))
	}
	entry := func(producer string) {
		r.store(&events.Event{Producer: producer, Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1,
			Body: message("e00000", "user", 10)})
	}
	entry("a")
	for _, op := range slices.Backward(again) {
		op()
	}
	for _, producer := range []string{"b", "c"} {
		again[0]() // there is no thread
		entry(producer)
		for _, op := range again {
			op()
		}
		give()
		r.wantEntries(id, 1)
		r.store(&events.Event{Producer: "rm" + producer, Seq: 1, Kind: events.KindControl, Thread: id, Time: 1, Body: removal().Encode()})
	}
	if why := r.whyDead(); len(why) != 1 {
		t.Errorf("dead letters %q, want that of the first rename", why)
	}
}

// A name that a thread left is free for it, and behind its removal for another one that has the thread's new name. What
// the first one had is not done to the other when it comes again there, by a takeover or from its producer.
func TestNameTakenByAnotherThread(t *testing.T) {
	for _, removed := range []string{"other", "third"} { // the name that the first thread is removed under
		t.Run(removed, func(t *testing.T) {
			t.Parallel()
			r, id := newRig(t), thread(0)
			named := func(name string) events.Thread { return events.Thread{Session: id.Session, Name: name} }
			entry := func(at events.Thread, producer string) {
				r.store(&events.Event{Producer: producer, Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: at,
					Time: 1, Body: message("e00000", "user", 10)})
			}
			entry(id, "first")
			entry(id, "also")
			again := r.lastSeq(events.EventsStream) + 1
			r.control(id, "op", renameTo("other"))
			if removed != "other" {
				r.control(named("other"), "on", renameTo(removed))
			}
			r.control(named(removed), "rm", removal())
			entry(named(removed), "second")
			if removed != "other" {
				r.control(named(removed), "back", renameTo("other"))
			}
			unless := events.Delete{UnchangedSince: 1} // it is refused, and noted beside what is known of the first thread
			r.control(id, "deletes", events.Control{Op: events.OpDelete, Delete: &unless})
			r.control(named("other"), "takes", renameTo(id.Name))
			r.giveAll(r.deaf())
			r.wantEntries(id, 1)

			next := r.deaf() // none was acknowledged
			r.giveAll(next)
			r.wantEntries(id, 1)
			last := r.lastSeq(events.EventsStream)
			r.control(id, "op", renameTo("other")) // its ack was lost
			r.give(next, again, again)
			r.give(next, last+1, last+1)
			r.through(next, int64(last+2))
			r.wantEntries(id, 1)
			r.noDead()
		})
	}
}

// Under a name that a thread left, an entry of a later epoch is refused, and one of an earlier epoch behind it too: it
// is no repeat of what was never applied, and does not end without a letter (SPEC P1).
func TestEarlierEpochUnderAFormerName(t *testing.T) {
	r, id := newRig(t), thread(0)
	p := r.deaf()
	r.linked(id, 1, 0)
	r.control(id, "op", renameTo("other"))
	for _, epoch := range []uint64{2, 1} {
		r.store(&events.Event{Producer: "late", Epoch: epoch, Seq: 1, Kind: events.KindEntry, Dialect: "omp",
			Thread: id, Time: 1, Body: message("e00000", "user", 10)})
	}
	r.give(p, 1, 4)
	r.through(p, 4)
	if why := r.whyDead(); len(why) != 2 {
		t.Errorf("dead letters %q, want both entries", why)
	}
	r.wantEntries(events.Thread{Session: id.Session, Name: "other"}, 1)
}

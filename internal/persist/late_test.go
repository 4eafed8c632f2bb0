package persist_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/apply"
	"spool/pkg/events"
)

// entry stores the event of that sequence, of an entry that is the nth of its thread, if it is to be there.
func (r *rig) entry(id events.Thread, seq uint64, n int) {
	r.t.Helper()
	r.store(&events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1,
		Body: message(fmt.Sprintf("e%05d", n), "user", 10)})
}

// An event that comes behind a later one of its producer, and never was there, is acknowledged: it is a dead letter that
// says so, once. What was there is a repeat.
func TestLate(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p := r.deaf()
	all, nth := []uint64{2, 5, 3, 5, 2, 3, 1, 6, 4, 4}, map[uint64]int{2: 0, 5: 1, 6: 2, 1: 91, 3: 93, 4: 94}
	for _, seq := range all {
		r.entry(id, seq, nth[seq])
	}
	last := uint64(len(all))
	r.give(p, 1, last)
	r.through(p, int64(last))
	r.wantLate(3) // 3, 1 and 4
	r.wantEntries(id, 3)
	next := r.deaf() // all of it is given again
	r.give(next, 1, last)
	r.through(next, int64(last))
	r.wantLate(3)
	r.wantEntries(id, 3)
}

func (r *rig) wantLate(n int) {
	r.t.Helper()
	why := r.whyDead()
	for _, one := range why {
		if !strings.Contains(one, apply.ErrLate.Error()) {
			r.t.Errorf("dead letter %q, want one that says %q", one, apply.ErrLate)
		}
	}
	if len(why) != n {
		r.t.Errorf("%d dead letters, want %d", len(why), n)
	}
}

// What comes late under a name that the thread has no more is a dead letter too; what it had of those who had its name
// before is a repeat.
func TestLateUnderAFormerName(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p := r.deaf()
	r.entry(id, 1, 91)
	r.entry(id, 2, 92)
	r.control(id, "rm", removal())
	r.entry(id, 5, 0)
	r.entry(id, 2, 92) // of the removed one
	r.entry(id, 3, 93)
	r.control(id, "away", renameTo("other"))
	r.entry(id, 5, 0)
	r.give(p, 1, 8)
	r.through(p, 8)
	r.wantLate(1)
	r.wantEntries(events.Thread{Session: id.Session, Name: "other"}, 1)
}

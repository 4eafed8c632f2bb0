package persist_test

import (
	"fmt"
	"testing"

	"spool/internal/persist"
	"spool/pkg/events"
)

// The first entry of a sequence is found however far away it is, and however much was published to its thread since.
func TestReusedLongAgo(t *testing.T) {
	r := newRig(t)
	id, much := thread(0), thread(1)
	p, looks := r.looking(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = 500 })
	other := func(to events.Thread, n int) {
		for range n {
			r.store(&events.Event{Producer: "q", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: to,
				Body: message("e00000", "user", 10)})
		}
	}
	r.entry(id, 1, 0)
	r.entry(id, 2, 1)
	r.entry(much, 1, 0)
	other(thread(2), 4200)
	r.entry(id, 3, 2)
	other(much, 1100)
	r.entry(much, 2, 1)
	r.entry(id, 2, 92)
	r.entry(id, 2, 92)
	want := []string{"e00092"}
	for n := range 20 {
		r.entry(much, 1, 93+n)
		want = append(want, fmt.Sprintf("e%05d", 93+n))
	}
	r.entry(much, 1, 0)
	r.giveAll(p)
	r.wantReused(want...)
	r.wantEntries(id, 3)
	if n := looks.n.Load(); n > 40 {
		t.Errorf("EVENTS was read back %d times for 23 entries, want it read once from its beginning", n)
	}
}

// However many entries a thread has, what has the sequence of another one is a dead letter, and what says the same a repeat.
func TestReusedInALongThread(t *testing.T) {
	r := newRig(t)
	id, entries := thread(0), 17
	p, _ := r.looking(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = 1000 })
	for n := range entries {
		r.run(id, uint64(n*1000+1), uint64(n*1000+1000), n*1000)
	}
	var want []string
	for n, seq := range []uint64{1, 9_000, 16_999, 3} {
		r.entry(id, seq, int(seq)-1)
		r.entry(id, seq, 90_000+n)
		want = append(want, fmt.Sprintf("e%05d", 90_000+n))
	}
	r.give(p, 1, r.lastSeq(events.EventsStream))
	r.through(p, int64(entries*1000+8))
	r.wantReused(want...)
	if n := r.head(id).Entries; n != int64(entries*1000) {
		t.Errorf("%d entries, want %d", n, entries*1000)
	}
}

package persist_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/apply"
	"spool/internal/must"
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

// What is read back for a thread is bounded, and the bound is not for ever: when EVENTS has grown, sequences of it are told apart again.
func TestReusedAfterMuchWasRead(t *testing.T) {
	r := newRig(t)
	id, entries := thread(0), 2
	for n := range entries {
		r.run(id, uint64(n*1000+1), uint64(n*1000+1000), n*1000)
	}
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	size := int(s.CachedInfo().State.Bytes)
	most := size * 5 / 2
	t.Cleanup(persist.MostReread(most, 1000))
	p, looks := r.looking(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = 1000 })
	var bytes int64
	given, came := uint64(0), int64(0)
	tell := func(n int) (read int64) {
		last := r.lastSeq(events.EventsStream)
		r.give(p, given+1, last)
		came += int64(n)
		r.through(p, came)
		given = last
		read, bytes = looks.bytes.Load()-bytes, looks.bytes.Load()
		return read
	}
	tell(entries * 1000)
	apart := []uint64{1, 2000} // too far to be remembered together
	for n := range 20 {
		r.entry(id, apart[n%2], 90_000+n)
	}
	if read := tell(20); read > int64(2*most+4*size) { // under the thread's name and under all, and at the end of each
		t.Errorf("%d bytes were read for 20 entries in a row of a thread of %d bytes, want not much more than twice %d", read, size, most)
	}
	told := len(must.Get(r.EverySession().DeadLetters(t.Context()))(t))
	if told == 0 || told == 20 {
		t.Fatalf("%d of 20 sequences were told apart, want some, until the bound is reached", told)
	}
	others := most/(4<<10) + 1
	for n := range others {
		r.store(&events.Event{Producer: "q", Seq: uint64(n + 1), Kind: events.KindEntry, Dialect: "omp", Thread: thread(1), Time: 1,
			Body: message(fmt.Sprintf("e%05d", n), "user", 10)})
	}
	r.entry(id, 1, 99_999)
	tell(others + 1)
	letters := must.Get(r.EverySession().DeadLetters(t.Context()))(t)
	if len(letters) != told+1 || !strings.Contains(letters[len(letters)-1].Reason, apply.ErrReused.Error()) {
		t.Errorf("%d dead letters, want %d and one of the entry that came when EVENTS had grown", len(letters), told)
	}
}

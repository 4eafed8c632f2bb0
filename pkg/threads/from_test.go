package threads_test

import (
	"slices"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// EntriesFrom gives every state that has an item from that number on, in order, of all branches; and it reads no more packs than
// lie behind that number, but for those that one hop reaches.
func TestEntriesFrom(t *testing.T) {
	w := newWorld(t, 1)
	h := w.begin()
	var at []casstore.Located
	for i := range 60 {
		at = append(at, w.add(&h, "r", int64(i%3))) // some have no item
	}
	recent := must.Get(w.reader().Recent(t.Context(), at[39]))(t)
	h.MoveTo(recent) // the last twenty are a branch that was left
	for range 20 {
		w.add(&h, "b", 2)
	}
	w.flush()
	for from := int64(0); from <= h.N+1; from++ {
		var got []int64
		for s := range must.All(t, w.reader().EntriesFrom(t.Context(), h, from)) {
			if last, _ := s.Entry.LastItem(); s.Entry.Count > 0 && last >= from {
				got = append(got, s.Entry.Index)
			}
		}
		if from == 0 && len(got) != 40+20 { // of 60 two in three have items
			t.Fatalf("%d states with items, want 60", len(got))
		}
		if !slices.IsSorted(got) {
			t.Errorf("from %d: %v, want them in order", from, got)
		}
		want := 0
		for s := range must.All(t, w.reader().Entries(t.Context(), h)) {
			if last, _ := s.Entry.LastItem(); s.Entry.Count > 0 && last >= from {
				want++
			}
		}
		must.Same(t, len(got), want, "from %d: %d states, want %d", from)
	}
	var back []int64
	for s := range must.All(t, w.reader().EntriesBack(t.Context(), h)) {
		back = append(back, s.Entry.Index)
	}
	slices.Reverse(back)
	if len(back) != 80 || back[0] != 1 || back[79] != 80 || !slices.IsSorted(back) {
		t.Errorf("EntriesBack, turned around = %v, want 1 to 80", back)
	}
	w.packs.reads = 0
	for range must.All(t, w.reader().EntriesFrom(t.Context(), h, h.N)) {
	}
	if few := 2 * (2 + threads.MaxAncestors) * 2; w.packs.reads > few {
		t.Errorf("the last item is found in %d packs, want at most %d", w.packs.reads, few)
	}
}

package threads_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// shrink does what a commit does with a head that grew: what is too much goes into nodes of the open pack.
func (w *world) shrink(h *threads.Head) (nodes int) {
	var d casstore.Draft
	for _, l := range h.Shrink(w.room, &d, w.id) {
		if !w.builder.Has(l.Ref) {
			w.builder.Locate(l)
		}
	}
	w.builder.AddDraft(&d)
	return d.Len()
}

// again is a head as another process reads it.
func (w *world) again(h threads.Head) threads.Head {
	w.t.Helper()
	w.flush()
	got, err := threads.DecodeHead(h.Encode())
	if err == nil {
		got, err = w.reader().Recall(w.t.Context(), got)
	}
	must.Do(w.t, err)
	return got
}

func told(h threads.Head) (list []string) {
	for _, p := range h.Producers {
		list = append(list, fmt.Sprint(p.ID, " ", p.Epoch, " ", p.Seq, " ", p.At))
	}
	slices.Sort(list)
	return list
}

// A head that keeps tips and producers in nodes knows what one knows that keeps all itself, however often it is read
// anew.
func TestShrunkHeadKnowsAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 30).Draw(rt, "perPack"))
		w.room.Tips, w.room.Producers = rapid.IntRange(0, 32).Draw(rt, "tips"), rapid.IntRange(0, 64).Draw(rt, "producers")
		h := w.begin()
		whole := h.Clone()
		var states []casstore.Located
		for i := range rapid.IntRange(1, 250).Draw(rt, "events") {
			switch to := rapid.IntRange(-3, len(states)).Draw(rt, "to"); {
			case to < 0:
				h.MoveTo(nil)
				whole.MoveTo(nil)
			case to < len(states):
				w.flush()
				recent := must.Get(w.reader().Recent(t.Context(), states[to]))(rt)
				h.MoveTo(recent)
				whole.MoveTo(recent)
			}
			at := w.add(&h, "r", int64(i%3))
			states = append(states, at)
			whole.Advance(at)
			whole.Entries, whole.N = h.Entries, h.N
			kind := rapid.SampledFrom([]string{"", threads.Ephemeral}).Draw(rt, "kind")
			id := fmt.Sprint(kind, rapid.IntRange(0, 150).Draw(rt, "id"))
			for _, one := range []*threads.Head{&h, &whole} {
				one.Saw(id, 1, uint64(i+1), uint64(i+1))
			}
			if w.shrink(&h); rapid.IntRange(0, 9).Draw(rt, "again") == 0 {
				h = w.again(h)
			}
		}
		h = w.again(h)
		if got, want := told(h), told(whole); !slices.Equal(got, want) {
			rt.Fatalf("producers %v, want %v", got, want)
		}
		must.Do(rt, threads.Verify(t.Context(), w.reader(), h))
		newest := map[casstore.Ref]bool{}
		for l := range must.All(rt, w.reader().Newest(t.Context(), h, 0)) {
			newest[l.Ref] = true
		}
		for _, l := range whole.Newest() {
			if !newest[l.Ref] {
				rt.Fatalf("%s is no newest state of a branch any more", l)
			}
		}
		compareEntries(rt, w, h, whole)
	})
}

// compareEntries holds the entries of a head, both ways, against those of one that keeps all itself.
func compareEntries(rt *rapid.T, w *world, h, whole threads.Head) {
	indexes := func(h threads.Head, item int64, back bool) (list []int64) {
		all := w.reader().EntriesFrom(w.t.Context(), h, item)
		if back {
			all = w.reader().EntriesBack(w.t.Context(), h)
		}
		for s := range must.All(rt, all) {
			list = append(list, s.Entry.Index)
		}
		return list
	}
	want := indexes(whole, 0, false)
	if got := indexes(h, 0, false); !slices.Equal(got, want) || int64(len(got)) != h.Entries {
		rt.Fatalf("entries %v, want %v", got, want)
	}
	slices.Reverse(want)
	if got := indexes(h, 0, true); !slices.Equal(got, want) {
		rt.Fatalf("entries from the newest on %v, want %v", got, want)
	}
	item := rapid.Int64Range(0, h.N+1).Draw(rt, "item")
	behind := func(h threads.Head) (list []int64) {
		for s, err := range w.reader().EntriesFrom(w.t.Context(), h, item) {
			if last, _ := s.Entry.LastItem(); err != nil || last >= item {
				list = append(list, s.Entry.Index)
			}
		}
		return list
	}
	if got, want := behind(h), behind(whole); !slices.Equal(got, want) {
		rt.Fatalf("entries with items from %d on %v, want %v", item, got, want)
	}
	last := h.Entries
	step, err := w.reader().Find(w.t.Context(), h, func(s threads.State) bool {
		return s.Entry.ID == fmt.Sprint("src-", 1+last/2)
	})
	if err != nil || step.Entry.Index != 1+last/2 {
		rt.Fatalf("Find() = entry %d, %v, want %d", step.Entry.Index, err, 1+last/2)
	}
}

// Of more producers than a head remembers the same are forgotten as by a head that keeps all itself.
func TestShrunkHeadForgets(t *testing.T) {
	w := newWorld(t, 1000)
	h := w.begin()
	whole := h.Clone()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(8_000) {
		id := fmt.Sprint(rnd.IntN(1200))
		if rnd.IntN(2) == 0 {
			id = threads.Ephemeral + id
		}
		for _, one := range []*threads.Head{&h, &whole} {
			one.Saw(id, 1, i+1, i+1)
		}
		if w.shrink(&h); i%701 == 0 {
			h = w.again(h)
		}
	}
	if got, want := told(w.again(h)), told(whole); len(want) != threads.MaxProducers || !slices.Equal(got, want) {
		t.Errorf("%d producers, want the %d that a head knows which keeps all itself", len(got), len(want))
	}
}

// Whatever a thread has, its head is small, and what an event writes does not grow with the thread.
func TestHeadIsBounded(t *testing.T) {
	w := newWorld(t, 50)
	h := w.begin()
	h.Memory = make([]byte, 4<<10)
	h.Captured = threads.Captured{Home: strings.Repeat("h", threads.MaxCaptured), Size: 1 << 40, Modified: 1 << 62}
	bytesAt := map[int]int{}
	for i := range 8_000 {
		h.MoveTo(nil)
		w.add(&h, "r", 1)
		h.Leaf, h.Failure = strings.Repeat("l", 100_000), strings.Repeat("é", 50_000)
		h.Saw(fmt.Sprintf("%-256d", i%3000), 1, uint64(i+1), uint64(i+1))
		before := w.builder.RawBytes()
		w.shrink(&h)
		bytesAt[i/1000] += w.builder.RawBytes() - before
		if i%7 != 0 {
			continue
		}
		n := len(h.Encode())
		if n > threads.MaxHead {
			t.Fatalf("after %d branches the head has %d bytes, want at most %d", i+1, n, threads.MaxHead)
		}
		bytesAt[i/1000] += 7 * n
	}
	if first, last := bytesAt[2], bytesAt[7]; last > 2*first {
		t.Errorf("a thousand events wrote %d bytes at 2,000 branches, %d at 8,000, want at most twice", first, last)
	}
	t.Logf("bytes of 1000 events: %v", bytesAt)
}

// A head of an earlier version that has grown shrinks with the events that come.
func TestGrownHeadShrinks(t *testing.T) {
	w := newWorld(t, 1000)
	h := w.begin()
	for range 5000 {
		h.MoveTo(nil)
		w.add(&h, "r", 1)
	}
	for i := range 1000 {
		h.Saw(fmt.Sprint(i), 1, 1, uint64(i))
	}
	h = w.again(h)
	if n := len(h.Encode()); n < threads.MaxHead {
		t.Fatalf("the head has %d bytes, want many", n)
	}
	for range 6 {
		if w.shrink(&h) > 40 {
			t.Error("an event makes very many nodes")
		}
		h = w.again(h)
	}
	if n := len(h.Encode()); n > 8<<10 || h.Branches() != 4999 || len(h.Producers) != 1000 {
		t.Errorf("the head has %d bytes, %d branches and %d producers, want few bytes and all of the others",
			n, h.Branches(), len(h.Producers))
	}
	must.Is(t, threads.Verify(t.Context(), w.reader(), h), nil, "Verify")
}

// What does not mean what a head keeps in nodes is refused.
func TestRestRefuses(t *testing.T) {
	state := threads.Tips{States: []casstore.Ref{located(1).Ref}}.Node()
	if got, err := threads.ParseTips(state); err != nil || len(got.States) != 1 {
		t.Fatalf("ParseTips() = %v, %v, want one", got, err)
	}
	bad := map[string]casstore.Node{
		"type": {Type: threads.TypeContent, Payload: []byte{0x80}}, "none": threads.Tips{Before: located(1).Ref}.Node(),
		"nil":  threads.Tips{States: []casstore.Ref{{}}}.Node(),
		"blob": threads.Tips{States: []casstore.Ref{casstore.SumBlob(nil)}}.Node(),
	}
	for name, n := range bad {
		must.Is(t, must.Err(threads.ParseTips(n)), threads.ErrShape, "%s: ParseTips()", name)
	}
	twice := casstore.Node{
		Type: threads.TypeProducers, Payload: []byte{0x92, 0x94, 0xa1, 'a', 1, 1, 1, 0x94, 0xa1, 'a', 1, 1, 1},
	}
	for name, n := range map[string]casstore.Node{"type": state, "order": twice} {
		must.Is(t, must.Err(threads.ParseProducers(n)), threads.ErrShape, "%s: ParseProducers()", name)
	}
}

// What a head keeps in nodes is read, or told to be missing.
func TestRestIsMissing(t *testing.T) {
	w := newWorld(t, 1000)
	h := w.begin()
	for i := range uint64(100) {
		h.MoveTo(nil)
		w.add(&h, "r", 1)
		h.Saw(fmt.Sprint(i), 1, 1, i+1)
		w.shrink(&h)
	}
	w.flush()
	for _, lost := range []func(*threads.Head){
		func(h *threads.Head) { h.Older.Pack[15]++ },
		func(h *threads.Head) { h.Seen.Pack[15]++ },
	} {
		broken := h.Clone()
		lost(&broken)
		must.Is(t, threads.Verify(t.Context(), w.reader(), broken), casstore.ErrNotFound, "Verify")
	}
	roots := h.Roots()
	if !slices.Contains(roots, h.Older) || !slices.Contains(roots, h.Seen) || cmp.Compare(len(roots), 3) < 0 {
		t.Errorf("roots %v, want the nodes of the head among them", roots)
	}
}

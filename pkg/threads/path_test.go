package threads_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// branch is a head that goes on elsewhere.
func (w *world) branch(h threads.Head, at threads.Point) threads.Head {
	w.t.Helper()
	w.flush()
	f := must.Get(threads.Fork(w.t.Context(), w.reader(), h, at))(w.t)
	w.add(&f, threads.RoleFork, 0)
	return f
}

// path lists the states to a head, oldest first, read one by one.
func (w *world) path(h threads.Head) (refs []casstore.Ref) {
	w.t.Helper()
	for s := range must.All(w.t, w.reader().Walk(w.t.Context(), h.Head())) {
		refs = append(refs, s.At.Ref)
	}
	slices.Reverse(refs)
	return refs
}

// Diff gives what a comparison of both whole paths gives, for forks of forks at any place.
func TestDiffOfForks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 30).Draw(rt, "perPack"))
		heads := []threads.Head{w.begin()}
		for range rapid.IntRange(1, 6).Draw(rt, "forks") {
			h := &heads[rapid.IntRange(0, len(heads)-1).Draw(rt, "source")]
			for range rapid.IntRange(1, 40).Draw(rt, "entries") {
				w.add(h, "r", 1)
			}
			heads = append(heads, w.branch(*h, threads.Point{Entry: rapid.Int64Range(1, h.Entries).Filter(func(i int64) bool {
				return slices.Contains(w.indexes(*h), i)
			}).Draw(rt, "at")}))
		}
		w.flush()
		a, b := rapid.SampledFrom(heads).Draw(rt, "a"), rapid.SampledFrom(heads).Draw(rt, "b")
		pathA, pathB := w.path(a), w.path(b)
		common := 0
		for common < min(len(pathA), len(pathB)) && pathA[common] == pathB[common] {
			common++
		}
		w.packs.reads = 0
		d := must.Get(w.reader().Diff(t.Context(), a.Head(), b.Head()))(rt)
		if !slices.Equal(refs(d.A), pathA[common:]) || !slices.Equal(refs(d.B), pathB[common:]) {
			rt.Fatalf("Diff = %d and %d states, want %d and %d", len(d.A), len(d.B), len(pathA)-common, len(pathB)-common)
		}
		want := casstore.Ref{}
		if common > 0 {
			want = pathA[common-1]
		}
		if d.Base.Ref != want {
			rt.Fatalf("Diff has the base %s, want %s", d.Base.Ref, want)
		}
	})
}

// indexes are those of the entries on the way to a head.
func (w *world) indexes(h threads.Head) (list []int64) {
	w.flush()
	for s := range must.All(w.t, w.reader().Walk(w.t.Context(), h.Head())) {
		list = append(list, s.Entry.Index)
	}
	return list
}

func refs(list []casstore.Located) (out []casstore.Ref) {
	for _, l := range list {
		out = append(out, l.Ref)
	}
	return out
}

func TestDiffOfStrangers(t *testing.T) {
	w := newWorld(t, 3)
	a, b := w.begin(), w.begin()
	w.add(&a, "a", 1)
	w.add(&b, "b", 1)
	w.flush()
	d, err := w.reader().Diff(t.Context(), a.Head(), b.Head())
	if err != nil || !d.Base.IsZero() || len(d.A) != 1 || len(d.B) != 1 {
		t.Errorf("Diff = %+v, %v, want nothing common", d, err)
	}
}

// At finds a state by its number, its items, its time and its hash, and reads few to do so (SPEC C7).
func TestAt(t *testing.T) {
	w := newWorld(t, 1)
	h := w.begin()
	var all []casstore.Located
	for i := range 500 {
		all = append(all, w.add(&h, "r", int64(i%3)))
	}
	item := int64(1) // of entry i: i%3 items each
	for i := range 300 {
		item += int64(i % 3)
	}
	const began = 1778308464000 // of entry 0, a millisecond each
	for name, c := range map[string]struct {
		at   threads.Point
		want int
	}{
		"entry": {threads.Point{Entry: 251}, 250}, "first": {threads.Point{Entry: 1}, 0}, "last": {threads.Point{Entry: 500}, 499},
		"item": {threads.Point{Item: item + 1}, 302}, "time": {threads.Point{Time: began + 77}, 77},
		"later": {threads.Point{Time: began + 1e6}, 499},
		"node":  {threads.Point{Node: all[123].Ref}, 123},
	} {
		w.packs.reads = 0
		s, err := w.reader().At(t.Context(), h, c.at)
		if err != nil || s.At != all[c.want] {
			t.Errorf("%s: At = entry %d, %v, want %d", name, s.Entry.Index, err, c.want+1)
		}
		if most := 500/11 + 8; w.packs.reads > most {
			t.Errorf("%s: At read %d states, want at most %d", name, w.packs.reads, most)
		}
	}
	for _, at := range []threads.Point{{Entry: 501}, {Item: 1e6}, {Time: began - 1}, {Node: ref(1)}, {Entry: 1, Time: 5}} {
		must.Is(t, must.Err(w.reader().At(t.Context(), h, at)), threads.ErrNoPoint, "At(%+v)", at)
	}
}

// A context begins at the newest summary, and what is kept comes before it; a kept entry that is not on the way keeps nothing.
func TestContext(t *testing.T) {
	for name, c := range map[string]struct {
		kept        string
		kind        string
		want, first string
	}{
		"step":                  {"", "step", "", "5"},
		"entry of a compaction": {"", "entry", "", "6"},
		"kept":                  {"src-3", "entry", "2 3 4", "6"},
		"kept by its ref":       {"ref", "step", "1 2 3 4", "5"},
		"kept is elsewhere":     {"nobody", "step", "", "5"},
	} {
		w := newWorld(t, 2)
		h := w.begin()
		for i := range 9 {
			if i != 5 {
				w.add(&h, fmt.Sprint(i), 1)
				continue
			}
			w.flush()
			kept := c.kept
			if kept == "ref" {
				kept = h.Recent[3].Ref.String()
			}
			summary := threads.Content{Text: []byte("sum")}.Node()
			s := h.Next("5")
			s.Compact = w.builder.AddNode(&summary)
			content := threads.Content{Text: []byte("out-5"), Refs: []casstore.Ref{s.Compact}}.Node()
			s.Content = w.builder.AddNode(&content)
			h.Entries++
			h.N++
			s.Entry = threads.Record{Index: h.Entries, First: h.N, Count: 1, Kept: kept}
			if c.kind == "step" {
				s.Entry.Raw = []byte("{}")
			}
			for _, l := range h.Located() {
				w.builder.Locate(l)
			}
			n := s.Node()
			h.Advance(casstore.Located{Ref: w.builder.AddNode(&n), Pack: w.id})
		}
		w.flush()
		got, err := w.reader().Context(t.Context(), h.Head())
		if err != nil || !got.Compacted || string(got.Summary.Text) != "sum" {
			t.Fatalf("%s: Context = %+v, %v, want the summary", name, got, err)
		}
		if kept := fmt.Sprint(roles(got.Kept)); kept != "["+c.want+"]" {
			t.Errorf("%s: kept %s, want [%s]", name, kept, c.want)
		}
		if steps := roles(got.Steps); len(steps) == 0 || steps[0] != c.first || steps[len(steps)-1] != "8" {
			t.Errorf("%s: steps %v, want %s to 8", name, steps, c.first)
		}
		must.Is(t, threads.Verify(t.Context(), w.reader(), h), nil, "%s: Verify", name)
	}
	if got, err := newWorld(t, 1).reader().Context(t.Context(), casstore.Located{}); err != nil || got.Compacted || len(got.Steps) != 0 {
		t.Errorf("Context of nothing = %+v, %v", got, err)
	}
}

// big is a size for the tests of large threads; SPOOL_TEST_BIG=1 tests with those of DESIGN 14.
func big(t testing.TB, small, large int) int {
	if on, _ := strconv.ParseBool(os.Getenv("SPOOL_TEST_BIG")); on {
		return large
	}
	return small
}

// Opening the end of a long thread reads at most three packs, whatever its length (DESIGN 14).
func TestTailReadsFewPacks(t *testing.T) {
	w := newWorld(t, 500)
	h := w.begin()
	for range big(t, 5_010, 100_010) {
		w.add(&h, "r", 1)
	}
	w.flush()
	cache := casstore.NewPackCache(w.packs, 64<<20)
	w.packs.reads = 0
	steps, err := threads.Reader{Packs: cache}.Last(t.Context(), h.Head(), 50)
	if err != nil || len(steps) != 50 {
		t.Fatalf("Last(50) = %d states, %v", len(steps), err)
	}
	for _, s := range steps {
		must.Get(s.ReadContent(t.Context()))(t)
	}
	if w.packs.reads > 3 {
		t.Errorf("the tail was read from %d packs, want at most 3", w.packs.reads)
	}
}

// Forks of forks share all they have; the deepest reads as one path, and costs what any thread of its length costs.
func TestForksOfForks(t *testing.T) {
	w := newWorld(t, 50)
	h := w.begin()
	w.add(&h, "first", 1)
	depth := big(t, 100, 1_000)
	first := h
	for range depth {
		h = w.branch(h, threads.Point{Entry: h.Entries})
		w.add(&h, "r", 1)
	}
	w.flush()
	must.Same(t, len(w.path(h)), 1+2*depth, "%d states, want %d")
	if d, err := w.reader().Diff(t.Context(), first.Head(), h.Head()); err != nil || d.Base != first.Head() {
		t.Errorf("Diff has the base %v, %v, want %v", d.Base, err, first.Head())
	}
	must.Is(t, threads.Verify(t.Context(), w.reader(), h), nil, "Verify")
}

// Many forks of one thread store one state each (invariant 6), about 500 bytes.
func TestManyForksOfOne(t *testing.T) {
	w := newWorld(t, 500)
	h := w.begin()
	for range 200 {
		w.add(&h, "r", 1)
	}
	w.flush()
	forks := big(t, 1_000, 10_000)
	nodes := 0
	for i := range forks {
		f := must.Get(threads.Fork(t.Context(), w.reader(), h, threads.Point{Entry: int64(1 + i%200)}))(t)
		before := w.builder.Len()
		for _, l := range f.Located() {
			w.builder.Locate(l)
		}
		s := f.Next(threads.RoleFork)
		c := threads.Content{}.Node()
		s.Content = w.builder.AddNode(&c)
		s.Timestamp = int64(i)
		n := s.Node()
		w.builder.AddNode(&n)
		nodes += w.builder.Len() - before
		if i%500 == 499 {
			w.flush()
		}
	}
	if most := forks + forks/500 + 1; nodes > most {
		t.Errorf("%d forks added %d nodes, want at most %d: a state each, and an empty content a pack", forks, nodes, most)
	}
}

func BenchmarkContext(b *testing.B) {
	const entries = 10_000
	w := newWorld(b, 500)
	h := w.begin()
	for i := range entries {
		w.add(&h, fmt.Sprint(i), 1)
	}
	w.flush()
	for b.Loop() {
		r := threads.Reader{Packs: casstore.NewPackCache(w.store, 64<<20)} // cold
		c, err := r.Context(b.Context(), h.Head())
		if err != nil || len(c.Steps) != entries {
			b.Fatal(len(c.Steps), err)
		}
		for _, s := range c.Steps {
			must.Get(s.ReadContent(b.Context()))(b)
		}
	}
}

package threads_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// TestHashesDoNotDependOnPacks holds invariant 5: the same entries give the same nodes whatever the packs.
func TestHashesDoNotDependOnPacks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 40).Draw(rt, "items")
		build := func(perPack int) (threads.Head, *world) {
			w := newWorld(t, perPack)
			h := w.begin()
			for i, n := range items {
				w.add(&h, fmt.Sprint("r", i%3), n)
			}
			w.flush()
			return h, w
		}
		want, _ := build(1)
		got, w := build(rapid.IntRange(1, 50).Draw(rt, "perPack"))
		if got.Head().Ref != want.Head().Ref {
			rt.Fatalf("head %s, want %s", got.Head().Ref, want.Head().Ref)
		}
		must.Do(rt, threads.Verify(t.Context(), w.reader(), got))
	})
}

func TestWalk(t *testing.T) {
	for _, perPack := range []int{1, 7, 1000} {
		w := newWorld(t, perPack)
		h := w.begin()
		var want []casstore.Ref
		for i := range 100 {
			want = append(want, w.add(&h, fmt.Sprint(i), 1).Ref)
		}
		w.flush()
		slices.Reverse(want)
		w.packs.reads = 0
		var got []casstore.Ref
		for s := range must.All(t, w.reader().Walk(t.Context(), h.Head())) {
			c, err := s.ReadContent(t.Context())
			if err != nil || string(c.Text) != "out-"+s.Role {
				t.Errorf("content of %s = %q, %v, want out-%s", s.At, c.Text, err, s.Role)
			}
			got = append(got, s.At.Ref)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d a pack: Walk gives %d states in another order, want %d", perPack, len(got), len(want))
		}
		if packs := 100/perPack + 1; w.packs.reads > packs {
			t.Errorf("%d a pack: Walk read %d packs, want at most %d", perPack, w.packs.reads, packs)
		}
		start, err := w.reader().Start(t.Context(), h.Start)
		if err != nil || start.Name != "demo" {
			t.Errorf("Start = %v, %v, want demo", start, err)
		}
	}
}

func TestPageHops(t *testing.T) {
	w := newWorld(t, 1)
	h := w.begin()
	for i := range 500 {
		w.add(&h, fmt.Sprint(i), 1)
	}
	for _, c := range []struct{ skip, limit, first, n int }{{0, 3, 499, 3}, {1, 1, 498, 1}, {250, 2, 249, 2}, {499, 5, 0, 1},
		{500, 5, 0, 0}, {9999, 5, 0, 0}} {
		w.packs.reads = 0
		steps, err := w.reader().Page(t.Context(), h.Head(), c.skip, c.limit)
		if err != nil || len(steps) != c.n || c.n > 0 && steps[0].Role != fmt.Sprint(c.first) {
			t.Errorf("Page(%d, %d) = %v, %v, want %d from %d", c.skip, c.limit, roles(steps), err, c.n, c.first)
		}
		if most := min(c.skip, 500)/11 + c.limit + 1; w.packs.reads > most {
			t.Errorf("Page(%d, %d) read %d states, want at most %d", c.skip, c.limit, w.packs.reads, most)
		}
	}
	if steps, err := w.reader().Last(t.Context(), h.Head(), 3); err != nil || fmt.Sprint(roles(steps)) != "[499 498 497]" {
		t.Errorf("Last(3) = %v, %v, want [499 498 497]", roles(steps), err)
	}
}

func TestEntriesMergesBranches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 20).Draw(rt, "perPack"))
		h := w.begin()
		var all []casstore.Located
		for range rapid.IntRange(1, 80).Draw(rt, "entries") {
			if len(all) > 0 && rapid.IntRange(0, 9).Draw(rt, "branch") == 0 {
				w.flush()
				recent := must.Get(w.reader().Recent(t.Context(), rapid.SampledFrom(all).Draw(rt, "to")))(rt)
				h.MoveTo(recent)
			}
			all = append(all, w.add(&h, "r", rapid.Int64Range(0, 2).Draw(rt, "items")))
		}
		w.flush()
		var got []casstore.Ref
		for s := range must.All(rt, w.reader().Entries(t.Context(), h)) {
			got = append(got, s.At.Ref)
		}
		if len(got) != len(all) {
			rt.Fatalf("Entries gives %d states, want %d", len(got), len(all))
		}
		for i := range all {
			if got[i] != all[i].Ref {
				rt.Fatalf("Entries: state %d is %s, want %s", i, got[i], all[i].Ref)
			}
		}
		must.Do(rt, threads.Verify(t.Context(), w.reader(), h))
		last := all[rapid.IntRange(0, len(all)-1).Draw(rt, "find")].Ref
		if s, err := w.reader().Find(t.Context(), h, func(s threads.State) bool {
			return s.Node().Refs != nil &&
				refOf(s) == last
		}); err != nil || s.At.Ref != last {
			rt.Fatalf("Find = %s, %v, want %s", s.At, err, last)
		}
	})
}

func refOf(s threads.State) casstore.Ref {
	n := s.Node()
	return casstore.SumNode(n.AppendTo(nil))
}

func TestAWrongHintSaysWhere(t *testing.T) {
	w := newWorld(t, 2)
	h := w.begin()
	for range 6 {
		w.add(&h, "r", 1)
	}
	at := h.Head()
	other := h.Recent[4].Pack
	for name, wrong := range map[string]casstore.Located{
		"another pack": {Ref: at.Ref, Pack: other}, "no pack": {Ref: at.Ref}, "missing pack": {Ref: at.Ref, Pack: casstore.PackID{9}},
	} {
		_, err := w.reader().State(t.Context(), wrong)
		if !errors.Is(err, casstore.ErrNotFound) || !strings.Contains(err.Error(), wrong.Ref.String()) {
			t.Errorf("%s: State = %v, want ErrNotFound with the ref", name, err)
		}
	}
	must.Is(t, must.Err(w.reader().State(t.Context(), h.Start)), threads.ErrShape, "State(start)")
	w.store.RemovePack(other)
	var last error
	for _, err := range w.reader().Walk(t.Context(), at) {
		last = err
	}
	if !errors.Is(last, casstore.ErrGone) {
		t.Errorf("Walk into a collected pack ends with %v, want ErrGone", last)
	}
}

func TestVerifyFinds(t *testing.T) {
	build := func() (*world, threads.Head) {
		w := newWorld(t, 3)
		h := w.begin()
		for range 14 {
			w.add(&h, "r", 2)
		}
		w.flush()
		return w, h
	}
	// bad appends a state that a change made wrong.
	bad := func(change func(*threads.State)) func(*world, *threads.Head) {
		return func(w *world, h *threads.Head) {
			s := h.Next("bad")
			c := threads.Content{Text: []byte("bad")}.Node()
			s.Content = w.builder.AddNode(&c)
			h.Entries++
			s.Entry = threads.Record{Index: h.Entries, First: h.N + 1, Count: 1}
			h.N++
			change(&s)
			for _, l := range append(h.Located(), located(77)) {
				w.builder.Locate(l)
			}
			n := s.Node()
			h.Advance(casstore.Located{Ref: w.builder.AddNode(&n), Pack: w.id})
			w.flush()
		}
	}
	for name, c := range map[string]struct {
		damage func(*world, *threads.Head)
		want   error
	}{
		"nothing":   {bad(func(*threads.State) {}), nil},
		"bit flip":  {func(w *world, h *threads.Head) { w.store.CorruptPack(h.Recent[5].Pack) }, casstore.ErrCorrupt},
		"pack lost": {func(w *world, h *threads.Head) { w.store.RemovePack(h.Recent[5].Pack) }, casstore.ErrGone},
		"ancestors": {bad(func(s *threads.State) { s.Ancestors[0], s.Ancestors[1] = s.Ancestors[1], s.Ancestors[0] }),
			threads.ErrInconsistent},
		"start":            {bad(func(s *threads.State) { s.Start = ref(77) }), threads.ErrInconsistent},
		"index":            {bad(func(s *threads.State) { s.Entry.Index = 3 }), threads.ErrInconsistent},
		"index too high":   {bad(func(s *threads.State) { s.Entry.Index = 99 }), threads.ErrInconsistent},
		"items repeat":     {bad(func(s *threads.State) { s.Entry.First-- }), threads.ErrInconsistent},
		"items gap":        {bad(func(s *threads.State) { s.Entry.First++; s.Entry.Count-- }), threads.ErrInconsistent},
		"items too high":   {bad(func(s *threads.State) { s.Entry.Count = 50 }), threads.ErrInconsistent},
		"compact not ref":  {bad(func(s *threads.State) { s.Compact = ref(77) }), threads.ErrInconsistent},
		"head counts more": {func(_ *world, h *threads.Head) { h.Entries++ }, threads.ErrInconsistent},
		"head has items":   {func(_ *world, h *threads.Head) { h.N++ }, threads.ErrInconsistent},
		"content missing":  {bad(func(s *threads.State) { s.Content = ref(77) }), casstore.ErrNotFound},
		"head's recent":    {func(_ *world, h *threads.Head) { h.Recent[3], h.Recent[4] = h.Recent[4], h.Recent[3] }, threads.ErrInconsistent},
		"head's start":     {func(_ *world, h *threads.Head) { h.Start = h.Recent[10] }, threads.ErrShape},
	} {
		w, h := build()
		c.damage(w, &h)
		must.Is(t, threads.Verify(t.Context(), w.reader(), h), c.want, "%s: Verify", name)
	}
}

func BenchmarkWalk(b *testing.B) {
	const entries = 10_000
	w := newWorld(b, 500)
	h := w.begin()
	for i := range entries {
		w.add(&h, fmt.Sprint(i), 1)
	}
	w.flush()
	r := threads.Reader{Packs: casstore.NewPackCache(w.store, 1<<30)}
	for b.Loop() {
		n := 0
		for s := range must.All(b, r.Entries(b.Context(), h)) {
			must.Get(s.ReadContent(b.Context()))(b)
			n++
		}
		if n != entries {
			b.Fatalf("Entries gives %d states, want %d", n, entries)
		}
	}
	b.ReportMetric(float64(b.N)*entries/b.Elapsed().Seconds(), "entries/s")
}

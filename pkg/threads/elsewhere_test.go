package threads_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// everywhere knows a pack of each node, and counts how often it was asked.
type everywhere struct {
	at    map[casstore.Ref]casstore.PackID
	err   error
	asked int
}

func (e *everywhere) Locate(_ context.Context, ref casstore.Ref) (casstore.Located, error) {
	e.asked++
	id, ok := e.at[ref]
	if e.err != nil {
		return casstore.Located{}, e.err
	}
	if !ok {
		return casstore.Located{}, fmt.Errorf("%s: %w", ref, casstore.ErrNotFound)
	}
	return casstore.Located{Ref: ref, Pack: id}, nil
}

// twice stores a thread, and the same states again in other packs. It gives the first head, the packs of the second, and a
// function that removes the first but for the newest pack: that one stands for the others then, which it does not hold.
func twice(t *testing.T) (w *world, h threads.Head, second *everywhere, remove func()) {
	w = newWorld(t, 10)
	build := func() (h threads.Head, at map[casstore.Ref]casstore.PackID) {
		at = map[casstore.Ref]casstore.PackID{}
		h = w.begin()
		at[h.Start.Ref] = h.Start.Pack
		for i := range 100 {
			l := w.add(&h, fmt.Sprint("r", i%3), 1)
			at[l.Ref] = l.Pack
		}
		w.flush()
		return h, at
	}
	h, first := build()
	again, at := build()
	if again.Head().Ref != h.Head().Ref || again.Head().Pack == h.Head().Pack {
		t.Fatalf("heads %s and %s, want one state in two packs", h.Head(), again.Head())
	}
	return w, h, &everywhere{at: at}, func() {
		for _, id := range first {
			if id != h.Head().Pack {
				w.store.MovePack(id, h.Head().Pack)
			}
		}
	}
}

func walked(t *testing.T, r threads.Reader, h threads.Head) (n int, err error) {
	for s, err := range r.Walk(t.Context(), h.Head()) {
		if err == nil {
			_, err = s.ReadContent(t.Context())
		}
		if err != nil {
			return n, err
		}
		if p, err := r.Packs.Pack(t.Context(), s.At.Pack); err != nil || !p.Has(s.At.Ref) {
			t.Errorf("the step says that it is at %s: %v, want a pack that holds it", s.At, err)
		}
		n++
	}
	return n, nil
}

// TestNodesThatAreElsewhere: a node is read from whichever pack holds it, and what is read behind it is followed from there.
func TestNodesThatAreElsewhere(t *testing.T) {
	w, h, second, remove := twice(t)
	cache := casstore.NewPackCache(w.store, 1<<20)
	must.Get((threads.Reader{Packs: cache}).Step(t.Context(), h.Head()))(t)
	remove()
	if n, err := walked(t, threads.Reader{Packs: cache}, h); !errors.Is(err, casstore.ErrNotFound) {
		t.Errorf("%d states and %v without a locator of nodes, want ErrNotFound", n, err)
	}
	r := threads.Reader{Packs: cache, Nodes: second}
	if n, err := walked(t, r, h); err != nil || n != 100 {
		t.Errorf("%d states, %v, want 100", n, err)
	}
	if second.asked != 1 {
		t.Errorf("packs were searched %d times, want once: the pack that was found says where the others are", second.asked)
	}
	must.Is(t, threads.Verify(t.Context(), r, h), nil, "Verify")
	n := 0
	for range must.All(t, r.Entries(t.Context(), h)) {
		n++
	}
	must.Same(t, n, 100, "Entries gives %d, want %d")
}

// TestNodesThatAreNowhere are not found; whether they are is not known while the store does not answer.
func TestNodesThatAreNowhere(t *testing.T) {
	w, h, _, remove := twice(t)
	remove()
	busy := errors.New("the store does not answer")
	for _, c := range []struct {
		nodes *everywhere
		want  error
	}{{&everywhere{}, casstore.ErrNotFound}, {&everywhere{err: busy}, busy}} {
		_, err := walked(t, threads.Reader{Packs: w.store, Nodes: c.nodes}, h)
		if !errors.Is(err, c.want) || errors.Is(err, casstore.ErrNotFound) != (c.want == casstore.ErrNotFound) {
			t.Errorf("Walk = %v, want %v", err, c.want)
		}
	}
}

package gc_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/threads"
)

// TestReadersThatLiveOn: a reader with packs in memory finds every node of a thread, however often packs were merged, split and
// repacked since it read them: what an old pack says of where a node is may not hold any more. Threads say the same things, so
// that nodes are in several packs and a repack keeps one of them.
func TestReadersThatLiveOn(t *testing.T) {
	for seed := uint64(2); seed < 6; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			livingReaders(t, seed)
		})
	}
}

func livingReaders(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 7))
	r := newRig(t)
	stop := r.persister(3)
	readers := []*client.Client{client.New(r.conn), client.New(r.conn), client.New(r.conn)}
	small := threads.Reader{Packs: casstore.NewPackCache(r.conn.Store(0), 20_000), Nodes: r.conn.Store(0).Search()}
	names := []string{"a", "b", "c", "d"}
	said := map[string]int{} // entries of the threads that are there
	repacked := 0
	say := func() {
		name := names[dice.IntN(len(names))]
		var bodies [][]byte
		for range 1 + dice.IntN(8) {
			said[name]++
			n := said[name]
			bodies = append(bodies, entry(fmt.Sprint("e", n), fmt.Sprint("what is said again and again ", n)))
		}
		r.say(th(name), bodies...)
	}
	for range 120 {
		switch n := dice.IntN(10); {
		case n < 4:
			say()
		case n == 4 && dice.IntN(4) == 0:
			if name := names[dice.IntN(len(names))]; said[name] > 0 && len(said) > 1 {
				r.remove(th(name))
				delete(said, name)
				stop() // its successor begins the thread anew
				stop = r.persister(3)
			}
		case n < 8:
			cfg := brave()
			cfg.Merge, cfg.Target = 2+dice.IntN(3), int64(1000<<dice.IntN(6))
			cfg.Small = cfg.Target >> dice.IntN(3)
			if dice.IntN(2) == 0 {
				cfg.Follow = time.Hour
			}
			_, d := r.collect(cfg)
			repacked += d.Repacked
		}
		for name := range said {
			if dice.IntN(3) > 0 {
				continue
			}
			c := readers[dice.IntN(len(readers))]
			readSome(t, r, c.Reader(), name, dice)
			readItem(t, c, name, dice)
			readSome(t, r, small, name, dice)
		}
	}
	if repacked < 10 {
		t.Errorf("%d packs repacked: it was not tried", repacked)
	}
	for name := range said {
		for _, c := range readers {
			h, err := c.Thread(th(name)).Head(t.Context())
			if err == nil {
				err = threads.Verify(t.Context(), c.Reader(), h)
			}
			must.Is(t, err, nil, "Verify(%s) by a reader that lived on", name)
		}
		r.verify(th(name))
	}
}

// readItem reads an item whole, and begins a fork at its entry, as requests do.
func readItem(t *testing.T, c *client.Client, name string, dice *rand.Rand) {
	t.Helper()
	h, err := c.Thread(th(name)).Head(t.Context())
	if err != nil || h.N == 0 {
		t.Fatal(h.N, err)
	}
	n := 1 + dice.Int64N(h.N)
	must.Is(t, must.Err(c.Thread(th(name)).FullItem(t.Context(), h, n)), nil, "item %d of %s", n, name)
	must.Is(t, must.Err(threads.Fork(t.Context(), c.Reader(), h, threads.Point{Item: n})), nil, "fork of %s at item %d", name, n)
}

// readSome reads a thread from its head back, with the contents, down to some state.
func readSome(t *testing.T, r *rig, from threads.Reader, name string, dice *rand.Rand) {
	t.Helper()
	h := must.Get(r.Thread(th(name)).Head(t.Context()))(t)
	left := 1 + dice.IntN(30)
	for step, err := range from.Walk(t.Context(), h.Head()) {
		if err == nil {
			_, err = step.ReadContent(t.Context())
		}
		if err != nil {
			t.Errorf("read %s: %v", name, err)
			return
		}
		if left--; left == 0 {
			return
		}
	}
}

package casstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/casstore/storetest"
)

// counter counts the reads of a store, and holds them while gate is not nil and open.
type counter struct {
	casstore.PackGetter
	reads   atomic.Int64
	gate    chan struct{}
	reached chan struct{} // closed at the first read, if there is a gate
}

func (c *counter) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	first := c.reads.Add(1) == 1
	if c.gate != nil {
		if first {
			close(c.reached)
		}
		select {
		case <-c.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.PackGetter.Pack(ctx, id)
}

func TestPackCacheConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store {
		m := casstore.NewMemory()
		return plainStore{m, casstore.NewPackCache(m, 1<<20)}
	})
}

// plainStore hides that the memory behind the cache can be damaged, which a cache need not notice.
type plainStore struct {
	memory *casstore.Memory
	cache  *casstore.PackCache
}

func (s plainStore) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	return s.cache.Pack(ctx, id)
}

func (s plainStore) PutPack(ctx context.Context, id casstore.PackID, header, body []byte) error {
	return s.memory.PutPack(ctx, id, header, body)
}

func (s plainStore) Blob(ctx context.Context, ref casstore.Ref) ([]byte, error) {
	return s.memory.Blob(ctx, ref)
}

func (s plainStore) PutBlob(ctx context.Context, b []byte) (casstore.Ref, error) {
	return s.memory.PutBlob(ctx, b)
}

// putPacks stores that many packs of equal size and returns the size of one.
func putPacks(t *testing.T, m *casstore.Memory, n int) (size int) {
	for i := range n {
		b := casstore.NewPackBuilder()
		b.AddNode(textNode(fmt.Sprintf("%04d", i) + strings.Repeat(".", 10_000)))
		header, body := mustFinish(t, b)
		must.Do(t, m.PutPack(t.Context(), casstore.PackID{byte(i)}, header, body))
		p := must.Get(m.Pack(t.Context(), casstore.PackID{byte(i)}))(t)
		size = max(size, p.Size())
	}
	return size
}

func TestPackCacheKeepsTheLastUsed(t *testing.T) {
	m := casstore.NewMemory()
	size := putPacks(t, m, 5)
	c := &counter{PackGetter: m}
	cache := casstore.NewPackCache(c, 3*size+size/2)
	for step, s := range []struct {
		pack  byte
		reads int64
	}{{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}, {0, 4}, {1, 5}, {3, 5}, {2, 6}} {
		must.Get(cache.Pack(t.Context(), casstore.PackID{s.pack}))(t)
		if got := c.reads.Load(); got != s.reads {
			t.Fatalf("step %d: pack %d: %d reads, want %d", step, s.pack, got, s.reads)
		}
	}
	cache.Forget(casstore.PackID{2})
	_, _ = cache.Pack(t.Context(), casstore.PackID{2})
	must.Same(t, c.reads.Load(), 7, "after Forget: %d reads, want %d")
	tiny := casstore.NewPackCache(m, size/2)
	must.Is(t, must.Err(tiny.Pack(t.Context(), casstore.PackID{0})), nil, "Pack(larger than the cache)")
}

// Packs that do not fit as they are read fit as they are stored: none is asked for again.
func TestPackCacheClosesPacksBeforeItDropsThem(t *testing.T) {
	m := casstore.NewMemory()
	size := putPacks(t, m, 5)
	c := &counter{PackGetter: m}
	cache := casstore.NewPackCache(c, 5*size+25_000) // two that are read, and a half
	var open int
	for round := range 3 {
		for i := range 5 {
			p := must.Get(cache.Pack(t.Context(), casstore.PackID{byte(i)}))(t)
			if round > 0 && p.Size() >= open {
				t.Errorf("round %d: pack %d takes %d bytes before it is read, and %d when it was", round, i, p.Size(), open)
			}
			must.Get(p.Node(p.Ref(0)))(t)
			open = p.Size()
		}
		must.Get(cache.Pack(t.Context(), casstore.PackID{3}))(t)
		if p := must.Get(cache.Pack(t.Context(), casstore.PackID{4}))(t); p.Size() != open {
			t.Errorf("round %d: the pack read last takes %d bytes, want %d", round, p.Size(), open)
		}
	}
	must.Same(t, c.reads.Load(), 5, "%d reads, want %d")
	cache.Forget(casstore.PackID{0})
	cache.Forget(casstore.PackID{4})
	must.Get(cache.Pack(t.Context(), casstore.PackID{1}))(t)
	must.Same(t, c.reads.Load(), 5, "after Forget of others: %d reads, want %d")
}

func TestPackCacheReadsOnce(t *testing.T) {
	m := casstore.NewMemory()
	putPacks(t, m, 1)
	c := &counter{PackGetter: m, gate: make(chan struct{}), reached: make(chan struct{})}
	cache := casstore.NewPackCache(c, 1<<20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			must.Is(t, must.Err(cache.Pack(t.Context(), casstore.PackID{0})), nil, "Pack")
		})
	}
	close(c.gate)
	wg.Wait()
	must.Same(t, c.reads.Load(), 1, "20 callers: %d reads, want %d")
}

func TestPackCacheSurvivesACancelledReader(t *testing.T) {
	m := casstore.NewMemory()
	putPacks(t, m, 1)
	c := &counter{PackGetter: m, gate: make(chan struct{}), reached: make(chan struct{})}
	cache := casstore.NewPackCache(c, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		must.Is(t, must.Err(cache.Pack(ctx, casstore.PackID{0})), context.Canceled, "Pack(cancelled)")
	})
	<-c.reached
	wg.Go(func() {
		must.Is(t, must.Err(cache.Pack(t.Context(), casstore.PackID{0})), nil, "Pack(other)")
	})
	cancel()
	close(c.gate)
	wg.Wait()
	must.Is(t, must.Err(cache.Pack(t.Context(), casstore.PackID{9})), casstore.ErrNotFound, "Pack(missing)")
}

// Clear drops what is kept, and what is being read is not kept.
func TestPackCacheClear(t *testing.T) {
	m := casstore.NewMemory()
	putPacks(t, m, 2)
	c := &counter{PackGetter: m, gate: make(chan struct{}), reached: make(chan struct{})}
	cache := casstore.NewPackCache(c, 1<<20)
	get := func(id byte) {
		t.Helper()
		if _, err := cache.Pack(t.Context(), casstore.PackID{id}); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { get(0) })
	<-c.reached
	cache.Clear()
	close(c.gate)
	wg.Wait()
	for range 2 {
		get(0)
		get(1)
	}
	must.Same(t, c.reads.Load(), 3, "%d reads, want %d: the one under way, and one of each pack")
	cache.Clear()
	get(1)
	must.Same(t, c.reads.Load(), 4, "%d reads after Clear, want %d")
}

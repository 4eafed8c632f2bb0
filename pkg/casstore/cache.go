package casstore

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// PackCache is a PackGetter that keeps the packs read last, bounded in bytes, and asks the store once for a pack that several
// callers want at the same time. Safe for concurrent use.
type PackCache struct {
	from  PackGetter
	limit int

	mu     sync.Mutex
	size   int                      // sum of Size over all cached packs; guarded by mu
	recent *list.List               // of cachedPack, last used first; guarded by mu
	byID   map[PackID]*list.Element // guarded by mu
	flying map[PackID]*flight       // reads under way; guarded by mu
	clears int                      // how often it was cleared; guarded by mu
}

type cachedPack struct {
	id   PackID
	pack *Pack
}

// flight is one read of the store. Its fields are written before done is closed.
type flight struct {
	done   chan struct{}
	pack   *Pack
	err    error
	clears int // of the cache when the read began
}

// NewPackCache returns a cache in front of from. The packs it keeps take at most limit bytes by Pack.Size, one that is larger
// alone is not kept.
func NewPackCache(from PackGetter, limit int) *PackCache {
	return &PackCache{from: from, limit: limit, recent: list.New(), byID: make(map[PackID]*list.Element), flying: make(map[PackID]*flight)}
}

// Pack implements PackGetter. A caller that waits for the read of another returns at the end of its own context, and reads
// itself if the other was cancelled.
func (c *PackCache) Pack(ctx context.Context, id PackID) (*Pack, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if e, ok := c.byID[id]; ok {
			c.recent.MoveToFront(e)
			c.mu.Unlock()
			return e.Value.(cachedPack).pack, nil
		}
		f, waiting := c.flying[id]
		if !waiting {
			f = &flight{done: make(chan struct{}), err: errors.New("the read of the pack did not return"), clears: c.clears}
			c.flying[id] = f
		}
		c.mu.Unlock()
		if !waiting {
			return c.read(ctx, id, f)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.pack, f.err
		}
	}
}

// read asks the store, keeps the pack and wakes those who wait, also if the store panics.
func (c *PackCache) read(ctx context.Context, id PackID, f *flight) (*Pack, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.flying[id] == f {
			delete(c.flying, id)
		}
		if f.err == nil && f.clears == c.clears {
			c.keep(id, f.pack)
		}
		close(f.done)
	}()
	if f.pack, f.err = c.from.Pack(ctx, id); errors.Is(f.err, ErrGone) || errors.Is(f.err, ErrNotFound) {
		c.Clear() // whoever asks may have the name from a pack in memory that is not how it is stored any more: the next try finds it
	}
	return f.pack, f.err
}

// keep puts a pack in front and removes packs from the back until the limit holds. The caller holds mu.
func (c *PackCache) keep(id PackID, p *Pack) {
	size := p.Size()
	if size > c.limit {
		return
	}
	c.byID[id] = c.recent.PushFront(cachedPack{id, p})
	for c.size += size; c.size > c.limit; {
		last := c.recent.Remove(c.recent.Back()).(cachedPack)
		delete(c.byID, last.id)
		c.size -= last.pack.Size()
	}
}

// Forget drops a pack, so that the next read asks the store: for a caller that found it corrupt or moved.
func (c *PackCache) Forget(id PackID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		delete(c.byID, id)
		c.size -= c.recent.Remove(e).(cachedPack).pack.Size()
	}
}

// Clear drops every pack, and does not keep those whose reads are under way: for a caller that must know where packs are now. The
// nodes of a pack never change, but its table of where the nodes are that it refers to is as old as the pack.
func (c *PackCache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clears++
	c.size = 0
	c.recent.Init()
	clear(c.byID)
	clear(c.flying)
}

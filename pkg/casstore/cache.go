package casstore

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// PackCache is a PackGetter that keeps the packs read last, bounded in bytes, and asks the store once for a pack that several
// callers want at the same time. Of those used least lately it keeps what the store gave, a fraction of what is read of it. Safe for
// concurrent use.
type PackCache struct {
	from  PackGetter
	limit int

	mu     sync.Mutex
	size   int                      // sum over all cached packs; guarded by mu
	recent *list.List               // of *cachedPack, last used first; guarded by mu
	closed *list.Element            // of recent: from here on no frame of a pack is open; nil: any may be; guarded by mu
	byID   map[PackID]*list.Element // guarded by mu
	flying map[PackID]*flight       // reads under way; guarded by mu
	clears int                      // how often it was cleared; guarded by mu
}

type cachedPack struct {
	id   PackID
	pack *Pack
	size int // as counted; what is read of the pack by who has it from the cache is counted when that is used again
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
			pack := e.Value.(*cachedPack).pack
			c.use(e)
			c.mu.Unlock()
			return pack, nil
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

// keep puts a pack in front. The caller holds mu.
func (c *PackCache) keep(id PackID, p *Pack) {
	if p.Size() <= c.limit {
		c.byID[id] = c.recent.PushBack(&cachedPack{id: id, pack: p})
		c.use(c.byID[id])
	}
}

// use brings a pack to the front, and closes and then removes packs from the back until the limit holds. The caller holds mu.
func (c *PackCache) use(e *list.Element) {
	c.count(c.recent.Front())
	if c.count(e); c.closed == e {
		c.closed = e.Next()
	}
	c.recent.MoveToFront(e)
	for c.size > c.limit && c.closed != e.Next() {
		before := c.recent.Back()
		if c.closed != nil {
			before = c.closed.Prev()
		}
		before.Value.(*cachedPack).pack = before.Value.(*cachedPack).pack.closed()
		c.count(before)
		c.closed = before
	}
	for c.size > c.limit {
		c.remove(c.recent.Back())
	}
}

// count counts what a pack takes now. The caller holds mu.
func (c *PackCache) count(e *list.Element) {
	p := e.Value.(*cachedPack)
	size := p.pack.Size()
	c.size, p.size = c.size+size-p.size, size
}

// remove drops a pack. The caller holds mu.
func (c *PackCache) remove(e *list.Element) {
	if c.closed == e {
		c.closed = e.Next()
	}
	p := c.recent.Remove(e).(*cachedPack)
	delete(c.byID, p.id)
	c.size -= p.size
}

// Forget drops a pack, so that the next read asks the store: for a caller that found it corrupt or moved.
func (c *PackCache) Forget(id PackID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		c.remove(e)
	}
}

// Clear drops every pack, and does not keep those whose reads are under way: for a caller that must know where packs are now. The
// nodes of a pack never change, but its table of where the nodes are that it refers to is as old as the pack.
func (c *PackCache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clears++
	c.size, c.closed = 0, nil
	c.recent.Init()
	clear(c.byID)
	clear(c.flying)
}

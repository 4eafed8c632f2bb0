package client

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Async appends entries without a wait for each ack. What is published while a batch is on its way makes the next one, so
// that batches are as large as the server is slow, and one is in flight at a time: order and identity are those of a Publisher.
// Safe for concurrent use. It has a goroutine only while something waits.
type Async struct {
	pub    *Publisher
	cfg    AsyncConfig
	window int64
	bytes  *semaphore.Weighted
	ctx    context.Context // of what is sent
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []Entry
	taken   int           // entries, from the beginning
	through int           // of them, those that are stored or never will be
	moved   chan struct{} // closed and made anew when through grows
	running bool          // send is
	err     error         // why nothing is taken any more
	closed  bool          // by Close, with nothing lost
}

// AsyncConfig says who publishes, and how much may wait. The zero value is good.
type AsyncConfig struct {
	PublisherConfig
	Window int64 // bytes of entries that are taken and not durable; Publish waits above it; 0 = 32 MiB
	// Stored, if not nil, is told after each batch how many entries are durable more, in the order of Publish. It must not call
	// back.
	Stored func(entries int)
}

// asyncEntry is what an entry takes of the window beside its body.
const asyncEntry = 256

// asyncBatch is how many entries are published at once, at most.
const asyncBatch = 2000

// Async makes a publisher that does not wait.
func (c *Client) Async(cfg AsyncConfig) *Async {
	a := &Async{pub: c.Publisher(cfg.PublisherConfig), cfg: cfg, window: cfg.Window, moved: make(chan struct{})}
	if a.window <= 0 {
		a.window = 32 << 20
	}
	a.bytes = semaphore.NewWeighted(a.window)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Publish takes an entry and returns, at once while there is room in the window. The entry is not durable yet: Flush and
// Stored say when it is. The error is that of an entry before it that can never be stored, ErrClosed, or ctx's. The body
// must not be changed afterwards.
func (a *Async) Publish(ctx context.Context, e Entry) error {
	if err := e.Thread.Validate(); err != nil {
		return err
	}
	size := a.size(e)
	if err := a.bytes.Acquire(ctx, size); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		a.bytes.Release(size)
		return a.err
	}
	a.waiting, a.taken = append(a.waiting, e), a.taken+1
	if !a.running {
		a.running = true
		go a.send()
	}
	return nil
}

func (a *Async) size(e Entry) int64 { return min(int64(len(e.Body))+asyncEntry, a.window) }

// send publishes batch after batch until nothing waits.
func (a *Async) send() {
	for {
		a.mu.Lock()
		n, err := min(len(a.waiting), asyncBatch), a.err
		batch := a.waiting[:n:n]
		a.waiting = a.waiting[n:]
		if n == 0 {
			a.waiting, a.running = nil, false
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		if err == nil {
			err = a.publish(batch)
		}
		for _, e := range batch {
			a.bytes.Release(a.size(e))
		}
		a.mu.Lock()
		if a.err == nil && err != nil {
			a.err = err
		}
		a.through += n
		close(a.moved)
		a.moved = make(chan struct{})
		a.mu.Unlock()
	}
}

// publish stores a batch. What can never be stored stops it: what is before that is stored then, and nothing behind it, as if
// they had been published one by one.
func (a *Async) publish(batch []Entry) error {
	_, err := a.pub.Publish(a.ctx, batch...)
	if err == nil {
		a.stored(len(batch))
		return nil
	}
	for i := range batch {
		if _, err = a.pub.Publish(a.ctx, batch[i]); err != nil {
			return fmt.Errorf("an entry of %s can not be stored, and nothing behind it is: %w", batch[i].Thread, err)
		}
		a.stored(1)
	}
	return nil
}

func (a *Async) stored(n int) {
	if a.cfg.Stored != nil {
		a.cfg.Stored(n)
	}
}

// Flush returns when everything that was taken before is durable, or with the reason why it never will be.
func (a *Async) Flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for want := a.taken; a.through < want; {
		moved := a.moved
		a.mu.Unlock()
		select {
		case <-moved:
			a.mu.Lock()
		case <-ctx.Done():
			a.mu.Lock()
			return ctx.Err()
		}
	}
	if a.closed {
		return nil
	}
	return a.err
}

// Close takes no more entries, waits like Flush, and ends. When ctx ends first, it is not known whether what still waited is
// stored.
func (a *Async) Close(ctx context.Context) error {
	err := a.Flush(ctx)
	a.mu.Lock()
	if a.err == nil {
		a.closed, a.err = true, fmt.Errorf("the publisher is %w", ErrClosed)
	}
	a.mu.Unlock()
	a.cancel()
	_ = a.Flush(context.Background()) // what is under way ends now
	return err
}

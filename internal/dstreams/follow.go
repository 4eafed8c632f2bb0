package dstreams

import (
	"context"
	"sync"
	"time"

	"spool/internal/natsio"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// follower watches one stream for all who wait for it: one consumer in the server, and one reading of what is new.
type follower struct {
	h      *Handler
	thread events.Thread
	state  *state
	ctx    context.Context // its life
	end    context.CancelFunc
	users  int           // Handler.mu
	ready  chan struct{} // closed once there is a view, and every later move will come

	mu     sync.Mutex
	view   view
	moved  chan struct{} // closed when the view is replaced
	chunks map[offset]*reused
}

// reused is a chunk that many wait for.
type reused struct {
	done chan struct{}
	c    chunk
	err  error
}

const (
	// linger is how long a stream is watched when nobody waits for it any more: who polls comes again.
	linger = 2 * time.Second
	// maxReused is how many chunks of a view are kept. All who are at the end share one.
	maxReused = 4
)

// follow begins to watch a stream, or joins those who do. unfollow ends it.
func (h *Handler) follow(ctx context.Context, t events.Thread, s *state) (*follower, error) {
	h.mu.Lock()
	f := h.followers[t]
	if f == nil {
		f = &follower{h: h, thread: t, state: s, ready: make(chan struct{}), moved: make(chan struct{})}
		f.ctx, f.end = context.WithCancel(context.WithoutCancel(ctx))
		h.followers[t] = f
		s.users++ // the follower's
		go f.run()
	}
	f.users++
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Patience)
	defer cancel()
	select {
	case <-f.ready:
	case <-ctx.Done():
		h.unfollow(f)
		return nil, ctx.Err()
	}
	if err := f.catchUp(ctx); err != nil {
		h.unfollow(f)
		return nil, err
	}
	return f, nil
}

func (h *Handler) unfollow(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.users == 0 && h.followers[f.thread] == f {
			delete(h.followers, f.thread)
			f.state.users--
			f.end()
		}
	})
}

// catchUp makes sure that the view has what this process published.
func (f *follower) catchUp(ctx context.Context) error {
	published := f.state.published.Load()
	if v, _ := f.now(); v.head.Applied >= published {
		return nil
	}
	v, err := f.h.settle(ctx, f.thread, published)
	if err == nil {
		f.set(v)
	}
	return err
}

// now is the stream as it was seen last, and what is closed when it moves.
func (f *follower) now() (view, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.moved
}

// set replaces the view, unless it is older than the one there is.
func (f *follower) set(v view) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v.identity() == f.view.identity() && v.readable() && v.head.Applied < f.view.head.Applied {
		return
	}
	f.view, f.chunks = v, nil
	close(f.moved)
	f.moved = make(chan struct{})
}

// run watches until the follower ends.
func (f *follower) run() {
	for f.ctx.Err() == nil {
		if err := f.watch(); err != nil && f.ctx.Err() == nil {
			f.h.cfg.Log.Warn("watch a stream", "thread", f.thread, "error", err)
		}
		sleep.For(f.ctx, time.Second)
	}
}

func (f *follower) watch() error {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var broken error
	begin := func() {
		v, err := f.h.look(ctx, f.thread)
		if err != nil {
			broken = err
			cancel()
			return
		}
		f.set(v)
		select {
		case <-f.ready:
		default:
			close(f.ready)
		}
	}
	for r, err := range f.h.cfg.Records.Watch(ctx, events.HeadKey(f.thread), natsio.FromNow, begin) {
		if err != nil {
			return err
		}
		v, _ := f.now()
		if r.Exists() {
			err = f.h.takeHead(ctx, f.thread, &v, r)
		} else { // it ended, or was removed
			v, err = f.h.look(ctx, f.thread)
		}
		if err != nil {
			return err
		}
		f.set(v)
	}
	return broken
}

// chunk reads from an offset of a view; who asks for the same shares the answer.
func (f *follower) chunk(ctx context.Context, v *view, from offset, most int64) (chunk, error) {
	if most > chunkBytes { // too large to be kept for others
		return f.h.chunk(ctx, f.state, v, from, most)
	}
	f.mu.Lock()
	r := f.chunks[from]
	mine := r == nil
	if mine {
		if f.view.head.Applied != v.head.Applied || len(f.chunks) >= maxReused {
			f.mu.Unlock()
			return f.h.chunk(ctx, f.state, v, from, most)
		}
		r = &reused{done: make(chan struct{})}
		if f.chunks == nil {
			f.chunks = map[offset]*reused{}
		}
		f.chunks[from] = r
	}
	f.mu.Unlock()
	if mine {
		r.c, r.err = f.h.chunk(f.ctx, f.state, v, from, most)
		close(r.done)
	}
	select {
	case <-r.done:
		return r.c, r.err
	case <-ctx.Done():
		return chunk{}, ctx.Err()
	}
}

package dstreams

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// state is what a process knows of a stream beside its records.
type state struct {
	sem   chan struct{} // the stream's lock
	users int           // requests that have it; Handler.mu

	published atomic.Uint64 // EVENTS sequence of the newest event that this process stored

	// Under the lock. What the stream is after all that was published; valid while known.
	known     bool
	view      view // as it was loaded; its head is behind what follows
	entries   int64
	closed    bool
	tag       string // the greatest Stream-Seq; empty: none
	producers map[string]threads.Producer
	newest    uint64 // EVENTS sequence of the thread's newest event

	mu      sync.Mutex
	waiting []*appending // for whoever has the lock next, who does them all

	places places // of entries, for readers
}

// maxStates is how many streams a process remembers that nobody uses now.
const maxStates = 10_000

// take gives the state of a stream; drop gives it back.
func (h *Handler) take(t events.Thread) *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.states[t]
	if s == nil {
		h.forget()
		s = &state{sem: make(chan struct{}, 1)}
		h.states[t] = s
	}
	s.users++
	return s
}

// forget makes room for a state, if it finds an idle one among a few.
func (h *Handler) forget() {
	looks := 16
	for t, s := range h.states {
		if len(h.states) < maxStates || looks == 0 {
			return
		}
		if looks--; s.users == 0 {
			delete(h.states, t)
		}
	}
}

func (h *Handler) drop(s *state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users--
}

func (s *state) lock(ctx context.Context) error {
	select {
	case s.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *state) unlock() { <-s.sem }

// maxTogether is how many appends are stored as one.
const maxTogether = 64

// await puts an append among those that wait; leave takes it away again; next gives the first of them.
func (s *state) await(a *appending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, a)
}

func (s *state) leave(a *appending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(b *appending) bool { return b == a })
}

func (s *state) next() []*appending {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.waiting) && n < maxTogether && (n == 0 || size+len(s.waiting[n].bytes) <= inMemory) {
		size += len(s.waiting[n].bytes)
		n++
	}
	list := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	return list
}

// load makes the state known: it waits until the thread has applied its newest event.
func (h *Handler) load(ctx context.Context, t events.Thread, s *state) error {
	s.known = false
	newest, err := h.cfg.Events.NewestEvent(ctx, t)
	if err != nil {
		return err
	}
	v, err := h.settle(ctx, t, newest.Seq)
	if err != nil {
		return err
	}
	s.view, s.newest = v, newest.Seq
	s.entries, s.closed, s.tag = v.tail().entries, v.completed, v.head.Leaf
	if v.From != nil && s.entries <= s.forkedAt() {
		s.tag = "" // the source's
	}
	s.producers = make(map[string]threads.Producer, len(v.head.Producers))
	for _, p := range v.head.Producers {
		s.producers[p.ID] = p
	}
	s.known = true
	return nil
}

// forkedAt is the number of entries that a fork has from its source, with the state that forks.
func (s *state) forkedAt() int64 {
	o, err := parseOffset(s.view.From.Offset)
	if err != nil || o.entries == 0 {
		return 0
	}
	return o.entries + 1
}

// saw reports whether the stream has an event.
func (s *state) saw(producer string, epoch, seq uint64) bool {
	p, ok := s.producers[producer]
	return ok && (epoch < p.Epoch || epoch == p.Epoch && seq <= p.Seq)
}

// touch notes that the stream is used, which puts off the end of its TTL. The record learns it once in an eighth of that.
func (h *Handler) touch(ctx context.Context, t events.Thread, v *view) {
	for range tries {
		now := time.Now().UnixMilli()
		if !v.recorded() || v.Gone || v.TTL == nil || now-v.Touched < v.slack() {
			return
		}
		rec := v.stream
		rec.Touched = now
		rev, err := h.write(ctx, t, rec, v.rev)
		if err == nil {
			v.stream, v.rev = rec, rev
			return
		}
		newer, err := h.look(ctx, t)
		if err != nil || newer.ID != v.ID {
			return // the next use writes it
		}
		v.stream, v.rev = newer.stream, newer.rev
	}
}

// write puts a stream's record in the place of the one of a revision. record.ErrConflict: it is not that one any more.
func (h *Handler) write(ctx context.Context, t events.Thread, rec stream, rev uint64) (uint64, error) {
	return h.cfg.Records.Write(ctx, record.Put{Key: events.StreamKey(t), Value: rec.encode(), Expect: rev})
}

// commit writes records, all or none.
func (h *Handler) commit(ctx context.Context, puts ...record.Put) error {
	return again(ctx, func() error {
		fence, err := h.cfg.Records.Fence(ctx, h.lane)
		if err == nil {
			_, err = h.cfg.Records.Commit(ctx, fence, puts)
		}
		return err
	})
}

// producerName is the producer of events as a stream's thread knows it: none of a stream that had the name before, or of the
// source of a fork, is the same.
func (s *state) producerName(id string) string { return s.view.ID + "/" + id }

// again repeats what failed for a passing reason, in silence.
func again(ctx context.Context, op func() error) error { return retry.Do(ctx, nil, op) }

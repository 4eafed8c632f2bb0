package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/record"
)

// room is so much of something that requests hold while they last: places, or bytes in memory. A token of several holds half of it
// at most, so that no agent is refused for what another one holds.
type room struct {
	most   int64 // for all
	tokens *access.Tokens

	mu    sync.Mutex
	used  int64
	by    map[string]int64 // by the token's name
	freed chan struct{}    // closed when something is given back; nil: nobody waits
}

func newRoom(most int64, tokens *access.Tokens) *room {
	return &room{most: most, tokens: tokens, by: map[string]int64{}}
}

// try takes n for a token's holder. If that is too much now, freed tells when to try again.
func (r *room) try(g access.Grant, n int64) (ok bool, freed <-chan struct{}) {
	share := r.share()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.most || r.by[g.Name]+n > share {
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		return false, r.freed
	}
	r.used += n
	r.by[g.Name] += n
	return true, nil
}

// share is what a token may hold.
func (r *room) share() int64 {
	if r.tokens.Several() {
		return max(r.most/2, 1)
	}
	return r.most
}

// holds is what a token holds.
func (r *room) holds(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[name]
}

func (r *room) give(g access.Grant, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[g.Name] -= n; r.by[g.Name] == 0 {
		delete(r.by, g.Name)
	}
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// held is what one request has in memory of its body. It is an ingest.Room.
type held struct {
	room  *places
	by    *patient
	grant access.Grant
	wait  time.Duration // how long it waits for room

	mu sync.Mutex
	n  int64
}

func (a *api) hold(w http.ResponseWriter, r *http.Request, room *places) *held {
	return &held{room: room, by: w.(*patient), grant: access.From(r.Context()), wait: a.cfg.Patience}
}

// Take waits until there is room for n bytes more. An error wraps record.ErrBusy, or is the context's.
func (h *held) Take(ctx context.Context, n int) error {
	ok, err := h.room.take(ctx, h.grant, int64(n), h.wait)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: no room for what is sent: requests hold %d bytes, of at most %d: send it again", record.ErrBusy,
			h.room.usage(), h.room.most)
	}
	h.note(int64(n))
	return nil
}

func (h *held) note(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n += n; h.n > 0 {
		h.room.held.Store(h.by, h.grant.Name)
	} else {
		h.room.held.Delete(h.by)
	}
}

// Give gives bytes back.
func (h *held) Give(n int) {
	h.note(-int64(n))
	h.room.give(h.grant, int64(n))
}

// holds reports whether a part of the body is in memory.
func (h *held) holds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n > 0
}

// close gives all back.
func (h *held) close() {
	h.mu.Lock()
	n := h.n
	h.n = 0
	h.mu.Unlock()
	h.room.held.Delete(h.by)
	h.room.give(h.grant, n)
}

func (r *room) usage() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// timed reads a request's body, each piece within a time. Interrupt ends a Read, and those after it; not behind the end of
// the body, where net/http reads for itself: what interrupts that cancels the next request of the connection.
type timed struct {
	in   io.Reader
	ctl  *http.ResponseController
	time func() time.Duration // that the next piece may take

	mu      sync.Mutex
	stopped bool
	ended   bool
}

func (b *timed) Read(p []byte) (int, error) {
	b.mu.Lock()
	if !b.stopped {
		_ = b.ctl.SetReadDeadline(time.Now().Add(b.time()))
	}
	b.mu.Unlock()
	n, err := b.in.Read(p)
	if errors.Is(err, io.EOF) {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
	}
	return n, err
}

func (b *timed) Interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped = true; b.ended {
		return
	}
	_ = b.ctl.SetReadDeadline(time.Unix(1, 0))
}

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

// held is what one request has in memory of its body. It is an ingest.Room.
type held struct {
	room *places
	by   *patient
	next claim         // of whoever takes, one at a time
	wait time.Duration // how long it waits for room

	mu sync.Mutex
	n  int64
}

func (a *api) hold(w http.ResponseWriter, r *http.Request, room *places) *held {
	return &held{room: room, by: w.(*patient), next: claim{of: access.From(r.Context()).Name}, wait: a.cfg.Patience}
}

// Take waits until there is room for n bytes more; keeps is what is not given back before that. An error wraps
// record.ErrBusy, or is the context's.
func (h *held) Take(ctx context.Context, n, keeps int) error {
	h.next.n, h.next.keeps = int64(n), int64(keeps)
	ok, err := h.room.take(ctx, &h.next, h.wait)
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
		h.room.held.Store(h.by, h.next.of)
	} else {
		h.room.held.Delete(h.by)
	}
}

// Give gives bytes back.
func (h *held) Give(n int) {
	h.note(-int64(n))
	h.room.give(h.next.of, int64(n))
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
	h.room.give(h.next.of, n)
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

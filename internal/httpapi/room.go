package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/record"
)

// room is so much of something that requests hold while they last: places, or bytes in memory. A token of several holds half of it
// at most, so that no agent is refused for what another one holds. Whoever does not find enough waits in one line: in front
// what was passed by many, then the tokens that hold least, and of a token what was begun first. What is given back goes to
// the front. Where the front cannot have enough until others that wait give back what they keep, the end of the line gives way.
type room struct {
	most   int64 // for all
	tokens *access.Tokens

	mu    sync.Mutex
	used  int64
	by    map[string]int64 // by the token's name
	line  []*claim         // that wait, in any order
	began uint64           // claims that keep nothing
}

// claim asks for so much for a token.
type claim struct {
	of    string // the token's name
	n     int64
	keeps int64         // what its request has, and gives back only behind this
	age   uint64        // the number of the first one of those that keep what the ones before them got
	over  chan struct{} // closed when it has n, or gives way
	ok    bool          // it has n

	passed int // how many that were begun behind it have had what it waits for
}

// mostPassed is how many a claim lets pass: tokens that come and go always hold less than one in the middle of a body.
const mostPassed = 64

func newRoom(most int64, tokens *access.Tokens) *room {
	return &room{most: most, tokens: tokens, by: map[string]int64{}}
}

// claim grants a claim, or has it wait in the line. It does neither where as many of its token wait as could have a place.
func (r *room) claim(c *claim) (waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.keeps == 0 {
		r.began++
		c.age = r.began
	}
	share, same := r.share(), int64(0)
	if c.ok = c.n == 0 || len(r.line) == 0 && r.fits(c, share); c.ok {
		r.grant(c)
		return false
	}
	for _, w := range r.line {
		if w.of == c.of {
			same++
		}
	}
	if same >= share {
		return false
	}
	c.over, c.passed = make(chan struct{}), 0
	r.line = append(r.line, c)
	r.serve()
	return true
}

func (r *room) fits(c *claim, share int64) bool {
	return r.used+c.n <= r.most && r.by[c.of]+c.n <= share
}

func (r *room) grant(c *claim) {
	c.ok = true
	r.used += c.n
	r.by[c.of] += c.n
}

// withdraw takes a claim out of the line.
func (r *room) withdraw(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.line, c) {
		r.end(c)
		r.serve()
	}
}

// end takes a claim out of the line, and tells it.
func (r *room) end(c *claim) {
	i := slices.Index(r.line, c)
	r.line = slices.Delete(r.line, i, i+1)
	close(c.over)
}

// serve grants what there is to the front of the line, and has its end give way for it.
func (r *room) serve() {
	share := r.share()
	full := map[string]bool{} // tokens of which the first one waits for others of the same
	for {
		c := r.front(full)
		switch {
		case c == nil:
			return
		case r.by[c.of]+c.n > share:
			if kept, last := r.kept(c.of); last != nil && kept+c.n > share {
				r.end(last)
			} else {
				full[c.of] = true
			}
		case r.used+c.n > r.most:
			kept, last := r.kept("")
			if last == nil || kept+c.n <= r.most {
				return
			}
			r.end(last)
		default:
			r.grant(c)
			r.end(c)
			for _, w := range r.line {
				if w.age < c.age {
					w.passed++
				}
			}
		}
	}
}

// before says who is nearer to the front.
func (r *room) before(a, b *claim) int {
	aOld, bOld := a.passed >= mostPassed, b.passed >= mostPassed
	switch {
	case aOld && !bOld:
		return -1
	case bOld && !aOld:
		return 1
	case aOld:
		return cmp.Compare(a.age, b.age)
	}
	return cmp.Or(cmp.Compare(r.by[a.of], r.by[b.of]), cmp.Compare(a.age, b.age))
}

// front is the first one in the line, but for some tokens.
func (r *room) front(but map[string]bool) (first *claim) {
	for _, c := range r.line {
		if !but[c.of] && (first == nil || r.before(c, first) < 0) {
			first = c
		}
	}
	return first
}

// kept is what those in the line keep, of a token or, without a name, of all, and the last one of them that keeps something.
func (r *room) kept(of string) (n int64, last *claim) {
	for _, c := range r.line {
		if c.keeps == 0 || of != "" && c.of != of {
			continue
		}
		if n += c.keeps; last == nil || r.before(last, c) < 0 {
			last = c
		}
	}
	return n, last
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

func (r *room) give(of string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[of] -= n; r.by[of] == 0 {
		delete(r.by, of)
	}
	r.serve()
}

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

package persist

import (
	"context"
	"slices"
	"sync"
)

// space is the queue's bytes. Who pays for events that hold some of it gets more only as long as these then hold no more
// than is left: however much of one user comes, or of one session, about half is left to the others, and so on. Where who
// holds nothing does not find enough, it and all that come behind it wait, so that a large event gets its turn.
//
// Events in the queue may wait for one that is parked. So one session of which the parking says that nothing waits for
// longer gets what it asks for also where that is not left, once it holds nothing.
type space struct {
	parked *parking // nil: nothing is

	mu    sync.Mutex
	left  int64
	held  map[origin]int64 // by session, and by user
	waits []*claim         // in the order in which they came
}

// claim is what an event waits for.
type claim struct {
	from    origin
	size    int64 // bytes, no more than there are in all
	granted chan struct{}
}

func newSpace(bytes int64) *space { return &space{left: bytes, held: map[origin]int64{}} }

// acquire waits for a part of the space. After an error it has none.
func (s *space) acquire(ctx context.Context, from origin, size int64) error {
	s.mu.Lock()
	if len(s.waits) == 0 && s.fits(from, size) {
		s.take(from, size)
		s.mu.Unlock()
		return nil
	}
	c := &claim{from, size, make(chan struct{})}
	s.waits = append(s.waits, c)
	s.grant()
	s.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waits, c); i >= 0 {
		s.waits = slices.Delete(s.waits, i, i+1)
		s.grant()
		return ctx.Err()
	}
	return nil // it was granted at the same moment
}

// release gives back what events have.
func (s *space) release(of ...*staged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range of {
		s.take(e.from, -e.size)
		e.size = 0
	}
	s.grant()
}

// shrink leaves an event a part of what it has.
func (s *space) shrink(e *staged, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(e.from, size-e.size)
	e.size = size
	s.grant()
}

// free gives back so many bytes.
func (s *space) free(from origin, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(from, -size)
	s.grant()
}

func (s *space) take(from origin, size int64) {
	s.left -= size
	s.hold(origin{session: from.session}, size)
	if from.user != "" {
		s.hold(from.payer(), size)
	}
}

func (s *space) hold(of origin, size int64) {
	if s.held[of] += size; s.held[of] == 0 {
		delete(s.held, of)
	}
}

func (s *space) fits(from origin, size int64) bool { return s.held[from.payer()]+size <= s.left }

// has reports whether an event would get that much now.
func (s *space) has(from origin, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits) == 0 && s.fits(from, size)
}

// look grants what can be granted now that something else is parked for longest.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant()
}

// first reports whether a session gets what is not left.
func (s *space) first(from origin) bool {
	return s.parked != nil && s.left >= 0 && s.held[origin{session: from.session}] == 0 && s.parked.oldest(from.session)
}

// grant gives to those that wait what they can have.
func (s *space) grant() {
	full, behind := false, map[origin]bool{} // who waits for something before
	s.waits = slices.DeleteFunc(s.waits, func(c *claim) bool {
		who := c.from.payer()
		if (full || behind[who] || !s.fits(c.from, c.size)) && !s.first(c.from) {
			full = full || s.held[who] == 0
			behind[who] = true
			return false
		}
		s.take(c.from, c.size)
		close(c.granted)
		return true
	})
}

package persist

import (
	"context"
	"slices"
	"sync"
)

// space is the queue's bytes. A session that holds some of it gets more only as long as it then holds no more than is left:
// however much of one session comes, about half is left to the others, and so on. Where a session that holds nothing does
// not find enough, it and all that come behind it wait, so that a large event gets its turn.
//
// Events in the queue may wait for one that is parked. So one session of which the parking says that nothing waits for
// longer gets what it asks for also where that is not left, once it holds nothing.
type space struct {
	parked *parking // nil: nothing is

	mu    sync.Mutex
	left  int64
	held  map[string]int64 // by session
	waits []*claim         // in the order in which they came
}

// claim is what a session waits for.
type claim struct {
	session string
	size    int64 // bytes, no more than there are in all
	granted chan struct{}
}

func newSpace(bytes int64) *space { return &space{left: bytes, held: map[string]int64{}} }

// acquire waits for a part of the space. After an error it has none.
func (s *space) acquire(ctx context.Context, session string, size int64) error {
	s.mu.Lock()
	if len(s.waits) == 0 && s.fits(session, size) {
		s.take(session, size)
		s.mu.Unlock()
		return nil
	}
	c := &claim{session, size, make(chan struct{})}
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
		s.take(e.event.Thread.Session, -e.size)
		e.size = 0
	}
	s.grant()
}

// shrink leaves an event a part of what it has.
func (s *space) shrink(e *staged, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(e.event.Thread.Session, size-e.size)
	e.size = size
	s.grant()
}

// free gives back so many bytes.
func (s *space) free(session string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(session, -size)
	s.grant()
}

func (s *space) take(session string, size int64) {
	s.left -= size
	if s.held[session] += size; s.held[session] == 0 {
		delete(s.held, session)
	}
}

func (s *space) fits(session string, size int64) bool { return s.held[session]+size <= s.left }

// has reports whether a session would get that much now.
func (s *space) has(session string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits) == 0 && s.fits(session, size)
}

// look grants what can be granted now that something else is parked for longest.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant()
}

// first reports whether a session gets what is not left.
func (s *space) first(session string) bool {
	return s.parked != nil && s.left >= 0 && s.held[session] == 0 && s.parked.oldest(session)
}

// grant gives to those that wait what they can have.
func (s *space) grant() {
	full := false
	s.waits = slices.DeleteFunc(s.waits, func(c *claim) bool {
		if (full || !s.fits(c.session, c.size)) && !s.first(c.session) {
			full = full || s.held[c.session] == 0
			return false
		}
		s.take(c.session, c.size)
		close(c.granted)
		return true
	})
}

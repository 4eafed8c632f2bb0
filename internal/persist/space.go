package persist

import (
	"context"
	"slices"
	"sync"
)

// space is the queue's bytes. Who pays for events that hold some of it gets more only as long as these then hold no more
// than is left: however much of one user comes, or of one session, about half is left to the others, and so on. Where who
// holds nothing does not find enough, it and all that come behind it wait, so that a large event gets its turn. Small ones
// pass it, as long as all that small ones hold leaves what it needs: for them it is not to be waited until a large event is
// read, cut and applied.
//
// Events in the queue may wait for one that is parked, and what is parked for room in the queue. So one session of which the parking
// says that nothing waits for longer gets what it asks for also where that is not left, once it holds nothing.
type space struct {
	parked *parking // nil: nothing is

	all int64

	mu      sync.Mutex
	left    int64
	small   int64            // held by small ones
	held    map[origin]int64 // by session, and by user
	waits   []*claim         // in the order in which they came
	waiting map[origin]int   // how many of them, by who pays
}

// claim is what an event waits for.
type claim struct {
	from    origin
	size    int64 // bytes, no more than there are in all
	granted chan struct{}
}

func newSpace(bytes int64) *space {
	return &space{all: bytes, left: bytes, held: map[origin]int64{}, waiting: map[origin]int{}}
}

// acquire waits for a part of the space. After an error it has none.
func (s *space) acquire(ctx context.Context, from origin, size int64) error {
	s.mu.Lock()
	if len(s.waits) == 0 && s.fits(from, size) {
		s.change(from, 0, size)
		s.mu.Unlock()
		return nil
	}
	c := &claim{from, size, make(chan struct{})}
	s.waits = append(s.waits, c)
	s.waiting[from.payer()]++
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
		s.leave(i)
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
		s.change(e.from, e.size, 0)
		e.size = 0
	}
	s.grant()
}

// shrink leaves an event a part of what it has.
func (s *space) shrink(e *staged, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(e.from, e.size, size)
	e.size = size
	s.grant()
}

// free gives back so many bytes.
func (s *space) free(from origin, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(from, size, 0)
	s.grant()
}

// change is of what an event has, or a claim.
func (s *space) change(from origin, was, size int64) {
	if s.isSmall(was) {
		s.small -= was
	}
	if s.isSmall(size) {
		s.small += size
	}
	s.left -= size - was
	s.hold(origin{session: from.session}, size-was)
	if from.user != "" {
		s.hold(from.payer(), size-was)
	}
}

// smallPart is the part of the space that a small one has at most: one of so many.
const smallPart = 64

func (s *space) isSmall(size int64) bool { return size <= s.all/smallPart }

// mostOf is what one event takes of so many bytes at most: small ones find room beside it.
func mostOf(bytes int64) int64 { return bytes - bytes/4 }

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

// crowded reports whether others find room where an event does not, since it is large or its payer has much already. Where all that a
// payer has is small, the space is full of all the others, and what comes behind the event finds no more.
func (s *space) crowded(from origin, size int64) bool {
	return !s.has(from, size) && !s.isSmall(s.of(from)+size)
}

func (s *space) of(from origin) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[from.payer()]
}

// look grants what can be granted now that something else is parked for longest.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant()
}

// first is the claim of the session that gets what is not left, if there is one.
func (s *space) first() int {
	if s.parked == nil || s.left < 0 || len(s.waits) == 0 {
		return -1
	}
	session, ok := s.parked.first()
	if !ok || s.held[origin{session: session}] != 0 {
		return -1
	}
	return slices.IndexFunc(s.waits, func(c *claim) bool { return c.from.session == session })
}

// grant gives to those that wait what they can have. Nobody overtakes who waits of the same payer, so that it looks at
// as many as pay, and not at all that wait.
func (s *space) grant() {
	beside, behind := s.all, map[origin]bool{} // what those may hold that pass, and who waits for something before
	for i := 0; i < len(s.waits) && (beside == s.all || s.small < beside) && len(behind) < len(s.waiting); {
		c := s.waits[i]
		who := c.from.payer()
		switch {
		case behind[who]:
		case beside < s.all && (!s.isSmall(c.size) || s.small+c.size > beside):
			behind[who] = true
		case !s.fits(c.from, c.size):
			if s.held[who] == 0 {
				beside = min(beside, s.all-c.size)
			}
			behind[who] = true
		default:
			s.give(i)
			continue
		}
		i++
	}
	if i := s.first(); i >= 0 {
		s.give(i)
	}
}

// give grants what one waits for.
func (s *space) give(i int) {
	c := s.waits[i]
	s.leave(i)
	s.change(c.from, 0, c.size)
	close(c.granted)
}

// leave takes one out of those that wait.
func (s *space) leave(i int) {
	who := s.waits[i].from.payer()
	if s.waiting[who]--; s.waiting[who] == 0 {
		delete(s.waiting, who)
	}
	s.waits = slices.Delete(s.waits, i, i+1)
}

package httpapi

import (
	"context"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/family"
	"spool/internal/sleep"
)

// By how much a client may be behind its headway when another one asks for its place, and how long that one asks, and how often.
const (
	lendTime = time.Second
	askTime  = 2 * lendTime
	askAgain = lendTime / 10
)

// lends reports whether a place is given to who asks, from a request whose client is slow. A stream is none: it is silent for as
// long as it likes.
func (in lane) lends() bool { return in == storing || in == uploading || in == reading }

var errPlaces = family.Unavailable.New("too many requests at a time: try again")

// places are those of a lane, or bytes in memory, with who holds them.
type places struct {
	*room
	held sync.Map // of *patient: the name of its token
}

func newPlaces(most int64, tokens *access.Tokens) *places {
	return &places{room: newRoom(most, tokens)}
}

// enter takes a place for a request, that had one before or not; leave gives it back. Where there is none it asks those that lend theirs, for
// a while.
func (l *places) enter(ctx context.Context, p *patient, lends, again bool) error {
	c, wait := &claim{of: access.From(ctx).Name, n: 1, again: again}, time.Duration(0)
	if lends {
		wait = askTime
	}
	ok, err := l.take(ctx, c, wait)
	if err == nil && !ok {
		err = errPlaces
	}
	if err == nil {
		l.held.Store(p, c.of)
	}
	return err
}

// take claims, and asks for it for a while. It is not ok where there is not so much then.
func (l *places) take(ctx context.Context, c *claim, wait time.Duration) (ok bool, err error) {
	if !l.claim(c) {
		return c.ok, nil
	}
	began, late, again := time.Now(), time.After(wait), time.NewTicker(askAgain)
	defer again.Stop()
	for {
		if wait > 0 {
			l.ask(c, time.Since(began))
		}
		select {
		case <-c.over:
			return c.ok, nil
		case <-again.C:
		case <-late:
			l.withdraw(c)
			return c.ok, nil
		case <-ctx.Done():
			if l.withdraw(c); c.ok {
				l.give(c.of, c.n)
			}
			return false, context.Cause(ctx)
		}
	}
}

// ask ends a request that waits for its client: the one that is late most, of the token that holds the most. It must be slow, unless
// its token has more than its part, and the claim waited for that; then one is ended once the one before has given back. A token that
// would hold more than its share asks its own.
func (l *places) ask(c *claim, waited time.Duration) {
	own, fair := l.holds(c.of)+c.n > l.share(), l.part(c)
	var slow, over, chosen lending
	giving := waited < lendTime
	for key, name := range l.held.Range {
		p, of := key.(*patient), name.(string)
		giving = giving || p.gives()
		if own && of != c.of {
			continue
		}
		n, late := l.holds(of), p.late()
		slow.best(lending{p, n, late, lendTime})
		if n > fair {
			over.best(lending{p, n, late, -lendTime})
		} else {
			over.best(lending{p, n, late, lendTime})
		}
	}
	if chosen = over; giving {
		chosen = slow
	}
	if chosen.of != nil {
		chosen.of.lend(chosen.may)
	}
}

// lending is a request that can be ended: its token holds so much, and it is so late, which may be this at the least.
type lending struct {
	of        *patient
	n         int64
	late, may time.Duration
}

// best is the other one where that is late enough, and of a token that holds more, or later.
func (l *lending) best(o lending) {
	if o.late >= o.may && (o.n > l.n || o.n == l.n && o.late > l.late) {
		*l = o
	}
}

func (l *places) leave(p *patient, of string) {
	l.held.Delete(p)
	l.give(of, 1)
}

// stay is a request's place in its lane, which one that waits for what is to be applied gives back meanwhile.
type stay struct {
	*places
	lends bool

	mu   sync.Mutex
	away bool // a wait is under way
	has  bool
}

func (s *stay) enter(ctx context.Context, p *patient, again bool) error {
	err := s.places.enter(ctx, p, s.lends, again)
	s.has = err == nil
	return err
}

func (s *stay) leave(ctx context.Context, p *patient) {
	if s.has {
		s.places.leave(p, access.From(ctx).Name)
		s.has = false
	}
}

// aside has the waits of a request take a place among those that wait instead of its own, which it keeps where there is none. Of several
// at a time the first one does.
func (s *stay) aside(ctx context.Context, p *patient, among *places) context.Context {
	return sleep.WithAside(ctx, func(wait func() error) error {
		s.mu.Lock()
		first := !s.away
		s.away = true
		s.mu.Unlock()
		if !first {
			return wait()
		}
		defer func() {
			s.mu.Lock()
			s.away = false
			s.mu.Unlock()
		}()
		there := &stay{places: among}
		if there.enter(ctx, p, false) != nil {
			return wait()
		}
		s.leave(ctx, p)
		err := func() error {
			defer there.leave(ctx, p) // net/http goes on where a handler panics
			return wait()
		}()
		if e := s.enter(ctx, p, true); e != nil {
			err = e
		}
		return err
	})
}

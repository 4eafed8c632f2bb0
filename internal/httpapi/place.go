package httpapi

import (
	"context"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/family"
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

// enter takes a place for a request; leave gives it back. Where there is none it asks those that lend theirs, for a while.
func (l *places) enter(ctx context.Context, p *patient, lends bool) error {
	c, wait := &claim{of: access.From(ctx).Name, n: 1}, time.Duration(0)
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

// giving reports whether a request that was ended lately holds something still.
func (l *places) giving() (yes bool) {
	for key := range l.held.Range {
		yes = yes || key.(*patient).gives()
	}
	return yes
}

// ask ends a request that waits for its client: the one that is late most, of the token that holds the most. It must be slow, unless
// its token has more than its part, and the claim waited for that; then one is ended once the one before has given back. A token that
// would hold more than its share asks its own.
func (l *places) ask(c *claim, waited time.Duration) {
	own, part := l.holds(c.of)+c.n > l.share(), l.most
	if waited >= lendTime && !l.giving() {
		part = l.part(c)
	}
	var slowest *patient
	var most int64
	var latest, limit time.Duration
	for key, name := range l.held.Range {
		p, of := key.(*patient), name.(string)
		n, late, may := l.holds(of), p.late(), lendTime
		if n > part {
			may = -lendTime
		}
		if late < may || own && of != c.of {
			continue
		}
		if n > most || n == most && late > latest {
			slowest, most, latest, limit = p, n, late, may
		}
	}
	if slowest != nil {
		slowest.lend(limit)
	}
}

func (l *places) leave(p *patient, of string) {
	l.held.Delete(p)
	l.give(of, 1)
}

package httpapi

import (
	"context"
	"sync"
	"time"

	"spool/internal/access"
	"spool/internal/family"
)

// How long a client may let us wait for a piece of what it takes or sends when another one asks for its place, and how long that
// one asks.
const (
	lendTime = time.Second
	askTime  = 2 * lendTime
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
	grant := access.From(ctx)
	var late <-chan time.Time
	for {
		ok, freed := l.try(grant, 1)
		if ok {
			l.held.Store(p, grant.Name)
			return nil
		}
		if !lends {
			return errPlaces
		}
		if late == nil {
			late = time.After(askTime)
		}
		l.ask(grant, 1)
		select {
		case <-freed:
		case <-time.After(lendTime / 10):
		case <-late:
			return errPlaces
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask ends a request that waits for a slow client: the one that waits longest, of the token that holds the most. A token that would
// hold more than its share asks its own.
func (l *places) ask(grant access.Grant, n int64) {
	own := l.holds(grant.Name)+n > l.share()
	var slowest *patient
	var most int64
	var longest time.Duration
	for key, name := range l.held.Range {
		p, of := key.(*patient), name.(string)
		waited := p.waited()
		if waited < lendTime || own && of != grant.Name {
			continue
		}
		if n := l.holds(of); n > most || n == most && waited > longest {
			slowest, most, longest = p, n, waited
		}
	}
	if slowest != nil {
		slowest.lend()
	}
}

func (l *places) leave(p *patient, grant access.Grant) {
	l.held.Delete(p)
	l.give(grant, 1)
}

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
	held   sync.Map // of *patient: the name of its token
	asking *room    // those that ask for a place: as many as there are, as each that is given back wakes all of them
}

func newPlaces(most int64, tokens *access.Tokens) *places {
	return &places{room: newRoom(most, tokens), asking: newRoom(most, tokens)}
}

// enter takes a place for a request; leave gives it back. Where there is none it asks those that lend theirs, for a while.
func (l *places) enter(ctx context.Context, p *patient, lends bool) error {
	grant := access.From(ctx)
	ok, _ := l.try(grant, 1)
	if asks := lends && !ok; asks {
		if asks, _ = l.asking.try(grant, 1); asks {
			defer l.asking.give(grant, 1)
			var err error
			if ok, err = l.take(ctx, grant, 1, askTime); err != nil {
				return err
			}
		}
	}
	if !ok {
		return errPlaces
	}
	l.held.Store(p, grant.Name)
	return nil
}

// take takes n, and asks for it for a while. It is not ok where there is not so much then.
func (l *places) take(ctx context.Context, grant access.Grant, n int64, wait time.Duration) (ok bool, err error) {
	ok, freed := l.try(grant, n)
	if ok {
		return true, nil
	}
	late, again := time.After(wait), time.NewTicker(askAgain)
	defer again.Stop()
	for l.ask(grant, n); !ok; ok, freed = l.try(grant, n) {
		select {
		case <-freed:
		case <-again.C:
			l.ask(grant, n)
		case <-late:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return true, nil
}

// ask ends a request that waits for a slow client: the one that is late most, of the token that holds the most. A token that would
// hold more than its share asks its own.
func (l *places) ask(grant access.Grant, n int64) {
	own := l.holds(grant.Name)+n > l.share()
	var slowest *patient
	var most int64
	var latest time.Duration
	for key, name := range l.held.Range {
		p, of := key.(*patient), name.(string)
		late := p.late()
		if late < lendTime || own && of != grant.Name {
			continue
		}
		if n := l.holds(of); n > most || n == most && late > latest {
			slowest, most, latest = p, n, late
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

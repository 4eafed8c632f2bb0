package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"spool/internal/natsio"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Live follows the items of the session's threads from now on, as SubscribeReady does, for a third of its work on the server; ready may be
// nil. What comes so has neither Seq nor More: whoever goes on later does so by its number, N. From servers that are a cluster, and to a
// user who may not subscribe to items, it comes by SubscribeReady.
func (s SessionHandle) Live(ctx context.Context, ready func()) iter.Seq2[Item, error] {
	return s.c.followLive(ctx, Filter{Session: s.ID}, events.CheckToken("session", s.ID), ready)
}

// Live is SessionHandle.Live, of one thread.
func (t ThreadHandle) Live(ctx context.Context, ready func()) iter.Seq2[Item, error] {
	return t.c.followLive(ctx, Filter{Session: t.Session, Thread: t.Name}, t.Validate(), ready)
}

func (c *Client) followLive(ctx context.Context, f Filter, bad error, ready func()) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if bad != nil {
			yield(Item{}, bad)
			return
		}
		s := &subscription{c: c, ctx: ctx, filter: f, last: newPlaces(mostPlaces), yield: yield}
		if ready == nil {
			ready = func() {}
		}
		s.live(ready)
	}
}

// live gives what comes to the caller, and what is stored where something may have been missed.
func (s *subscription) live(ready func()) {
	var read uint64 // all that ITEMS had up to there was given, or was there before
	stands := false
	for it, err := range natsio.Live(s.ctx, s.c.items, s.filter.subjects()[0]) {
		goesOn := true
		switch {
		case err != nil:
		case it.Data != nil:
			if read, goesOn, err = s.meet(read, it); goesOn && err == nil {
				goesOn = s.take(it)
			}
		case stands:
			read, goesOn, err = s.catchUp(read)
		default:
			if read, err = s.stand(); err == nil {
				stands = true
				ready()
			}
		}
		switch {
		case stands && errors.Is(err, natsio.ErrNoLive):
			s.run(s.c.items.Follow(s.ctx, s.filter.subjects(), natsio.Position{Seq: read + 1}, nil))
			return
		case !stands && err != nil && s.ctx.Err() == nil: // who may not look, follows
			s.c.SubscribeReady(s.ctx, s.filter, Position{}, ready)(s.yield)
			return
		case err != nil:
			s.fail(err)
			return
		case !goesOn:
			return
		}
	}
}

// stand notes what was there before the subscription: items are published behind the commit that a head tells of.
func (s *subscription) stand() (read uint64, err error) {
	if _, read, err = s.c.items.Span(s.ctx); err != nil {
		return 0, err
	}
	heads, err := s.heads()
	for of, n := range heads {
		s.last.set(of, n)
		if s.filter.one() {
			s.had = Had{N: n, Life: of.life}
		}
	}
	return read, err
}

// heads are the numbers of the last items of the filter's threads.
func (s *subscription) heads() (map[life]int64, error) {
	if s.filter.one() {
		t := events.Thread{Session: s.filter.Session, Name: s.filter.Thread}
		head, err := s.c.Thread(t).Head(s.ctx)
		if errors.Is(err, threads.ErrNoThread) {
			return nil, nil
		}
		return map[life]int64{{t, head.Life}: head.N}, err
	}
	all, err := s.c.Session(s.filter.Session).Threads(s.ctx)
	heads := make(map[life]int64, len(all))
	for _, t := range all {
		heads[life{t.Thread, t.Head.Life}] = t.Head.N
	}
	return heads, err
}

// meet gives what is stored before an item that is the first to come of its thread, and not its first one: those before it were published
// while the connection was lost, and may be on their way to ITEMS still, as in a batch they are until its end.
func (s *subscription) meet(read uint64, it natsio.StoredItem) (now uint64, goesOn bool, err error) {
	now, goesOn = read, true
	t, _ := events.ParseItemSubject(it.Subject)
	for begun := time.Now(); goesOn && err == nil && it.N > 1 && time.Since(begun) < natsio.LateItem; {
		if _, known := s.last.get(life{t, it.Life}); known {
			break
		}
		if now, goesOn, err = s.catchUp(now); err == nil {
			sleep.For(s.ctx, storedSoon)
		}
	}
	return now, goesOn, err
}

// storedSoon is how long to wait for what is on its way to ITEMS.
const storedSoon = 20 * time.Millisecond

// catchUp gives what was stored meanwhile.
func (s *subscription) catchUp(read uint64) (now uint64, goesOn bool, err error) {
	goesOn = true
	err = retry.Do(s.ctx, nil, func() (err error) {
		var first uint64
		if first, now, err = s.c.items.Span(s.ctx); err != nil {
			return err
		}
		if now < read { // the stream is another one
			read = max(first, 1) - 1
		}
		err = s.c.items.UntilNow(s.ctx, s.filter.subjects(), natsio.Position{Seq: read + 1}, func(it natsio.StoredItem) error {
			if goesOn = s.take(it); !goesOn {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	})
	return now, goesOn, err
}

// errEnough: the caller wants no more.
var errEnough = errors.New("enough")

package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/events"
)

// ErrNoLive: items can not be had as they are published, or not without one that is missed unnoticed; a consumer gives them.
var ErrNoLive = errors.New("no live items")

// LateItem is how long behind its publishing an item is stored at most: what is looked for in ITEMS at once may not be there yet.
const LateItem = 2 * time.Second

// Live follows the items of a subject as persisters publish them, by a subscription of the connection, until ctx ends or the caller
// stops: a third of the work that a consumer is to a server. Such an item has neither sequence nor time, and may come again. The zero item
// says that some may have been missed: the caller looks at what is stored. It comes once the subscription stands, and where the caller
// was too slow or the connection was lost: then, before what comes next, and once more LateItem later. ErrNoLive, at any time: the user may
// not subscribe, or the server is one of a cluster, where what a route loses is told to nobody.
func Live(ctx context.Context, its Items, subject string) iter.Seq2[StoredItem, error] {
	return func(yield func(StoredItem, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		l := liveItems{c: its.c, subject: subject, came: make(chan *nats.Msg), closed: make(chan struct{})}
		err := l.begin(ctx)
		if l.sub != nil {
			defer func() { _ = l.sub.Unsubscribe() }()
		}
		if err != nil {
			yield(StoredItem{}, WrapErr(err))
			return
		}
		defer func() { l.done() }()
		for again := yield(StoredItem{}, nil); again; {
			it, err := l.next(ctx)
			if ctx.Err() != nil {
				return
			}
			again = yield(it, err) && err == nil
		}
	}
}

// liveItems is a subscription of a connection to items.
type liveItems struct {
	c       *Conn
	subject string
	sub     *nats.Subscription
	came    chan *nats.Msg
	closed  chan struct{} // the connection is

	held    *nats.Msg        // came, and is given next
	link    uint64           // the connection over which it came, of those that there were
	dropped int              // messages that had no room
	late    <-chan time.Time // items were missed: when to look again

	lost context.Context // ends some time behind a new connection, or with a refusal
	done func()
}

func (l *liveItems) begin(ctx context.Context) (err error) {
	if err = l.watch(ctx); err != nil {
		return err
	}
	l.link = l.c.Events().Link()
	l.sub, err = l.c.nc.Subscribe(l.subject, func(m *nats.Msg) {
		select {
		case l.came <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	l.sub.SetClosedHandler(func(string) { close(l.closed) })
	if err = l.sub.SetPendingLimits(readMessages, readBytes); err != nil {
		return err
	}
	_, err = l.c.nc.RTT() // the server knows of the subscription
	return err
}

func (l *liveItems) watch(ctx context.Context) (err error) {
	if l.c.clustered() {
		return fmt.Errorf("%w: the server is one of a cluster", ErrNoLive)
	}
	l.lost, l.done, err = l.c.denied.watch(ctx, func(subject string) bool { return subject == l.subject })
	return err
}

// next waits for an item, or gives the zero one.
func (l *liveItems) next(ctx context.Context) (it StoredItem, err error) {
	for ctx.Err() == nil {
		if l.held == nil {
			select {
			case l.held = <-l.came:
			case <-l.late:
				l.late = nil
				return it, nil
			case <-l.closed:
				return it, errClosed
			case <-l.lost.Done():
				why := context.Cause(l.lost)
				l.done()
				if errors.Is(why, record.ErrDenied) {
					return it, fmt.Errorf("%w: %w", ErrNoLive, why)
				}
				if err := l.watch(ctx); err != nil {
					return it, err
				}
			}
		}
		if l.missed() {
			l.late = time.After(LateItem)
			return it, nil
		}
		if m := l.held; m != nil {
			l.held = nil
			return StoredItem{
				Subject: m.Subject, N: itemNumber(m.Data), Life: itemLife(m.Header), Data: m.Data, Trace: m.Header.Get(events.HeaderTrace),
			}, nil
		}
	}
	return it, ctx.Err()
}

// missed reports whether items may have been, since it was asked last: before a message of a new connection is given it is true.
func (l *liveItems) missed() bool {
	link := l.c.Events().Link()
	dropped, err := l.sub.Dropped()
	if err != nil { // it is closed
		dropped = l.dropped
	}
	same := link == l.link && dropped == l.dropped
	l.link, l.dropped = link, dropped
	return !same
}

package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/events"
)

// Peers is where the persisters of a system hear each other (internal/share). The server passes on what they say, and keeps nothing.
type Peers struct{ c *Conn }

// PeersOf is the role of a persister among others.
func PeersOf(c *Conn) Peers { return Peers{c} }

// Alone reports whether the server knows that nobody hears what is said. Where it does not say so, there may be somebody. An
// error: this user may not say anything.
func (p Peers) Alone(ctx context.Context) (bool, error) {
	alone, err := p.nobody(ctx, events.PersistersSubject)
	if errors.Is(err, record.ErrDenied) {
		return false, err
	}
	return alone && err == nil, nil
}

// Gone reports whether the server knows that a persister hears no more. Of one whose machine is cut off it does not know it for minutes,
// nor of one of an earlier version, which never heard there. An error: nobody said either, as where this user may not ask.
func (p Peers) Gone(ctx context.Context, id string) (bool, error) {
	if err := events.CheckToken("persister", id); err != nil { // it comes from whoever speaks: a subject takes no more
		return false, err
	}
	return p.nobody(ctx, events.PersisterSubject(id))
}

// nobody asks the server whether nobody hears a subject. record.ErrDenied: this user may not ask; another error: there is no answer now.
func (p Peers) nobody(ctx context.Context, subject string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.c.timeout)
	defer cancel()
	ctx, done, err := p.c.Streams().Denied(ctx, subject)
	if err != nil {
		return false, record.ErrUnknown // it does not hear answers now
	}
	defer done()
	inbox := p.c.nc.NewInbox()
	sub, err := p.c.nc.SubscribeSync(inbox)
	if err != nil {
		return false, WrapErr(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	err = p.c.nc.PublishRequest(subject, inbox, nil)
	if err == nil {
		// The server answers that nobody listens, or that this is not allowed, before it answers the ping.
		err = p.c.nc.FlushWithContext(ctx)
	}
	if cause := context.Cause(ctx); errors.Is(cause, record.ErrDenied) {
		return false, cause
	}
	// Who waits for it may be told that it is not allowed only behind the ping.
	if not, publish, _ := refused(p.c.nc.LastError()); publish && not == subject {
		return false, fmt.Errorf("%w: %s", record.ErrDenied, subject)
	}
	if err != nil {
		return false, WrapErr(err)
	}
	if n, _, err := sub.Pending(); err != nil || n == 0 {
		return false, WrapErr(err)
	}
	_, err = sub.NextMsg(time.Millisecond) // it is there
	return errors.Is(err, nats.ErrNoResponders), nil
}

// Say tells all others.
func (p Peers) Say(b []byte) error { return WrapErr(p.c.nc.Publish(events.PersistersSubject, b)) }

// Hear calls f for all that is said, one after the other, until stop is called or the connection ends. So long a persister of that id is
// there.
func (p Peers) Hear(id string, f func(b []byte)) (stop func(), err error) {
	all, err := p.c.nc.Subscribe(events.PersistersSubject, func(m *nats.Msg) { f(m.Data) })
	if err != nil {
		return nil, WrapErr(err)
	}
	own, err := p.c.nc.Subscribe(events.PersisterSubject(id), func(*nats.Msg) {})
	if err != nil {
		_ = all.Unsubscribe()
		return nil, WrapErr(err)
	}
	return func() {
		_ = all.Unsubscribe()
		_ = own.Unsubscribe()
	}, nil
}

// Connected reports whether the server is there.
func (p Peers) Connected() bool { return p.c.Connected() }

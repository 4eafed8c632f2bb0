package natsio

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// aloneLease is how long the server keeps a place for a process that gives no sign.
const aloneLease = 15 * time.Second

var errLeaseLost = errors.New("the lease may be over")

// Alone calls do while no other process of the user does so under the name, and waits for that; when it returns, so does Alone. Where the
// server is not heard for too long, so that another process may begin, the context of do ends first, and Alone waits for its turn again.
// ErrReader: another process does so for another session.
func Alone(ctx context.Context, its Items, name, session string, do func(context.Context) error) error {
	return its.alone(ctx, name, session, aloneLease, do)
}

func (its Items) alone(ctx context.Context, name, session string, lease time.Duration, do func(context.Context) error) error {
	if err := events.CheckToken("name", name); err != nil {
		return err
	}
	if _, err := its.c.js.Stream(ctx, events.ItemsStream); err != nil { // later that passes
		return fmt.Errorf("wait to be the only %q: %w", name, WrapErr(err))
	}
	a := alone{
		c: its.c, lease: lease, owner: rand.Text(),
		name: events.ReaderConsumer(name, its.c.readerTag(name)), filter: events.NoItems(session),
	}
	for {
		if err := a.take(ctx); err != nil {
			return fmt.Errorf("wait to be the only %q: %w", name, err)
		}
		if err := a.hold(ctx, do); !errors.Is(err, errLeaseLost) || ctx.Err() != nil {
			return err
		}
	}
}

// alone is a lease: a consumer that gives nothing, says who made it, and that the server deletes when it is asked for nothing. So it needs
// no record, which readers may not write.
type alone struct {
	c                   *Conn
	lease               time.Duration
	owner, name, filter string
	cons                jetstream.Consumer
	renewed             time.Time // the server counts from then, or later
}

// take waits until the consumer is ours.
func (a *alone) take(ctx context.Context) error {
	return retry.Do(ctx, nil, func() (err error) {
		a.renewed = time.Now()
		a.cons, err = a.c.js.CreateConsumer(ctx, events.ItemsStream, jetstream.ConsumerConfig{
			Durable: a.name, FilterSubject: a.filter, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: a.lease,
			Metadata: map[string]string{"owner": a.owner},
		})
		if errors.Is(err, jetstream.ErrConsumerExists) {
			other, err := a.c.js.Consumer(ctx, events.ItemsStream, a.name)
			if errors.Is(err, jetstream.ErrConsumerNotFound) { // it went right now
				return record.ErrBusy
			}
			if err != nil {
				return WrapErr(err)
			}
			if err := checkFilters(other, []string{a.filter}); err != nil {
				return err
			}
			return record.ErrBusy // another one has it
		}
		if err == nil {
			err = a.renew(ctx)
		}
		return WrapErr(err)
	})
}

// renew tells the server that we are there. The lease is lost where another one has it.
func (a *alone) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.lease/5)
	defer cancel()
	at := time.Now()
	next := apiSubject(a.c.js, "CONSUMER.MSG.NEXT."+events.ItemsStream+"."+a.name)
	_, asked := a.c.nc.RequestWithContext(ctx, next, []byte(`{"batch":1,"no_wait":true}`)) // answered at once: there is nothing
	info, err := a.cons.Info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || err == nil && info.Config.Metadata["owner"] != a.owner {
		return fmt.Errorf("%w: %w", record.ErrBusy, errLeaseLost)
	}
	if err = cmp.Or(err, asked); err != nil {
		return err
	}
	a.renewed = at
	return nil
}

// hold calls do while the consumer is ours for sure, and gives it away.
func (a *alone) hold(ctx context.Context, do func(context.Context) error) error {
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		for range sleep.Every(held, a.lease/5) {
			if err := a.renew(held); errors.Is(err, errLeaseLost) || time.Since(a.renewed) > a.lease/2 {
				lose(errLeaseLost)
			}
		}
	}()
	err := do(held)
	lost := context.Cause(held)
	lose(nil)
	<-kept
	if errors.Is(lost, errLeaseLost) {
		return lost
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lease/5)
	defer cancel()
	_ = a.c.js.DeleteConsumer(end, events.ItemsStream, a.name) // where that fails, the server does so
	return err
}

package natsio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

const (
	// changeWait is how long a version stays with a reader that gives no sign before it is given to the next: it gives one each quarter.
	changeWait = 20 * time.Second
	// changeAges is how long the server's clock is not asked again.
	changeAges = 10 * time.Second
)

// Change is a version of a record, as it is given to whoever has a name.
type Change struct {
	record.Stamped
	Since time.Duration // how long the name has been there, by the server's clock
}

// Changes gives the records that match a filter, and each later version, one at a time, to whoever has a name; "": a name of its own, which
// goes with the caller. deal says in how long a version is to be given again, 0: it is done with. It may take its time. One that is
// overwritten is not given again. Where the last one that had the name stopped, the next goes on; several at a time share what comes. It
// ends with ctx, or with the first error that does not pass.
func Changes(ctx context.Context, recs Records, name, filter string, deal func(Change) (again time.Duration)) error {
	c := changes{recs: recs, deal: deal, wait: changeWait}
	return c.run(ctx, name, filter)
}

// changes is a reading of Changes.
type changes struct {
	recs   Records
	deal   func(Change) time.Duration
	wait   time.Duration
	stream jetstream.Stream
	cons   jetstream.Consumer
	begun  time.Time // when the name was, by the server's clock
	ages   Aging
	asked  time.Time // when ages were
}

func (c *changes) run(ctx context.Context, name, filter string) error {
	cfg := jetstream.ConsumerConfig{
		Durable: name, FilterSubject: events.RecordSubject(filter), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.wait, MaxDeliver: -1, MaxAckPending: -1,
	}
	if name == "" { // a durable one, too: a reader, which may not acknowledge, is refused it
		cfg.Durable, cfg.InactiveThreshold = "follows-"+rand.Text(), time.Hour // of one that was killed
		defer func() { _ = c.recs.c.js.DeleteConsumer(context.WithoutCancel(ctx), events.RecordsStream, cfg.Durable) }()
	}
	err := retry.Do(ctx, nil, func() (err error) {
		// Each time: it may be gone, with a server that did not keep it, or a stream that was restored.
		if c.stream, err = c.recs.c.js.Stream(ctx, events.RecordsStream); err == nil {
			c.cons, err = c.stream.CreateOrUpdateConsumer(ctx, cfg)
		}
		if err == nil && c.begun.IsZero() { // the answer to a creation has the time at which a server that came back found the consumer
			var info *jetstream.ConsumerInfo
			if info, err = c.cons.Info(ctx); err == nil {
				c.begun = info.Created
			}
		}
		for err = WrapErr(err); err == nil; {
			err = c.next(ctx)
		}
		return err
	})
	return fmt.Errorf("follow records as %q: %w", name, err)
}

// next waits for a version, and deals with it. None is fetched before the one ahead of it is done with: it would wait here, and, where this
// process dies, wait on for its time to be over.
func (c *changes) next(ctx context.Context) error {
	batch, err := c.cons.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return WrapErr(err)
	}
	m, ok := <-batch.Messages()
	switch err := batch.Error(); {
	case ok && ctx.Err() != nil:
		_ = m.Nak() // lost: it comes when its time is over
		return ctx.Err()
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, jetstream.ErrNoHeartbeat), errors.Is(err, jetstream.ErrServerShutdown),
		errors.Is(err, jetstream.ErrConsumerLeadershipChanged):
		return fmt.Errorf("%w: %w", record.ErrBusy, err)
	case !ok:
		return WrapErr(err)
	}
	let := hold(m, c.wait/4)
	again, err := c.dealWith(ctx, m)
	let()
	switch {
	case err != nil:
		_ = m.Nak() // the same
		return err
	case again > 0:
		_ = m.NakWithDelay(again) // the same
		return nil
	}
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.wait/4)
	defer cancel()
	_ = m.DoubleAck(done) // a crash before, or an ack that is lost: it is given once more
	return nil
}

func (c *changes) dealWith(ctx context.Context, m jetstream.Msg) (again time.Duration, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	if c.asked.IsZero() || time.Since(c.asked) > changeAges {
		asked := time.Now()
		if _, err := c.stream.Info(ctx); err != nil {
			return 0, WrapErr(err)
		}
		if c.ages, err = c.recs.c.Streams().Aging(ctx, c.stream); err != nil {
			return 0, err
		}
		c.asked = asked
	}
	r, err := c.recs.opened(ctx, m, meta.Sequence.Stream)
	if err != nil {
		return 0, err
	}
	age := max(c.ages.Of(meta)+time.Since(c.asked), 0)
	return c.deal(Change{record.Stamped{Record: r, Age: age}, age + meta.Timestamp.Sub(c.begun)}), nil
}

// hold keeps a message from being given to another one until it is let go.
func hold(m jetstream.Msg, every time.Duration) (let func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = m.InProgress() // lost: the next one comes in time
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

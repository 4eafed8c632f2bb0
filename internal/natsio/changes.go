package natsio

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Change is a version of a record, as it is given to whoever has a name.
type Change struct {
	record.Stamped
	Since time.Duration // how long the name has been there, by the server's clock
}

// Changes gives the records that match a filter, and each later version, to whoever has a name; "": a name of its own, which goes with
// the caller. deal says in how long a version is to be given again; 0: it is done with. One that is overwritten is not given again. Where
// the last one that had the name stopped, the next goes on; several at a time share what comes. It ends with ctx, or with the first error.
func Changes(ctx context.Context, recs Records, name, filter string, deal func(Change) (again time.Duration, err error)) error {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return WrapErr(err)
	}
	cfg := jetstream.ConsumerConfig{
		Durable: name, FilterSubject: events.RecordSubject(filter), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: changeWait, MaxAckPending: -1,
	}
	if name == "" {
		cfg.InactiveThreshold = time.Minute
	}
	cons, err := s.CreateOrUpdateConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("follow records as %q: %w", name, WrapErr(err))
	}
	if info := cons.CachedInfo(); name == "" {
		defer func() { _ = s.DeleteConsumer(context.WithoutCancel(ctx), info.Name) }()
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(1)) // what waits here waits for its ack
	if err != nil {
		return WrapErr(err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return WrapErr(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if _, err := s.Info(ctx); err != nil { // for the time that it is there now
			return WrapErr(err)
		}
		ages, err := recs.c.Streams().Aging(ctx, s)
		if err != nil {
			return err
		}
		r, err := recs.opened(ctx, m, meta.Sequence.Stream)
		if err != nil {
			return err
		}
		age := max(ages.Of(meta), 0)
		again, err := deal(Change{record.Stamped{Record: r, Age: age}, age + meta.Timestamp.Sub(cons.CachedInfo().Created)})
		switch {
		case err != nil:
			return err
		case again > 0:
			_ = m.NakWithDelay(again) // lost: it comes again when its ack is overdue
		default:
			_ = m.Ack() // the same
		}
	}
}

// changeWait is how long a version may be at whoever deals with it before it is given again.
const changeWait = 5 * time.Minute

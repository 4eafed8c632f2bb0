package gcnats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// gcAckWait is how long a collector that died keeps the next one waiting.
const gcAckWait = 30 * time.Second

// gcConsumer gives a request for a cycle to one collector, and no other request while that one is at it.
func gcConsumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name: "gc", Durable: "gc", Description: "one collector at a time", FilterSubject: events.GCRunSubject,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: gcAckWait, MaxAckPending: 1, MaxDeliver: 3,
	}
}

// The server publishes by a schedule (ADR-51). It must not roll up the requests before: one that a collector is at
// would go with them, and the next collector begin while that one works.
const (
	hdrSchedule       = "Nats-Schedule"
	hdrScheduleTarget = "Nats-Schedule-Target"
)

// Ask asks for a cycle now.
func (w *World) Ask(ctx context.Context) error {
	_, err := w.streams.Send(ctx, []*nats.Msg{{Subject: events.GCRunSubject}})
	return err
}

// Runs calls run for a cycle that the schedule or anybody else asks for, until ctx ends: of all that call it on a
// system one gets a request, and the next one waits until run has returned, however long that takes. All that was asked
// for before a cycle began it does at once. A request whose collector dies goes to another after gcAckWait.
func (w *World) Runs(ctx context.Context, run func(context.Context)) error {
	cons, err := w.js.CreateOrUpdateConsumer(ctx, events.GCStream, gcConsumer())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for gc requests: %w", natsio.WrapErr(err))
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(natsio.PullExpiry),
		jetstream.PullHeartbeat(natsio.PullHeartbeat))
	if err != nil {
		return fmt.Errorf("wait for gc requests: %w", natsio.WrapErr(err))
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		m, err := it.Next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat): // the server is away; the iterator asks again
			continue
		case err != nil:
			return fmt.Errorf("wait for gc requests: %w", natsio.WrapErr(err))
		}
		w.atWork(ctx, m, run)
	}
}

// Between two cycles all collectors rest: each cycle moves the fences, and what persisters prepared before is prepared again. Where cycles
// follow each other without a pause, no commit comes through that takes as long as they do.
const (
	restFactor  = 4 // times as long as the cycle took
	longestRest = time.Minute
)

// atWork holds a request while it is carried out, and for the rest behind it, with those that wait behind it. It is done whatever came
// of it: the next cycle finishes what this one left.
func (w *World) atWork(ctx context.Context, m jetstream.Msg, run func(context.Context)) {
	settle := w.gcRequests(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		run(ctx)
		sleep.For(ctx, min(restFactor*time.Since(began), longestRest))
	}()
	t := time.NewTicker(gcAckWait / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := m.InProgress(); err != nil {
				w.log.Warn("tell that gc is at work", "error", err)
			}
			continue
		case <-done:
		}
		settle()
		if err := m.Ack(); err != nil && ctx.Err() == nil {
			w.log.Warn("ack the request for gc", "error", err)
		}
		return
	}
}

// gcRequests notes the requests that there are; settle drops them. What cannot be dropped asks for another cycle.
func (w *World) gcRequests(ctx context.Context) (settle func()) {
	s, err := natsio.MessagesOf(ctx, w.streams, events.GCStream)
	if err != nil {
		return func() {}
	}
	last, err := s.GetLastMsgForSubject(ctx, events.GCRunSubject)
	if err != nil {
		return func() {}
	}
	return func() {
		err := s.Purge(ctx, jetstream.WithPurgeSubject(events.GCRunSubject), jetstream.WithPurgeSequence(last.Sequence+1))
		if err != nil && ctx.Err() == nil {
			w.log.Warn("drop requests for gc that are done", "error", natsio.WrapErr(err))
		}
	}
}

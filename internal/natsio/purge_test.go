package natsio_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// purging is a partition with an event that waits, was given, and is not acknowledged, and behind it one each of sessions that are
// deleted. Whoever has them in hand dies, with whatever became of a purge of the sessions: the event comes again, to the next process.
type purging struct {
	*testing.T
	srv       natstest.Running
	partition int
	deleted   []string
	events    natsio.Events
	waits     uint64
	last      uint64
}

func newPurging(t *testing.T, sessions int) *purging {
	t.Helper()
	b := &purging{T: t, srv: natstest.Server(t)}
	c := natstest.Dial(t, b.srv)
	b.events = c.Events()
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	b.partition, _ = b.publish("waits")
	for i := 0; len(b.deleted) < sessions; i++ {
		name := fmt.Sprint("deleted-", i)
		if p, seq := b.publish(name); p == b.partition {
			b.deleted, b.last = append(b.deleted, name), seq
		}
	}
	cfg := must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(b.partition)))(t).CachedInfo().Config
	cfg.AckWait = 50 * time.Millisecond // what is not acknowledged, or is gone, is due again soon
	must.Get(c.JetStream().UpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	of, _, last := b.give()
	must.Do(t, last.Ack())
	of.Stop()
	return b
}

func (b *purging) publish(session string) (partition int, seq uint64) {
	b.Helper()
	e := &events.Event{Producer: "p", Seq: uint64(time.Now().UnixNano()), Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: session, Name: events.MainThread}, Body: []byte("x")}
	must.Do(b, b.events.PublishEvents(b.Context(), []*events.Event{e}))
	at := must.Get(b.events.NewestEvent(b.Context(), e.Thread))(b)
	return at.Partition, at.Seq
}

// give gives all that is not acknowledged to a process, and returns the first and the last of it.
func (b *purging) give() (of *natsio.Consumed, first, last natsio.Delivery) {
	b.Helper()
	came := make(chan natsio.Delivery, 1000)
	of = must.Get(natstest.Dial(b.T, b.srv).Events().Consume(b.Context(), b.partition, nil, func(d natsio.Delivery) {
		select {
		case came <- d:
		default: // nobody looks any more
		}
	}))(b)
	first = must.Receive(b, came, "nothing comes")
	for last = first; last.Seq != b.last; {
		last = must.Receive(b, came, "event %d never came", b.last)
	}
	return of, first, last
}

// round publishes the events, gives them to a process, which dies behind the purges, and gives what is left to another one.
func (b *purging) round(when string, purge func()) {
	b.Helper()
	_, b.waits = b.publish("waits")
	for _, s := range b.deleted {
		_, b.last = b.publish(s)
	}
	of, _, _ := b.give()
	purge()
	of.Stop()
	_, b.last = b.publish("waits")
	of, first, last := b.give()
	if first.Seq != b.waits {
		b.Fatalf("%s: the next process is given event %d first, want %d, which nobody acknowledged", when, first.Seq, b.waits)
	}
	must.Do(b, last.Ack())
	of.Stop()
}

// due waits until what is not acknowledged was due again. An event that is gone by then is taken for acknowledged, with all before it.
func (b *purging) due(c *natsio.Conn) {
	b.Helper()
	must.Until(b, "nothing was due again", func() bool {
		cons := must.Get(c.JetStream().Consumer(b.Context(), events.EventsStream, events.PartitionConsumer(b.partition)))(b)
		return cons.CachedInfo().NumRedelivered > 0 || cons.CachedInfo().AckFloor.Stream >= b.waits
	})
}

func (b *purging) purge(ctx context.Context, c *natsio.Conn, session string) error {
	_, err := natsio.PurgeEvents(ctx, c.Events(), session, b.partition, b.last+1)
	return err
}

// TestPurgeCutOff: a purge is cut off at any moment, as its caller's time is over, or its process dies, and is made again.
func TestPurgeCutOff(t *testing.T) {
	for name, cut := range map[string]func(c *natsio.Conn, end context.CancelFunc) func(){
		"its time is over": func(_ *natsio.Conn, end context.CancelFunc) func() { return end },
		"its process dies": func(c *natsio.Conn, end context.CancelFunc) func() { return func() { c.Close(); end() } },
	} {
		t.Run(name, func(t *testing.T) {
			b := newPurging(t, 1)
			for after := time.Duration(0); after < 3*time.Millisecond; after += 50 * time.Microsecond {
				b.round(fmt.Sprint("cut off after ", after), func() {
					c := natstest.Dial(t, b.srv)
					ctx, end := context.WithCancel(t.Context())
					defer end()
					defer time.AfterFunc(after, cut(c, end)).Stop()
					_ = b.purge(ctx, c, b.deleted[0])
					next := natstest.Dial(t, b.srv)
					b.due(next)
					must.Do(t, b.purge(t.Context(), next, b.deleted[0]))
				})
			}
		})
	}
}

// TestPurgesAtOnce: several processes purge what is of deleted sessions in one partition.
func TestPurgesAtOnce(t *testing.T) {
	b := newPurging(t, 4)
	for range 50 {
		b.round("purged at once", func() {
			var g errgroup.Group
			for _, session := range b.deleted {
				c := natstest.Dial(t, b.srv)
				wait := time.Duration(rand.IntN(2000)) * time.Microsecond // so that one begins wherever another one is
				g.Go(func() error {
					<-time.After(wait)
					return b.purge(t.Context(), c, session)
				})
			}
			must.Do(t, g.Wait())
			b.due(natstest.Dial(t, b.srv))
		})
	}
}

// TestPurgeEvents: what is acknowledged goes, and the rest once it is; what came behind the deletion stays, and what is of others.
func TestPurgeEvents(t *testing.T) {
	b := newPurging(t, 1)
	c, deleted := natstest.Dial(t, b.srv), b.deleted[0]
	stored := func() (n int) {
		t.Helper()
		s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
		info := must.Get(s.Info(t.Context(), jetstream.WithSubjectFilter(events.PartitionFilter(b.partition))))(t)
		for _, of := range info.State.Subjects {
			n += int(of)
		}
		return n
	}
	must.Get(natsio.PurgeEvents(t.Context(), c.Events(), deleted, b.partition, b.last+1))(t)
	before := stored()
	_, b.last = b.publish(deleted)
	of, first, _ := b.give()
	must.Do(t, first.Ack())
	b.publish("waits")
	_, below := b.publish(deleted)
	_, b.last = b.publish(deleted)
	natstest.AwaitAckFloor(t, c, b.partition, first.Seq)
	purge := func(all bool, left int) {
		t.Helper()
		done := must.Get(natsio.PurgeEvents(t.Context(), c.Events(), deleted, b.partition, below+1))(t)
		must.Same(t, done, all, "PurgeEvents = %v, want %v")
		must.Same(t, stored(), before+left, "%d events are stored, want %d")
	}
	purge(false, 3)
	purge(false, 3)
	of.Stop()
	of, _, last := b.give()
	defer of.Stop()
	must.Do(t, last.Ack())
	natstest.AwaitAckFloor(t, c, b.partition, b.last)
	purge(true, 2)
	purge(true, 2)
}

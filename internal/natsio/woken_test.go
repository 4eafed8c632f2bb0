package natsio_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// Who stood still, and wakes up with an event in hand that came again, leaves the consumer as it is if that is another process's by then.
func TestWokenBehindItsSuccessor(t *testing.T) {
	t.Parallel()
	srv := natstest.Server(t)
	first, second := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	th := events.Thread{Session: "s", Name: "main"}
	publish := func() {
		t.Helper()
		must.Get(first.JetStream().Publish(t.Context(), events.EventSubject(th, events.KindEntry), []byte("x")))(t)
	}
	const last = 4
	for range last {
		publish()
	}
	partition := must.Get(first.Events().NewestEvent(t.Context(), th))(t).Partition
	name := events.PartitionConsumer(partition)
	consumer := func() *jetstream.ConsumerInfo {
		t.Helper()
		return must.Get(first.JetStream().Consumer(t.Context(), events.EventsStream, name))(t).CachedInfo()
	}
	again := func(after time.Duration) { // what is not acknowledged comes again
		t.Helper()
		cfg := consumer().Config
		cfg.AckWait = after
		must.Get(first.JetStream().UpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	}
	again(time.Second)
	stands, wakes, stood := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	a := must.Get(first.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		if d.Seq == last && stood.CompareAndSwap(false, true) {
			close(stands)
			<-wakes
		}
		_ = d.Ack()
	}))(t)
	must.Receive(t, stands, "event %d never came", last)
	must.Until(t, "the event came again", func() bool { return consumer().Delivered.Consumer > last })
	again(time.Hour)

	got, acks := make(chan natsio.Delivery, 1000), atomic.Bool{}
	b := must.Get(second.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		if acks.Load() {
			_ = d.Ack()
		}
		got <- d
	}))(t)
	defer b.Stop()
	natsio.Unpin(t.Context(), second.Events(), partition)
	publish()
	must.Receive(t, got, "event %d never came", last)
	before := must.Receive(t, got, "event %d never came", last+1)

	close(wakes)
	a.Drain(t.Context())
	publish()
	if d := must.Receive(t, got, "no event came"); d.Seq != before.Seq+1 || d.Term != before.Term {
		t.Errorf("event %d came in term %d behind event %d in term %d, want the next one, in the same term", d.Seq, d.Term, before.Seq, before.Term)
	}
	a.Stop()
	acks.Store(true)
	again(time.Second)
	must.Eventually(t, "all acks count", func() error {
		if info := consumer(); info.NumAckPending > 0 || info.AckFloor.Stream != last+2 {
			return fmt.Errorf("the floor is %+v, %+v was delivered, %d are open", info.AckFloor, info.Delivered, info.NumAckPending)
		}
		return nil
	})
}

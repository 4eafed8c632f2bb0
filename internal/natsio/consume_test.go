package natsio_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A process that begins while another one has events unacknowledged gets all of them when that one stops: the consumer that it
// had reset gave them to the other.
func TestTakeOverWhileUnacked(t *testing.T) {
	srv := natstest.Server(t)
	first, second := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	publish := func(from, to uint64) {
		t.Helper()
		for seq := from; seq <= to; seq++ {
			e := &events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "raw",
				Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte("x")}
			must.Do(t, first.Events().PublishEvents(t.Context(), []*events.Event{e}))
		}
	}
	publish(1, 5)
	partition := must.Get(first.Events().NewestEvent(t.Context(), events.Thread{Session: "s", Name: "main"}))(t).Partition
	consume := func(c *natsio.Conn) (got chan uint64, stop func()) {
		t.Helper()
		got = make(chan uint64, 100)
		stop = must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { got <- d.Seq }))(t).Stop
		return got, stop
	}
	take := func(who string, from chan uint64, want ...uint64) {
		t.Helper()
		var got []uint64
		for range want {
			got = append(got, must.Receive(t, from, "%s got %v, want %v", who, got, want))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s got %v, want %v", who, got, want)
		}
	}
	a, stopA := consume(first)
	take("the first", a, 1, 2, 3, 4, 5)
	b, stopB := consume(second) // resets the consumer: the first is given them again
	defer stopB()
	take("the first", a, 1, 2, 3, 4, 5)
	stopA()
	publish(6, 6)
	take("the second", b, 1, 2, 3, 4, 5, 6)
}

// A term of a partition ends when another process may have been given its events: it has the consumer reset, or was pinned in
// between. Events that come one after the other are of one term.
func TestTerms(t *testing.T) {
	t.Parallel()
	srv := natstest.Server(t)
	first, second := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	th := events.Thread{Session: "s", Name: "main"}
	published := uint64(0)
	publish := func() {
		t.Helper()
		published++
		e := &events.Event{Producer: "p", Seq: published, Kind: events.KindEntry, Dialect: "raw", Thread: th, Body: []byte("x")}
		must.Do(t, first.Events().PublishEvents(t.Context(), []*events.Event{e}))
	}
	publish()
	partition := must.Get(first.Events().NewestEvent(t.Context(), th))(t).Partition
	consume := func(c *natsio.Conn, got chan natsio.Delivery) (stop func()) {
		t.Helper()
		stop = must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
			_ = d.Ack()
			got <- d
		}))(t).Stop
		return stop
	}
	take := func(from chan natsio.Delivery, seq uint64) natsio.Delivery {
		t.Helper()
		for {
			d := must.Receive(t, from, "event %d never came", seq)
			if d.Seq == seq {
				return d
			}
		}
	}
	a, b := make(chan natsio.Delivery, 100), make(chan natsio.Delivery, 100)
	stop := consume(first, a)
	one := take(a, 1)
	publish()
	if two := take(a, 2); two.Term != one.Term || one.Term == 0 {
		t.Errorf("terms %d and %d, want one for what comes without a break", one.Term, two.Term)
	}
	stopB := consume(second, b)
	stop()
	publish()
	take(b, 3)
	stop = consume(first, a)
	defer stop()
	stopB()
	publish()
	if four := take(a, 4); four.Term <= one.Term {
		t.Errorf("term %d after %d, want a later one: another process was given an event in between", four.Term, one.Term)
	}

	// The same process stays pinned, and another one has the consumer reset.
	before := take(a, func() uint64 { publish(); return published }())
	must.Get(second.JetStream().ResetConsumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))(t)
	publish()
	if after := take(a, published); after.Term <= before.Term {
		t.Errorf("term %d after %d, want a later one: the consumer was reset", after.Term, before.Term)
	}
}

// An ack of an old owner that arrives after the consumer was reset carries a number from before: the server takes it, and all acks
// with the new, lower numbers for old ones. The feed notices, and the partition gets done.
func TestLateAckOfAnOldOwner(t *testing.T) {
	t.Parallel()
	srv := natstest.Server(t)
	first, second := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	th := events.Thread{Session: "s", Name: "main"}
	const old, open = 400, 5
	published := uint64(0)
	publish := func(n int) {
		t.Helper()
		for range n { // one by one: several would share a message
			published++
			e := &events.Event{Producer: "p", Seq: published, Kind: events.KindEntry, Dialect: "raw", Thread: th, Body: []byte("x")}
			must.Do(t, first.Events().PublishEvents(t.Context(), []*events.Event{e}))
		}
	}
	publish(old)
	partition := must.Get(first.Events().NewestEvent(t.Context(), th))(t).Partition
	consumer := func() *jetstream.ConsumerInfo {
		t.Helper()
		cons := must.Get(first.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))(t)
		return cons.CachedInfo()
	}
	cfg := consumer().Config
	cfg.AckWait = time.Second // what is not acknowledged comes again soon
	must.Get(first.JetStream().UpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	got, late := make(chan natsio.Delivery, 1000), atomic.Bool{}
	stop := must.Get(first.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		if d.Seq <= old || late.Load() {
			_ = d.Ack()
		}
		select {
		case got <- d:
		default: // nobody looks any more
		}
	}))(t).Stop
	defer stop()
	receive := func(what string, n int) (last natsio.Delivery) {
		t.Helper()
		for range n {
			last = must.Receive(t, got, "%s: %d events never came", what, n)
		}
		return last
	}
	receive("the first", old)
	publish(open)
	unacked := receive("the open", open)
	stopSecond := must.Get(second.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { _ = d.Ack() }))(t)
	defer stopSecond.Stop()
	receive("the open again", open) // under new numbers
	publish(open)                   // so that the ack is below what is delivered
	receive("more", open)
	// The feed sends no ack of an earlier term any more; one that is on its way already arrives all the same.
	ack := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", events.EventsStream, events.PartitionConsumer(partition), unacked.Seq,
		unacked.Seq, unacked.Stored)
	must.Do(t, first.JetStream().Conn().Publish(ack, []byte("+ACK")))
	must.Until(t, "the late ack has arrived", func() bool { return consumer().AckFloor.Stream >= old+open })
	late.Store(true)
	must.Eventually(t, "all is done", func() error {
		if info := consumer(); info.NumAckPending > 0 || info.NumPending > 0 {
			return fmt.Errorf("%d events are not, the floor is %+v and %+v was delivered", info.NumAckPending, info.AckFloor, info.Delivered)
		}
		return nil
	})
}

// As long as the server's floor has the number of such an ack, it keeps no account of deliveries with lower ones, and acks of those do not
// raise its floor, though it stops giving them again. Who waits for the floor, as a deletion does, sees it rise.
func TestLateAckHidesNoOther(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	publish := func(n int) {
		t.Helper()
		for range n { // one by one: several would share a message
			must.Get(c.JetStream().Publish(t.Context(), events.EventSubject(th, events.KindEntry), []byte("x")))(t)
		}
	}
	const late, done, last = 11, 20, 25
	publish(late)
	partition := must.Get(c.Events().NewestEvent(t.Context(), th))(t).Partition
	name := events.PartitionConsumer(partition)
	consumer := func() *jetstream.ConsumerInfo {
		t.Helper()
		return must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, name))(t).CachedInfo()
	}
	cfg := consumer().Config
	cfg.AckWait = time.Second // what is not acknowledged comes again soon
	must.Get(c.JetStream().UpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	got := make(chan natsio.Delivery, 1000)
	stop := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		if d.Seq < late || late < d.Seq && d.Seq <= done { // what comes behind waits for the floor
			_ = d.Ack()
		}
		select {
		case got <- d:
		default: // nobody looks any more
		}
	}))(t).Stop
	defer stop()
	receive := func(seq uint64) natsio.Delivery {
		t.Helper()
		for {
			if d := must.Receive(t, got, "event %d never came", seq); d.Seq == seq {
				return d
			}
		}
	}
	before := receive(late)
	must.Until(t, "what comes before is acknowledged", func() bool { return consumer().AckFloor.Stream == late-1 })
	must.Get(c.JetStream().ResetConsumer(t.Context(), events.EventsStream, name))(t)
	for again := before; again.Term == before.Term; { // under a new number
		again = receive(late)
	}
	ack := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", events.EventsStream, name, late, late, before.Stored)
	must.Do(t, c.JetStream().Conn().Publish(ack, []byte("+ACK")))
	must.Until(t, "the late ack has arrived", func() bool { return consumer().AckFloor.Consumer == late })
	publish(last - late)
	receive(last)
	must.Eventually(t, "what is acknowledged counts", func() error {
		if info := consumer(); info.AckFloor.Stream < done {
			return fmt.Errorf("the floor is %+v, %+v was delivered, %d are open", info.AckFloor, info.Delivered, info.NumAckPending)
		}
		return nil
	})
}

// What nobody acknowledged comes again in any order, and the numbers of the deliveries do not tell: who is pinned then has it given
// in the order of the stream.
func TestOverdueInAnyOrder(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	published := uint64(0)
	publish := func(n int) {
		t.Helper()
		for range n { // one by one: several would share a message
			published++
			e := &events.Event{Producer: "p", Seq: published, Kind: events.KindEntry, Dialect: "raw", Thread: th,
				Body: []byte("x")}
			must.Do(t, c.Events().PublishEvents(t.Context(), []*events.Event{e}))
		}
	}
	publish(1)
	partition := must.Get(c.Events().NewestEvent(t.Context(), th))(t).Partition
	name := events.PartitionConsumer(partition)
	owner := must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, name))(t)
	fetch := func(n int) (all []jetstream.Msg) {
		t.Helper()
		b := must.Get(owner.Fetch(n, jetstream.FetchPriorityGroup(events.PersisterGroup)))(t)
		for m := range b.Messages() {
			all = append(all, m)
		}
		if len(all) != n {
			t.Fatalf("%d events, want %d: %v", len(all), n, b.Error())
		}
		return all
	}
	must.Do(t, fetch(1)[0].DoubleAck(t.Context())) // it is pinned now
	got := make(chan natsio.Delivery, 100)
	stop := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
	defer stop()
	publish(4)
	open := fetch(4)
	must.Do(t, open[3].Nak())
	must.Do(t, open[2].Nak())
	// An ack from before the consumer was reset has a higher number than the event has now.
	old := fmt.Sprintf("$JS.ACK.%s.%s.1.3.5.1.0", events.EventsStream, name)
	must.Get(c.JetStream().Conn().Request(old, []byte("+ACK"), time.Minute))(t)
	stream := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, stream.UnpinConsumer(t.Context(), name, events.PersisterGroup))
	for _, want := range []uint64{4, 5} {
		d := must.Receive(t, got, "event %d never came", want)
		if d.Seq != want {
			t.Fatalf("event %d, want %d", d.Seq, want)
		}
	}
}

// A process that has no room for what it is given asks for nothing more. The partition stays its own all the same, in one term: what it
// has in hand would be dropped, and come again, the more of it the slower it is.
func TestBusyKeepsItsPartition(t *testing.T) {
	const long = natsio.PinnedTTL + 4*time.Second
	t.Run("one delivery takes long", func(t *testing.T) { busyKeepsItsPartition(t, 1, long) })
	t.Run("each takes a little", func(t *testing.T) { busyKeepsItsPartition(t, 200, long/200) })
}

// busyKeepsItsPartition takes so long for each of the first deliveries.
func busyKeepsItsPartition(t *testing.T, slow int, each time.Duration) {
	t.Parallel()
	conn := natstest.Dial(t, natstest.Server(t))
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	th := events.Thread{Session: "s", Name: "main"}
	const all = 1200 // more than is asked for at a time
	batch := make([]*events.Event, all)
	for i := range batch {
		batch[i] = &events.Event{
			Producer: fmt.Sprint("p", i), Seq: 1, Kind: events.KindEntry, Dialect: "raw", Thread: th, Body: []byte("x"), // a message each
		}
	}
	must.Do(t, conn.Events().PublishEvents(t.Context(), batch))
	partition := must.Get(conn.Events().NewestEvent(t.Context(), th))(t).Partition
	got, taken := make(chan natsio.Delivery, 4*all), 0
	stop := must.Get(conn.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		got <- d
		if taken++; taken <= slow {
			time.Sleep(each)
		}
	}))(t).Stop
	defer stop()
	first := must.Receive(t, got, "an event")
	for seq := first.Seq + 1; seq <= all; {
		d := must.Receive(t, got, "event %d", seq)
		if d.Seq > seq || d.Term != first.Term {
			t.Fatalf("event %d of term %d, want %d of term %d", d.Seq, d.Term, seq, first.Term)
		}
		if d.Seq == seq { // else it comes again, since nobody acknowledged it for so long
			seq++
		}
	}
}

package natsio_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

var (
	ofPulls     = events.Thread{Session: "s", Name: "main"}
	eventOfThem = events.EventSubject(ofPulls, events.KindEntry)
)

// storeOf stores one event of each size, and gives their partition.
func storeOf(t *testing.T, c *natsio.Conn, sizes ...int) (partition int) {
	t.Helper()
	for i, n := range sizes {
		must.Get(c.JetStream().PublishMsgAsync(&nats.Msg{Subject: eventOfThem, Data: make([]byte, n)}))(t)
		if i%1000 == 999 || n > 1<<16 {
			<-c.JetStream().PublishAsyncComplete()
		}
	}
	<-c.JetStream().PublishAsyncComplete()
	return must.Get(c.Events().NewestEvent(t.Context(), ofPulls))(t).Partition
}

// sized is n events of a size.
func sized(n, bytes int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = bytes
	}
	return all
}

// consumerOf is what the server says of a partition's consumer.
func consumerOf(t *testing.T, c *natsio.Conn, partition int) *jetstream.ConsumerInfo {
	t.Helper()
	return must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))(t).CachedInfo()
}

// An event that is larger than what is asked for ahead holds up nobody: the server takes such where its max_payload is raised.
func TestEventLargerThanAWindow(t *testing.T) {
	t.Parallel()
	s := must.Get(server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 32 << 20, NoSigs: true, NoLog: true,
	}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	c := natstest.Dial(t, s)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	partition := storeOf(t, c, 1, 5<<20, 1, 3<<20, 20<<20, 20<<20, 1)
	got := make(chan uint64, 100)
	defer must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		_ = d.Ack()
		got <- d.Seq
	}))(t).Stop()
	for want := range uint64(7) {
		must.Same(t, must.Receive(t, got, "event %d", want+1), want+1, "event %d, want %d")
	}
	var read []uint64
	must.Do(t, c.Streams().Each(t.Context(), events.EventsStream, jetstream.OrderedConsumerConfig{},
		func(_ jetstream.Msg, meta *jetstream.MsgMetadata) error {
			read = append(read, meta.Sequence.Stream)
			return nil
		}))
	must.SameAll(t, read, []uint64{1, 2, 3, 4, 5, 6, 7}, "read %v, want %v")
}

// What waits behind a delivery that takes long is bounded in bytes, also where small events were asked for when large ones came.
func TestWindowIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	const small, large, most = 252, 16_000, 4 << 20
	partition := storeOf(t, c, append(sized(small, 10), sized(1000, large)...)...)
	taken, block := atomic.Int64{}, make(chan struct{})
	consumed := must.Get(c.Events().Consume(t.Context(), partition, nil, func(natsio.Delivery) {
		if taken.Add(1) >= small {
			<-block
		}
	}))(t)
	defer consumed.Stop()
	defer close(block)
	must.Until(t, "nothing more is asked for", func() bool {
		info := consumerOf(t, c, partition)
		return taken.Load() == small && info.NumWaiting == 0 && info.NumPending > 0
	})
	if waits := (int(consumerOf(t, c, partition).Delivered.Consumer) - small) * large; waits > most {
		t.Errorf("%d bytes wait, want %d at most", waits, most)
	}
}

// Events whose headers nobody can read do not have others wait until a pin that nobody could read is over.
func TestPinsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	c := natstest.Dial(t, s)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	over := make(chan string, 100)
	advisory := "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED." + events.EventsStream + ".>"
	must.Get(c.JetStream().Conn().Subscribe(advisory, func(m *nats.Msg) {
		if strings.Contains(string(m.Data), "timeout") {
			over <- string(m.Data)
		}
	}))(t)
	publish := rawPublisher(t, s)
	const all = 5000
	for range all {
		publish(eventOfThem, "NATS/1.0\r\nnocolon\r\n\r\n", "x")
	}
	partition := must.Get(c.Events().NewestEvent(t.Context(), ofPulls))(t).Partition
	last, done := uint64(0), make(chan struct{})
	deliver := func(d natsio.Delivery) {
		_ = d.Ack()
		if d.Seq == last+1 {
			last = d.Seq
		}
		if d.Seq == all && last == all {
			close(done)
		}
	}
	defer must.Get(c.Events().Consume(t.Context(), partition, nil, deliver))(t).Stop()
	select {
	case <-done:
	case why := <-over:
		t.Errorf("a pin was waited for: %s", why)
	case <-time.After(time.Minute):
		t.Error("not all came")
	}
}

// A pin that a publisher wrote into the headers of an event means nothing to who reads them.
func TestReadersHaveNoPins(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	c := natstest.Dial(t, s)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	const all = 20_000 // more than is asked for at a time
	publish := rawPublisher(t, s)
	for i := range all {
		publish(eventOfThem, "NATS/1.0\r\nNats-Pin-Id: x\r\n\r\n", fmt.Sprint(i))
	}
	stream := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Until(t, "all are stored", func() bool { return must.Get(stream.Info(t.Context()))(t).State.LastSeq == all })
	made, n := must.Get(c.JetStream().Conn().SubscribeSync("$JS.API.CONSUMER.CREATE.>"))(t), 0
	must.Do(t, c.Streams().Each(t.Context(), events.EventsStream, jetstream.OrderedConsumerConfig{},
		func(jetstream.Msg, *jetstream.MsgMetadata) error { n++; return nil }))
	must.Same(t, n, all, "read %d, want %d")
	must.Do(t, c.JetStream().Conn().Flush())
	if n, _, err := made.Pending(); n != 1 || err != nil {
		t.Errorf("%d consumers were made, %v, want 1", n, err)
	}
}

// A partition whose consumer refuses what is asked for is told to people, not asked again without a pause; and consumed when it is mended.
func TestConsumerThatRefuses(t *testing.T) {
	t.Parallel()
	var told natstest.Log
	log := slog.New(slog.NewTextHandler(&told, nil))
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: natstest.Server(t), Logger: log}))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	partition, got := storeOf(t, c, 1), make(chan uint64, 100)
	defer must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		_ = d.Ack()
		got <- d.Seq
	}))(t).Stop()
	must.Receive(t, got, "the first")
	groups := func(names ...string) {
		t.Helper()
		cfg := consumerOf(t, c, partition).Config
		cfg.PriorityGroups = names
		must.Get(c.JetStream().CreateOrUpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	}
	groups("other")
	must.Until(t, "it is told", func() bool { return strings.Contains(told.String(), "a partition is not consumed") })
	groups(events.PersisterGroup)
	storeOf(t, c, 1)
	must.Same(t, must.Receive(t, got, "the second"), 2, "event %d, want %d")
}

// Events whose sizes fill what is asked for to its last byte are followed by others at once, though the server tells no end of such a request.
func TestEventsThatFillARequest(t *testing.T) {
	t.Parallel()
	var told natstest.Log
	log := slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: natstest.Server(t), Logger: log}))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	const before, size, all = 1000, 1 << 15, 300
	partition, got := storeOf(t, c, sized(before, 1)...), make(chan uint64, 2*before)
	deliver := func(d natsio.Delivery) {
		must.Do(t, d.Ack())
		got <- d.Seq
	}
	consumed := must.Get(c.Events().Consume(t.Context(), partition, nil, deliver))(t)
	for range before {
		must.Receive(t, got, "the small ones")
	}
	consumed.Stop()
	// While all numbers have as many digits, each costs the same.
	stored := must.Get(must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t).GetMsg(t.Context(), 1))(t)
	ack := fmt.Sprintf("$JS.ACK.%s.%s.1.1001.1001.%d.299", events.EventsStream, events.PartitionConsumer(partition), stored.Time.UnixNano())
	storeOf(t, c, sized(all, size-len(stored.Subject)-len(ack))...)
	defer must.Get(c.Events().Consume(t.Context(), partition, nil, deliver))(t).Stop()
	for range all {
		must.Receive(t, got, "the large ones")
	}
	if text := told.String(); strings.Contains(text, nats.ErrNoHeartbeat.Error()) {
		t.Errorf("what was asked for had ended, and nothing was asked for:\n%s", text)
	}
}

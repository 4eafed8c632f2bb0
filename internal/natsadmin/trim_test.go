package natsadmin_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// publish publishes entries of one thread, each in a message of its own.
func publish(t *testing.T, c *natsio.Conn, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		e := &events.Event{
			Producer: "p", Seq: uint64(i), Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: "main"},
			Body: []byte(strings.Repeat("x", 8_000)),
		}
		must.Do(t, c.Events().PublishEvents(t.Context(), []*events.Event{e}))
	}
}

func state(t *testing.T, c *natsio.Conn) jetstream.StreamState {
	t.Helper()
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	return s.CachedInfo().State
}

// TestTrimKeepsWhatIsNotApplied: however full EVENTS is, what a partition has not acknowledged stays.
func TestTrimKeepsWhatIsNotApplied(t *testing.T) {
	c := natstest.Dial(t, natstest.Server(t))
	admin := natsadmin.New(c)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20}))
	publish(t, c, 1, 100)
	if upTo, err := admin.Trim(t.Context()); upTo != 0 || err != nil {
		t.Errorf("Trim with nothing applied = %d, %v, want 0", upTo, err)
	}
	p := natstest.Partition(t, c)
	got := make(chan natsio.Delivery, 200)
	stop := must.Get(c.Events().Consume(t.Context(), p, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
	defer stop()
	var all []natsio.Delivery
	for range 100 {
		all = append(all, <-got)
	}
	must.Do(t, all[9].Ack())
	natstest.AwaitAckFloor(t, c, p, 10)
	for range 20 {
		must.Get(admin.Trim(t.Context()))(t)
	}
	if first := state(t, c).FirstSeq; first > 11 || first == 1 {
		t.Errorf("EVENTS begins at %d after trimming, want it to keep 11 and to drop some", first)
	}
	must.Do(t, all[99].Ack())
	natstest.AwaitAckFloor(t, c, p, 100)
	if upTo, err := admin.Trim(t.Context()); upTo <= 11 || upTo > 101 || err != nil {
		t.Errorf("Trim with everything applied = %d, %v, want more than before", upTo, err)
	}
	must.Do(t, c.JetStream().DeleteConsumer(t.Context(), events.EventsStream, events.PartitionConsumer((p+1)%events.Partitions)))
	publish(t, c, 101, 130)
	if upTo, err := admin.Trim(t.Context()); upTo != 0 || err != nil {
		t.Errorf("Trim with a consumer gone = %d, %v, want 0: its partition may have applied nothing", upTo, err)
	}
}

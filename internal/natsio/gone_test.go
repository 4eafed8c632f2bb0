package natsio_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// goneLimits are small.
var goneLimits = natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20}

// A system that was never used gets what is missing of it; one that was does not get an empty stream in the place of a lost one.
func TestEnsureDoesNotHideALoss(t *testing.T) {
	for _, stream := range []string{events.RecordsStream, events.EventsStream, events.ObjectStream(events.NodesBucket)} {
		t.Run(stream, func(t *testing.T) {
			c := natstest.Dial(t, natstest.Server(t))
			drop := func() {
				t.Helper()
				must.Do(t, c.JetStream().DeleteStream(t.Context(), stream))
			}
			must.Do(t, c.Ensure(t.Context(), goneLimits))
			drop()
			must.Do(t, c.Ensure(t.Context(), goneLimits))
			for _, subject := range []string{"spool.v1.event.s.main.entry", events.RecordSubject("thread.s.main")} {
				must.Get(c.JetStream().Publish(t.Context(), subject, []byte("x")))(t)
			}
			drop()
			if err := c.Ensure(t.Context(), goneLimits); !errors.Is(err, natsio.ErrGone) || !strings.Contains(err.Error(), stream) {
				t.Errorf("Ensure = %v, want %v that names %s", err, natsio.ErrGone, stream)
			}
			if _, err := c.JetStream().Stream(t.Context(), stream); err == nil {
				t.Error("an empty stream is in its place")
			}
		})
	}
}

// A partition's consumer that somebody deleted is made again, and its events come from the first on.
func TestConsumerDeleted(t *testing.T) {
	c := natstest.Dial(t, natstest.Server(t))
	must.Do(t, c.Ensure(t.Context(), goneLimits))
	publish := func(seq uint64) {
		t.Helper()
		e := &events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "raw",
			Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte("x")}
		must.Do(t, c.Events().PublishEvents(t.Context(), []*events.Event{e}))
	}
	publish(1)
	partition := must.Get(c.Events().NewestEvent(t.Context(), events.Thread{Session: "s", Name: "main"}))(t).Partition
	got := make(chan natsio.Delivery, 100)
	stop := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
	defer stop()
	next := func(want uint64) {
		t.Helper()
		d := must.Receive(t, got, "event %d never comes", want)
		if d.Seq != want {
			t.Fatalf("event %d, want %d", d.Seq, want)
		}
		must.Do(t, d.Ack())
	}
	next(1)
	for range 2 {
		must.Do(t, c.JetStream().DeleteConsumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))
		next(1)
	}
	publish(2)
	next(2)
}

// What a lost stream held is not known to be missing; and who follows it ends when he is told to.
func TestStreamThatIsGoneSaysNothing(t *testing.T) {
	c := natstest.Conn(t)
	ctx, stop := context.WithCancel(t.Context())
	stands, ended := make(chan bool), make(chan error, 1)
	go func() {
		for _, err := range c.Records().Watch(ctx, ">", natsio.FromNow, func() { close(stands) }) {
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	<-stands
	asks := must.Get(c.JetStream().Conn().SubscribeSync("$JS.API.CONSUMER.CREATE." + events.RecordsStream + ".>"))(t)
	must.Do(t, c.JetStream().DeleteStream(t.Context(), events.RecordsStream))
	_, err := c.Records().Records(t.Context(), "thread.s.main")
	must.Is(t, err, record.ErrNoStream, "Records")
	must.Get(asks.NextMsg(time.Minute))(t) // it asks for its consumer, and will again
	stop()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("who follows records does not end")
	}
}

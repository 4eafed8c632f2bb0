package natsio_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/natstest"
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
				if err := c.JetStream().DeleteStream(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Ensure(t.Context(), goneLimits); err != nil {
				t.Fatal(err)
			}
			drop()
			if err := c.Ensure(t.Context(), goneLimits); err != nil {
				t.Fatalf("Ensure of a system that was not used = %v", err)
			}
			for _, subject := range []string{"spool.v1.event.s.main.entry", events.RecordSubject("thread.s.main")} {
				if _, err := c.JetStream().Publish(t.Context(), subject, []byte("x")); err != nil {
					t.Fatal(err)
				}
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
	if err := c.Ensure(t.Context(), goneLimits); err != nil {
		t.Fatal(err)
	}
	publish := func(seq uint64) {
		t.Helper()
		e := &events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte("x")}
		if err := c.Events().PublishEvents(t.Context(), []*events.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	publish(1)
	_, partition, err := c.Events().NewestEvent(t.Context(), events.Thread{Session: "s", Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan natsio.Delivery, 100)
	stop, err := c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	next := func(want uint64) {
		t.Helper()
		select {
		case d := <-got:
			if d.Seq != want {
				t.Fatalf("event %d, want %d", d.Seq, want)
			}
			if err := d.Ack(); err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("event %d never comes", want)
		}
	}
	next(1)
	for range 2 {
		if err := c.JetStream().DeleteConsumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)); err != nil {
			t.Fatal(err)
		}
		next(1)
	}
	publish(2)
	next(2)
}

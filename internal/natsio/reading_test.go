package natsio_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// A reader that takes long for what it has asked for reads on, though the server has forgotten its consumer meanwhile.
func TestSlowReaderReadsOn(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	const all = 48
	storeOf(t, c, sized(all, 900_000)...)
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	n := 0
	must.Do(t, c.Streams().Each(t.Context(), events.EventsStream, jetstream.OrderedConsumerConfig{InactiveThreshold: time.Second},
		func(jetstream.Msg, *jetstream.MsgMetadata) error {
			if n++; n == 5 {
				must.Until(t, "the server forgot who reads", func() bool {
					return must.Get(s.Info(t.Context()))(t).State.Consumers == events.Partitions
				})
			}
			return nil
		}))
	must.Same(t, n, all, "read %d, want %d")
}

// A watch of what is new misses nothing, though its connection is lost before anything came.
func TestWatchOfWhatIsNewOverALostConnection(t *testing.T) {
	t.Parallel()
	s, way := natstest.Server(t), &natstest.Wire{}
	way.Leads(s)
	near, w := natstest.Dial(t, s), &wire{InProcessConnProvider: way}
	must.Do(t, near.Ensure(t.Context(), natsio.Limits{}))
	far := natstest.Dial(t, w)
	stands, seen := make(chan struct{}), make(chan string, 10)
	go func() {
		for r, err := range far.Records().Watch(t.Context(), "label.*", natsio.FromNow, func() { close(stands) }) {
			if err != nil {
				return
			}
			seen <- r.Key
		}
	}()
	must.Receive(t, stands, "the watch")
	way.Leads(nil)
	w.cut()
	for _, key := range []string{"label.a", "label.b"} {
		must.Get(near.Records().Write(t.Context(), record.Put{Key: key, Value: []byte("x"), Expect: record.Any}))(t)
	}
	way.Leads(s)
	must.Same(t, must.Receive(t, seen, "the change"), "label.a", "change of %s, want %s")
	must.Same(t, must.Receive(t, seen, "the change"), "label.b", "change of %s, want %s")
}

// Who reads a stream to its end is told when it is deleted meanwhile.
func TestReaderOfAStreamThatIsDeleted(t *testing.T) {
	t.Parallel()
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: natstest.Server(t), Timeout: time.Second}))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	storeOf(t, c, sized(30, 900_000)...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n := 0
	err := c.Streams().Each(ctx, events.EventsStream, jetstream.OrderedConsumerConfig{}, func(jetstream.Msg, *jetstream.MsgMetadata) error {
		if n++; n == 5 {
			must.Do(t, c.JetStream().DeleteStream(ctx, events.EventsStream))
		}
		return nil
	})
	must.Is(t, err, record.ErrNoStream, "read")
}

// Who asks for the newest of each subject is given all of them, however many bytes they have.
func TestNewestOfEachBeyondAWindow(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	const sessions = 40
	for i := range sessions {
		subject := events.ItemSubject(events.Thread{Session: fmt.Sprint("s", i), Name: "main"}, "user", "")
		must.Get(c.JetStream().Publish(t.Context(), subject, append(bytes.Repeat([]byte(" "), 900<<10), "{}"...)))(t)
	}
	given := 0
	must.Do(t, c.Streams().Each(t.Context(), events.ItemsStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy},
		func(jetstream.Msg, *jetstream.MsgMetadata) error { given++; return nil }))
	must.Same(t, given, sessions, "given %d, want %d")
}

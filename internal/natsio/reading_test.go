package natsio_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
	for range all {
		must.Get(c.JetStream().PublishMsg(t.Context(), &nats.Msg{
			Subject: events.EventSubject(events.Thread{Session: "s", Name: "main"}, events.KindEntry), Data: make([]byte, 900_000),
		}))(t)
	}
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

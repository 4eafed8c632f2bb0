package natsio_test

import (
	"context"
	"errors"
	"sync"
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

// TestChanges: of several readers of a name one is given a version, and once, though it holds it for far longer than a reader may that
// gives no sign. What was given to a reader that died comes to the next, and no version that was overwritten meanwhile.
func TestChanges(t *testing.T) {
	c, filter, wait := natstest.Conn(t), "deleted.*", 3*time.Second
	put := func(key, value string) {
		t.Helper()
		must.Get(c.Records().Write(t.Context(), record.Put{Key: "deleted." + key, Value: []byte(value), Expect: record.Any}))(t)
	}
	put("first", "1")
	put("overwritten", "1")
	var mu sync.Mutex
	given := map[string]int{}
	held, let := make(chan struct{}), make(chan struct{})
	deal := func(ch natsio.Change) time.Duration {
		said := ch.Key + string(ch.Value)
		mu.Lock()
		given[said]++
		n := given[said]
		mu.Unlock()
		switch {
		case said == "deleted.slow1":
			close(held)
			<-let
		case said == "deleted.again1" && n == 1:
			return time.Millisecond
		}
		return 0
	}
	times := func(said string) int {
		mu.Lock()
		defer mu.Unlock()
		return given[said]
	}
	read := func() (stop func()) {
		return natstest.Run(t, func(ctx context.Context) error {
			err := natsio.ChangesWithin(ctx, c.Records(), wait, "desk", filter, deal)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	stop := read()
	must.Until(t, "what is there is given", func() bool { return times("deleted.first1") == 1 && times("deleted.overwritten1") == 1 })
	stop()
	cons := must.Get(c.JetStream().Consumer(t.Context(), events.RecordsStream, "desk"))(t)
	put("dies", "1")
	put("overwritten", "2")
	for range 2 {
		must.Get(cons.Next(jetstream.FetchMaxWait(must.Patience)))(t) // by a reader that dies
	}
	put("overwritten", "3")
	put("again", "1")
	put("slow", "1")
	signs := make(chan struct{}, 1000)
	must.Get(c.JetStream().Conn().Subscribe("$JS.ACK."+events.RecordsStream+".desk.>", func(m *nats.Msg) {
		if string(m.Data) == "+WPI" {
			signs <- struct{}{}
		}
	}))(t)
	read()
	read()
	must.Receive(t, held, "the slow one is given")
	for said, want := range map[string]int{"deleted.dies1": 1, "deleted.overwritten3": 1, "deleted.again1": 2} {
		must.Until(t, said+" is given while another one is slow", func() bool { return times(said) == want })
	}
	for range 5 { // for longer than without a sign
		must.Receive(t, signs, "the slow one gives signs")
	}
	close(let)
	put("last", "1")
	must.Until(t, "the last one is given", func() bool { return times("deleted.last1") == 1 })
	must.Until(t, "nothing waits for an ack", func() bool {
		return must.Get(cons.Info(t.Context()))(t).NumAckPending == 0
	})
	for said, want := range map[string]int{
		"deleted.first1": 1, "deleted.overwritten1": 1, "deleted.overwritten2": 0, "deleted.overwritten3": 1, "deleted.dies1": 1,
		"deleted.slow1": 1, "deleted.again1": 2, "deleted.last1": 1,
	} {
		if got := times(said); got != want {
			t.Errorf("%s was given %d times, want %d", said, got, want)
		}
	}
}

// TestChangesOverARestart: how long a name has been there is not forgotten when its server stops.
func TestChangesOverARestart(t *testing.T) {
	dir, filter := t.TempDir(), "deleted.*"
	server := natstest.ServerIn(t, dir)
	c := natstest.Dial(t, server)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	put := func(key string) {
		t.Helper()
		must.Get(c.Records().Write(t.Context(), record.Put{Key: "deleted." + key, Value: []byte("1"), Expect: record.Any}))(t)
	}
	given := make(chan natsio.Change, 10)
	read := func() (stop func()) {
		return natstest.Run(t, func(ctx context.Context) error {
			err := natsio.Changes(ctx, c.Records(), "desk", filter, func(ch natsio.Change) time.Duration { given <- ch; return 0 })
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	put("before")
	stop := read()
	if ch := must.Receive(t, given, "what is there is given"); ch.Age <= ch.Since {
		t.Errorf("%s of before the name is %v old, the name %v", ch.Key, ch.Age, ch.Since)
	}
	stop()
	put("meanwhile")
	c.Close()
	server.Stop()
	c = natstest.Dial(t, natstest.ServerIn(t, dir))
	read()
	if ch := must.Receive(t, given, "what came meanwhile is given"); ch.Age > ch.Since {
		t.Errorf("%s of behind the name's beginning is %v old, the name %v", ch.Key, ch.Age, ch.Since)
	}
}

package natsio_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

func entries(session string, from, to, size int) []*events.Event {
	var evs []*events.Event
	for i := from; i <= to; i++ {
		evs = append(evs, &events.Event{Producer: "p", Seq: uint64(i), Kind: events.KindEntry, Dialect: "raw",
			Thread: events.Thread{Session: session, Name: "main"}, Body: []byte(strings.Repeat("x", size))})
	}
	return evs
}

// one publishes events one after the other, so that each is a message.
func one(t *testing.T, c *natsio.Conn, evs []*events.Event) {
	t.Helper()
	for _, e := range evs {
		must.Do(t, c.Events().PublishEvents(t.Context(), []*events.Event{e}))
	}
}

// TestEnsureRefusesAnIncompatibleStream: the error names every difference, and nothing of the stream is changed.
func TestEnsureRefusesAnIncompatibleStream(t *testing.T) {
	c := natstest.Dial(t, natstest.Server(t))
	must.Do(t, must.Err(c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{
		Name: events.EventsStream, Subjects: []string{"spool.v1.event.>"}, Discard: jetstream.DiscardOld, MaxAge: time.Hour,
		AllowRollup: true, AllowMsgTTL: true, MaxMsgsPerSubject: 5,
	})))
	limits := natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20}
	for what, err := range map[string]error{"Ensure": c.Ensure(t.Context(), limits), "Verify": c.Verify(t.Context())} {
		if !errors.Is(err, natsio.ErrTopology) {
			t.Fatalf("%s = %v, want ErrTopology", what, err)
		}
		for _, want := range []string{events.EventsStream, "subjects", "subject transform", "discard", "maximum age", "rollup",
			"message TTL", "max messages per subject"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, want it to name %q", what, err, want)
			}
		}
		if strings.Contains(err.Error(), events.ItemsStream) {
			t.Errorf("%s = %v, want nothing about %s, which is right", what, err, events.ItemsStream)
		}
	}
	s, err := c.JetStream().Stream(t.Context(), events.EventsStream)
	if err != nil || s.CachedInfo().Config.MaxAge != time.Hour {
		t.Errorf("the stream was changed: %+v, %v", s.CachedInfo().Config, err)
	}
}

// TestVerifySaysWhatIsMissing on a server that has nothing of Spool.
func TestVerifySaysWhatIsMissing(t *testing.T) {
	err := natstest.Dial(t, natstest.Server(t)).Verify(t.Context())
	if !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("Verify = %v, want ErrNotFound", err)
	}
	for _, cfg := range natsio.Topology(natsio.Limits{}) {
		if !strings.Contains(err.Error(), cfg.Name) {
			t.Errorf("Verify = %v, want it to name %s", err, cfg.Name)
		}
	}
}

// TestNextConsumerBeginsAtTheAckFloor: the first consumer of a partition takes all and acknowledges a part; the next one gets
// the rest, in order and without a gap.
func TestNextConsumerBeginsAtTheAckFloor(t *testing.T) {
	s := natstest.Server(t)
	a, b := natstest.Dial(t, s), natstest.Dial(t, s)
	must.Do(t, a.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20}))
	one(t, a, entries("s", 1, 50, 10))
	p := natstest.Partition(t, a)
	first := make(chan natsio.Delivery, 100)
	stop := must.Get(a.Events().Consume(t.Context(), p, nil, func(d natsio.Delivery) { first <- d }))(t).Stop
	for range 50 {
		if d := <-first; d.Seq == 20 {
			must.Do(t, d.Ack())
		}
	}
	natstest.AwaitAckFloor(t, a, p, 20)
	stop()
	second := make(chan natsio.Delivery, 100)
	stop = must.Get(b.Events().Consume(t.Context(), p, nil, func(d natsio.Delivery) { second <- d }))(t).Stop
	defer stop()
	one(t, a, entries("s", 51, 60, 10))
	for want := uint64(21); want <= 60; want++ {
		d := must.Receive(t, second, "delivery %d never came", want)
		if d.Seq != want {
			t.Fatalf("delivery %d, want %d", d.Seq, want)
		}
	}
}

// TestRecordsAreAKeyValueBucket: a standard client reads and watches what a commit wrote.
func TestRecordsAreAKeyValueBucket(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	kv := must.Get(c.JetStream().KeyValue(ctx, events.RecordsBucket))(t)
	watch := must.Get(kv.Watch(ctx, "thread.>", jetstream.UpdatesOnly()))(t)
	defer func() { _ = watch.Stop() }()
	head := events.HeadKey(events.Thread{Session: "s", Name: "t"})
	fence := must.Get(c.Records().Fence(ctx, 1))(t)
	seq, err := c.Records().Commit(ctx, fence, []record.Put{{Key: "pack.x", Value: []byte("p"), Expect: record.Any},
		{Key: head, Value: []byte("h"), Expect: 0}})
	must.Do(t, err)
	e, err := kv.Get(ctx, head)
	if err != nil || string(e.Value()) != "h" || e.Revision() != seq+1 {
		t.Errorf("KeyValue.Get(%s) = %v, %v, want h at revision %d", head, e, err, seq+1)
	}
	if e := <-watch.Updates(); e == nil || e.Key() != head || string(e.Value()) != "h" {
		t.Errorf("KeyValue.Watch = %v, want %s", e, head)
	}
}

// TestItemsAreAPlainStream: a client that knows only subjects follows items, and a header has their number.
func TestItemsAreAPlainStream(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	th := events.Thread{Session: "s", Name: "t"}
	var items []events.Posted
	for n := int64(1); n <= 100; n++ {
		items = append(items, events.Posted{Subject: events.ItemSubject(th, "tool_result", "ok"), N: n, Data: fmt.Appendf(nil, `{"n":%d}`, n)})
	}
	must.Do(t, c.Items().PublishItems(ctx, items))
	if n, _, err := c.Items().LastItem(ctx, th); n != 100 || err != nil {
		t.Errorf("LastItem = %d, %v, want 100", n, err)
	}
	if n, _, err := c.Items().LastItem(ctx, events.Thread{Session: "s", Name: "other"}); n != 0 || err != nil {
		t.Errorf("LastItem(other) = %d, %v, want 0", n, err)
	}
	for _, filter := range []string{"spool.v1.item.>", "spool.v1.item.s.*.tool_result.ok"} {
		cons := must.Get(c.JetStream().CreateOrUpdateConsumer(ctx, events.ItemsStream, jetstream.ConsumerConfig{FilterSubject: filter}))(t)
		batch := must.Get(cons.Fetch(100, jetstream.FetchMaxWait(10*time.Second)))(t)
		n := 0
		for m := range batch.Messages() {
			n++
			own := maps.Clone(m.Headers()) // without those of the batch that it may have travelled in
			maps.DeleteFunc(own, func(k string, _ []string) bool { return strings.HasPrefix(k, "Nats-Batch-") })
			if got, want := string(m.Data()), fmt.Sprintf(`{"n":%d}`, n); got != want || len(own) != 0 {
				t.Fatalf("%s: item %s with headers %v, want %s with none", filter, got, own, want)
			}
		}
		must.Same(t, n, 100, "%s: %d items, want %d", filter)
	}
}

// A store of a later version is written to by nobody: no stream is changed, no fence moved, no record put.
func TestStoreOfALaterVersion(t *testing.T) {
	server := natstest.Server(t)
	c, limits := natstest.Dial(t, server), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}
	must.Do(t, c.Ensure(t.Context(), limits))
	js := c.JetStream()
	s, err := js.Stream(t.Context(), events.RecordsStream)
	must.Do(t, err)
	cfg := s.CachedInfo().Config
	must.Same(t, cfg.Metadata["spool-format"], "2", "a new store has format %q, want %q")
	for _, format := range []string{"3", "x"} {
		cfg.Metadata["spool-format"] = format
		if s, err = js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		last := s.CachedInfo().State.LastSeq
		late := natstest.Dial(t, server)
		_, fences := late.Records().Fences(t.Context())
		_, fence := late.Records().Fence(t.Context(), 0)
		_, write := late.Records().Write(t.Context(), record.Put{Key: events.RetentionKey, Value: []byte("x"), Expect: record.Any})
		for what, err := range map[string]error{
			"Ensure": late.Ensure(t.Context(), limits), "Verify": late.Verify(t.Context()),
			"Fences": fences, "Fence": fence, "Write": write,
		} {
			url, _ := late.Server()
			told := "KV_spool at " + url + " has format " + format + ", which a later version of Spool wrote"
			if !errors.Is(err, natsio.ErrTopology) || !strings.Contains(err.Error(), told) || !strings.Contains(err.Error(), "start ") {
				t.Errorf("format %s: %s = %v, want ErrTopology, where, and what to do", format, what, err)
			}
		}
		if s, err = js.Stream(t.Context(), events.RecordsStream); err != nil || s.CachedInfo().State.LastSeq != last {
			t.Errorf("something was written: %v, %d, was %d", err, s.CachedInfo().State.LastSeq, last)
		}
	}
}

// A store that an earlier version made is of this version's format once a persister has started on it: what tells
// other versions that they cannot write it is there, and its identity stays.
func TestStoreOfAnEarlierVersion(t *testing.T) {
	for _, format := range []string{"", "1"} { // before there was a number
		t.Run("format "+format, func(t *testing.T) { storeOfFormat(t, format) })
	}
}

func storeOfFormat(t *testing.T, format string) {
	server := natstest.Server(t)
	c, limits := natstest.Dial(t, server), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}
	js := c.JetStream()
	for _, cfg := range natsio.Topology(limits) {
		cfg.Metadata = map[string]string{"spool-store": "old"}
		if format != "" && cfg.Name == events.RecordsStream {
			cfg.Metadata["spool-format"] = format
		}
		must.Get(js.CreateStream(t.Context(), cfg))(t)
	}
	for range 2 {
		must.Do(t, c.Ensure(t.Context(), limits))
		records := must.Get(js.Stream(t.Context(), events.RecordsStream))(t)
		if got := records.CachedInfo().Config.Metadata; got["spool-format"] != "2" || got["spool-store"] != "old" {
			t.Errorf("metadata %v, want format 2 and store old", got)
		}
	}
}

package sessionstore_test

import (
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/sessionstore"
	"spool/pkg/events"
)

// TestPurgeAcknowledgesNothing: the events of a deleted session, one or several, are purged while those of another one, which came before
// them in their partition, still wait. Whoever has these in hand may die: they come again, to whoever is there.
func TestPurgeAcknowledgesNothing(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { purgeAcknowledgesNothing(t, n) })
	}
}

func purgeAcknowledgesNothing(t *testing.T, n int) {
	srv := natstest.Server(t)
	one, two := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, one.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	publish := func(session string) (partition int, seq uint64) {
		t.Helper()
		e := &events.Event{Producer: "p", Seq: uint64(time.Now().UnixNano()), Kind: events.KindEntry, Dialect: "raw",
			Thread: events.Thread{Session: session, Name: events.MainThread}, Body: []byte("x")}
		must.Do(t, one.Events().PublishEvents(t.Context(), []*events.Event{e}))
		at := must.Get(one.Events().NewestEvent(t.Context(), e.Thread))(t)
		return at.Partition, at.Seq
	}
	partition, waits := publish("waits")
	deleted, last := "", uint64(0)
	for i := 0; last == 0; i++ {
		deleted = fmt.Sprint("deleted-", i)
		p, seq := publish(deleted)
		if p == partition && n > 1 {
			_, seq = publish(deleted)
		}
		if p == partition {
			last = seq
		}
	}
	cfg := must.Get(one.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))(t).CachedInfo().Config
	cfg.AckWait = 500 * time.Millisecond // what is not acknowledged comes again soon
	must.Get(one.JetStream().UpdateConsumer(t.Context(), events.EventsStream, cfg))(t)
	consume := func(c *natsio.Conn, got chan uint64) *natsio.Consumed {
		return must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
			select {
			case got <- d.Seq:
			default: // nobody looks any more
			}
		}))(t)
	}
	await := func(got chan uint64, seq uint64) {
		t.Helper()
		for must.Receive(t, got, "event %d never came", seq) != seq {
		}
	}
	got := make(chan uint64, 100)
	first := consume(one, got)
	await(got, last)
	must.Do(t, sessionstore.Of(two).PurgeSession(t.Context(), deleted, record.Deleted{Seq: last + 1}))
	for range 4 { // by then what was purged would have come again, too
		await(got, waits)
	}
	first.Stop()
	again := make(chan uint64, 100)
	defer consume(two, again).Stop()
	await(again, waits)
}

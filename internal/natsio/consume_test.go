package natsio_test

import (
	"slices"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A process that begins while another one has events unacknowledged gets all of them when that one stops: the consumer that it
// had reset gave them to the other.
func TestTakeOverWhileUnacked(t *testing.T) {
	srv := natstest.Server(t)
	first, second := natstest.Dial(t, srv), natstest.Dial(t, srv)
	if err := first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	publish := func(from, to uint64) {
		t.Helper()
		for seq := from; seq <= to; seq++ {
			e := &events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte("x")}
			if err := first.PublishEvents(t.Context(), []*events.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(1, 5)
	_, partition, err := first.NewestEvent(t.Context(), events.Thread{Session: "s", Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	consume := func(c *natsio.Conn) (got chan uint64, stop func()) {
		t.Helper()
		got = make(chan uint64, 100)
		stop, err := c.Consume(t.Context(), partition, func(d natsio.Delivery) { got <- d.Seq })
		if err != nil {
			t.Fatal(err)
		}
		return got, stop
	}
	take := func(who string, from chan uint64, want ...uint64) {
		t.Helper()
		var got []uint64
		for range want {
			select {
			case seq := <-from:
				got = append(got, seq)
			case <-time.After(20 * time.Second):
				t.Fatalf("%s got %v, want %v", who, got, want)
			}
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

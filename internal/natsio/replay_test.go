package natsio_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// Many past events are read by a consumer, few one by one: both find the same, from any place up to any other.
func TestPast(t *testing.T) {
	conn := natstest.Conn(t)
	one, other := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "n"}
	const stored = 2600
	for i := range uint64(stored) {
		e := events.Event{Producer: fmt.Sprint("p", i%3), Seq: i + 1, Prev: i, Kind: events.KindEntry, Dialect: "raw", Thread: one,
			Body: fmt.Appendf(nil, "%d", i)}
		if i%5 == 4 {
			e.Thread = other
		}
		must.Get(conn.JetStream().PublishAsync(events.EventSubject(e.Thread, e.Kind), e.Encode()))(t)
	}
	<-conn.JetStream().PublishAsyncComplete()
	for _, r := range [][2]uint64{{1, stored + 1}, {0, stored}, {700, 2300}, {1, 1026}, {1200, stored + 1}, {stored, stored + 1}} {
		whole := must.Get(conn.Events().Past(t.Context(), one, "p1", 0, r[0], r[1], 0))(t)
		if whole.From != r[0] && r[0] > 0 || whole.Before != r[1] {
			t.Errorf("%d to %d: it begins at %d and ends at %d", r[0], r[1], whole.From, whole.Before)
		}
		var parts []events.Linked
		calls := 0
		for from := r[0]; from < r[1]; calls++ {
			part := must.Get(conn.Events().Past(t.Context(), one, "p1", 0, from, r[1], 1<<20))(t)
			if n := len(part.Links); n > 256 {
				t.Fatalf("%d events for 1 MiB at 4 KiB each", n)
			}
			parts, from = append(parts, part.Links...), part.Before
		}
		if !reflect.DeepEqual(whole.Links, parts) {
			t.Errorf("%d to %d: %d events at once, %d in %d parts", r[0], r[1], len(whole.Links), len(parts), calls)
		}
	}
	all := must.Get(conn.Events().Past(t.Context(), one, "p1", 0, 1, stored+1, 0))(t)
	if want := 694; len(all.Links) < want-2 || len(all.Links) > want+2 {
		t.Errorf("%d events, want some %d", len(all.Links), want)
	}
}

// An event that was removed is told as removed, also where nothing came behind it. One that the stream has not had may come; where the
// stream is gone or nobody answers, what was acknowledged may come back.
func TestEventOf(t *testing.T) {
	wire := deafly{natstest.Server(t), make(chan struct{})}
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: wire, Timeout: 2 * time.Second}))(t)
	defer c.Close()
	sound := natstest.Dial(t, wire.server)
	ctx, js := t.Context(), sound.JetStream()
	must.Do(t, sound.Ensure(ctx, goneLimits))
	one, other := events.Thread{Session: "s", Name: "main"}, events.Thread{}
	publish := func(th events.Thread) uint64 {
		return must.Get(js.Publish(ctx, events.EventSubject(th, events.KindEntry), []byte(th.Session)))(t).Sequence
	}
	first := publish(one)
	partition := must.Get(sound.Events().NewestEvent(ctx, one))(t).Partition
	for i := 0; other.Session == ""; i++ {
		th := events.Thread{Session: fmt.Sprint("t", i), Name: "main"}
		if publish(th); must.Get(sound.Events().NewestEvent(ctx, th))(t).Partition != partition {
			other = th
		}
	}
	last := publish(one)
	publish(other)
	stream := must.Get(js.Stream(ctx, events.EventsStream))(t)
	check := func(when string, seq uint64, want error) {
		t.Helper()
		got, err := natsio.EventOf(ctx, c.Streams(), partition, seq)
		if !errors.Is(err, want) || err == nil && string(got) != one.Session || want != nil &&
			errors.Is(err, record.ErrNotFound) != (want == record.ErrNotFound) {
			t.Errorf("%s: EventOf = %q, %v, want %v", when, got, err, want)
		}
	}
	check("it is there", first, nil)
	check("the last one is there", last, nil)
	check("to come", last+9, record.ErrBusy)
	must.Do(t, stream.DeleteMsg(ctx, first))
	check("deleted", first, record.ErrNotFound)
	must.Do(t, stream.DeleteMsg(ctx, last))
	check("deleted, and none of the partition is behind it", last, record.ErrNotFound)
	must.Do(t, stream.Purge(ctx))
	check("purged", first, record.ErrNotFound)
	last = publish(one)
	check("purged, and one is behind it", first, record.ErrNotFound)
	must.Do(t, stream.Purge(ctx, jetstream.WithPurgeSequence(last)))
	check("what a purge spares", last, nil)
	must.Do(t, js.DeleteStream(ctx, events.EventsStream))
	check("the stream is gone", last, record.ErrBusy)
	fresh := natstest.Dial(t, wire.server)
	if _, err := natsio.EventOf(ctx, fresh.Streams(), partition, last); !errors.Is(err, record.ErrBusy) || errors.Is(err, record.ErrNotFound) {
		t.Errorf("the stream was gone before it was asked for: EventOf = %v, want %v", err, record.ErrBusy)
	}
	close(wire.gone)
	check("nobody answers", last, record.ErrUnknown)
}

package natsio_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

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

// An event that was removed is told as removed, also where nothing came behind it; one that the stream has not had, or whose stream is
// away, may come.
func TestEventOfRemoved(t *testing.T) {
	conn := natstest.Conn(t)
	id := events.Thread{Session: "s", Name: "main"}
	var last *jetstream.PubAck
	for seq := range uint64(3) {
		e := events.Event{Producer: "p", Seq: seq + 1, Kind: events.KindEntry, Dialect: "raw", Thread: id, Body: []byte("x")}
		last = must.Get(conn.JetStream().Publish(t.Context(), events.EventSubject(id, e.Kind), e.Encode()))(t)
	}
	s := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	m := must.Get(s.GetMsg(t.Context(), last.Sequence))(t)
	partition := must.Get(strconv.Atoi(strings.Split(m.Subject, ".")[3]))(t)
	is := func(what string, seq uint64, want error) {
		t.Helper()
		if data, err := natsio.EventOf(t.Context(), conn.Streams(), partition, seq); !errors.Is(err, want) || err == nil && !bytes.Equal(data, m.Data) {
			t.Errorf("%s: EventOf(%d) = %q, %v; want %v", what, seq, data, err, want)
		}
	}
	is("stored", last.Sequence, nil)
	is("to come", last.Sequence+1, record.ErrBusy)
	must.Do(t, s.DeleteMsg(t.Context(), 1))
	is("deleted", 1, record.ErrNotFound)
	must.Do(t, s.DeleteMsg(t.Context(), last.Sequence))
	is("the last one deleted", last.Sequence, record.ErrNotFound)
	must.Do(t, s.Purge(t.Context()))
	is("purged", 2, record.ErrNotFound)
	must.Do(t, conn.JetStream().DeleteStream(t.Context(), events.EventsStream))
	is("without its stream", 2, record.ErrBusy)
}

package natsio_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A stored message that looks like the server's own word to a consumer is delivered as an event like any other, in its place, and stops
// nobody: as the first of a partition, between events, and several at once.
func TestMessagesLikeTheServers(t *testing.T) {
	c := natstest.Conn(t)
	subject := events.EventSubject(events.Thread{Session: "s", Name: "main"}, events.KindEntry)
	var all []uint64
	publish := func(status string) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Data: []byte("x")}
		if status != "" {
			m.Data, m.Header = nil, nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}
		}
		ack := must.Get(c.JetStream().PublishMsg(t.Context(), m))(t)
		all = append(all, ack.Sequence)
	}
	for _, status := range []string{"100", "", "", "409", "", "100", "503", "423", "", "404", ""} {
		publish(status)
	}
	newest := must.Get(c.Events().NewestEvent(t.Context(), events.Thread{Session: "s", Name: "main"}))(t)
	got := make(chan uint64, 100)
	stop := must.Get(c.Events().Consume(t.Context(), newest.Partition, nil, func(d natsio.Delivery) {
		if err := d.Working(); err != nil {
			t.Error(err)
		}
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		got <- d.Seq
	}))(t).Stop
	defer stop()
	last := uint64(0)
	take := func() {
		t.Helper()
		var have []uint64
		for len(have) < len(all) {
			seq := must.Receive(t, got, "delivered %v, want %v", have, all)
			if seq > last { // those that come again when the consumer is reset are skipped by whoever gets them
				have, last = append(have, seq), seq
			}
		}
		if !slices.Equal(have, all) {
			t.Fatalf("delivered %v, want %v", have, all)
		}
	}
	take()
	all = nil
	publish("100") // while it is consumed
	publish("")
	take()
	for range 3 { // a pin that the server did not give
		all = nil
		m := &nats.Msg{Subject: subject, Data: []byte("x"), Header: nats.Header{"Nats-Pin-Id": {"x"}}}
		ack := must.Get(c.JetStream().PublishMsg(t.Context(), m))(t)
		all = append(all, ack.Sequence)
		take()
		all = nil
		publish("")
		take()
	}
	all = nil
	publish("100") // and nothing behind it
	take()
	must.Until(t, "nothing is left to do", func() bool { // nobody waits for the answer to an ack
		b := must.Get(c.Events().Backlog(t.Context()))(t)
		return b.Pending == 0 && b.Unacked == 0
	})
}

// Removing an event that looks like the server's word acknowledges all before it. So it stays until those are through: whoever is given the
// partition next has each of them again.
func TestMessagesLikeTheServersAcknowledgeNothing(t *testing.T) {
	c := natstest.Conn(t)
	thread := events.Thread{Session: "s", Name: "main"}
	var all []uint64
	for _, status := range []string{"", "", "100", "", "100", "100", ""} {
		m := &nats.Msg{Subject: events.EventSubject(thread, events.KindEntry), Data: []byte("x")}
		if status != "" {
			m.Data, m.Header = nil, nats.Header{"Status": {status}}
		}
		all = append(all, must.Get(c.JetStream().PublishMsg(t.Context(), m))(t).Sequence)
	}
	partition := must.Get(c.Events().NewestEvent(t.Context(), thread))(t).Partition
	consume := func(ack bool) {
		t.Helper()
		got := make(chan uint64, 100)
		of := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
			if ack {
				must.Do(t, d.Ack())
			}
			got <- d.Seq
		}))(t)
		defer of.Stop()
		for i, last := 0, uint64(0); i < len(all); {
			switch seq := must.Receive(t, got, "delivered %d of %v", i, all); {
			case seq <= last: // again
			case seq != all[i]:
				t.Fatalf("delivered %d behind %d, want %v", seq, last, all)
			default:
				i, last = i+1, seq
			}
		}
	}
	consume(false) // by a process that dies before anything of it is through
	consume(true)
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Until(t, "all are through, and those that look like the server's word are gone", func() bool {
		b := must.Get(c.Events().Backlog(t.Context()))(t)
		return b.Pending == 0 && b.Unacked == 0 && must.Get(s.Info(t.Context()))(t).State.Msgs == 4
	})
}

package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// The server takes a message's removal for an ack of all before it in its partition. So what a session had published is written over once
// the events of others before it are through.
func TestEraseAcknowledgesNothing(t *testing.T) {
	conn := natstest.Conn(t)
	publish := func(session string) natsio.Newest {
		th := events.Thread{Session: session, Name: events.MainThread}
		must.Get(conn.JetStream().Publish(t.Context(), events.EventSubject(th, events.KindEntry), []byte("x")))(t)
		return must.Get(conn.Events().NewestEvent(t.Context(), th))(t)
	}
	partition, other := publish("s").Partition, natsio.Newest{Partition: -1}
	must.Do(t, must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t).Purge(t.Context()))
	for i := 0; other.Partition != partition; i++ {
		other = publish(fmt.Sprintf("other%d", i))
	}
	last := publish("s")
	deleted := record.Deleted{State: record.Done, Delete: events.Delete{Erase: true}, Seq: last.Seq}
	store(t, conn, record.Put{Key: events.DeletedKey("s"), Value: deleted.Encode()})
	cl := client.New(conn)
	open := make(chan natsio.Delivery, 10)
	of := must.Get(conn.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { open <- d }))(t)
	defer of.Stop()
	must.Same(t, must.Receive(t, open, "nothing came").Seq, other.Seq, "first is %d, want %d")
	d := must.Receive(t, open, "the session's event did not come")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := cl.Internal().EraseStreams(ctx, "s"); err == nil {
		t.Error("EraseStreams wrote over an event behind one that nobody has applied")
	}
	must.Do(t, d.Ack())
	over := must.Get(cl.Internal().EraseStreams(t.Context(), "s"))(t)
	must.Same(t, over[0].Messages, 1, "%d events were written over, want %d")
}

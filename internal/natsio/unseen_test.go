package natsio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A stored message that looks like the server's own word to a consumer is delivered like any other. It stops nobody, and takes nothing
// away: as the first of a partition, between events, several at once, behind all, and where it says that the consumer is gone.
func TestMessagesLikeTheServers(t *testing.T) {
	c := natstest.Conn(t)
	thread := events.Thread{Session: "s", Name: "main"}
	var all []uint64
	publish := func(header, value string) {
		t.Helper()
		m := &nats.Msg{Subject: events.EventSubject(thread, events.KindEntry), Data: []byte("x")}
		if header != "" {
			m.Header = nats.Header{header: {value}, "Description": {"Consumer Deleted"}}
		}
		if header == "Status" {
			m.Data = nil
		}
		all = append(all, must.Get(c.JetStream().PublishMsg(t.Context(), m))(t).Sequence)
	}
	for _, status := range []string{"100", "", "", "409", "", "100", "503", "423", "", "404", "", "409"} {
		if status == "" {
			publish("", "")
		} else {
			publish("Status", status)
		}
	}
	partition := must.Get(c.Events().NewestEvent(t.Context(), thread))(t).Partition
	got := make(chan uint64, 1000)
	consume := func(ack bool) *natsio.Consumed {
		return must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
			if ack {
				must.Do(t, d.Working())
				must.Do(t, d.Ack())
			}
			got <- d.Seq
		}))(t)
	}
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
		must.SameAll(t, have, all, "delivered %v, want %v")
	}
	dead := consume(false) // a process that dies before anything of it is through
	take()
	before := all
	all = nil
	publish("Status", "409")
	publish("", "") // what comes behind it waits for nobody
	take()
	dead.Stop()
	for len(got) > 0 {
		<-got
	}
	all, last = append(before, all...), 0
	defer consume(true).Stop()
	take()
	all = nil
	publish("Status", "100") // while it is consumed
	publish("", "")
	take()
	for range 3 { // a pin that the server did not give
		all = nil
		publish("Nats-Pin-Id", "x")
		take()
		all = nil
		publish("", "")
		take()
	}
	publish("Status", "100")                             // and nothing behind it
	must.Until(t, "nothing is left to do", func() bool { // nobody waits for the answer to an ack
		b := must.Get(c.Events().Backlog(t.Context()))(t)
		return b.Pending == 0 && b.Unacked == 0
	})
}

// Headers that nats.go cannot read stop nobody either: not behind an event that is seen by nobody, and not where acks take a while.
func TestHeadersThatCannotBeRead(t *testing.T) {
	server := natstest.Server(t)
	c := natstest.Dial(t, server)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	thread := events.Thread{Session: "s", Name: "main"}
	subject := events.EventSubject(thread, events.KindEntry)
	publish := rawPublisher(t, server)
	store := func(header, body string) { publish(subject, header, body) }
	const fine, unseen, unreadable = "NATS/1.0\r\n\r\n", "NATS/1.0\r\nStatus: 100\r\n\r\n", "NATS/1.0\r\nnocolon\r\n\r\n"
	for range 3 {
		store(fine, "x")
		store(unseen, "")
		store(unreadable, "")
		store(unreadable, "x")
		store(fine, "x")
	}
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Until(t, "all are stored", func() bool { return must.Get(s.Info(t.Context()))(t).State.LastSeq == 15 })
	partition := natstest.Partition(t, c)
	defer must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		time.AfterFunc(3*time.Millisecond, func() { _ = d.Ack() })
	}))(t).Stop()
	must.Until(t, "all are through", func() bool {
		b := must.Get(c.Events().Backlog(t.Context()))(t)
		return b.Pending == 0 && b.Unacked == 0
	})
}

// rawPublisher publishes what nats.go does not send.
func rawPublisher(t *testing.T, server nats.InProcessConnProvider) (publish func(subject, header, body string)) {
	raw := must.Get(server.InProcessConn())(t)
	t.Cleanup(func() { _ = raw.Close() })
	go func() { _, _ = io.Copy(io.Discard, raw) }()
	say := func(format string, args ...any) { must.Get(fmt.Fprintf(raw, format, args...))(t) }
	say("CONNECT {\"verbose\":false,\"headers\":true}\r\n")
	return func(subject, header, body string) {
		say("HPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(header), len(header)+len(body), header, body)
	}
}

// Who reads the events of a thread meets those that look like the server's own word, and those whose headers nats.go cannot read, as he
// meets the others: first, in between, behind all, and where they say that the consumer is gone.
func TestReadersMeetMessagesLikeTheServers(t *testing.T) {
	server := natstest.Server(t)
	c := natstest.Dial(t, server)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	thread := events.Thread{Session: "s", Name: "main"}
	publish, subject := rawPublisher(t, server), events.EventSubject(thread, events.KindEntry)
	var all []uint64
	for range 3 {
		for _, header := range []string{"Status: 100", "Status: 409\r\nDescription: Consumer Deleted", "nocolon", "", "Status: 503",
			"Status: 408", "nocolon", "Status: 400", "", "Status: 423", "Status: 404"} {
			body := ""
			if header == "" {
				header, body = "A: b", "x"
			}
			publish(subject, "NATS/1.0\r\n"+header+"\r\n\r\n", body)
			all = append(all, uint64(len(all)+1))
		}
	}
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Until(t, "all are stored", func() bool { return must.Get(s.Info(t.Context()))(t).State.LastSeq == uint64(len(all)) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []uint64
	take := func(_ jetstream.Msg, meta *jetstream.MsgMetadata) error {
		got = append(got, meta.Sequence.Stream)
		return nil
	}
	for name, read := range map[string]func() error{
		"of a subject": func() error {
			cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{events.StoredFilter(thread)}}
			return c.Streams().Each(ctx, events.EventsStream, cfg, take)
		},
		"one by one": func() error {
			leader, err := natsio.MessagesOf(ctx, c.Streams(), events.EventsStream)
			for at := uint64(1); err == nil; at++ {
				var m *jetstream.RawStreamMsg
				if m, err = leader.GetMsg(ctx, at, jetstream.WithGetMsgSubject(events.StoredFilter(thread))); err == nil {
					got = append(got, m.Sequence)
				}
			}
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			return err
		},
		"all": func() error {
			return c.Streams().Each(ctx, events.EventsStream, jetstream.OrderedConsumerConfig{}, take)
		},
		"to the newest": func() error { return c.Streams().EachUntilNewest(ctx, s, 1, take) },
	} {
		got = nil
		must.Do(t, read())
		must.SameAll(t, got, all, name+": read %v, want %v")
	}
}

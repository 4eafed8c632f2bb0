package service_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestHeadersThatCannotBeRead: events with headers that nats.go refuses to decode hold up no persister, whatever it has to read again to
// judge them, or what comes behind them: they are applied, or dead letters with the same reasons as others.
func TestHeadersThatCannotBeRead(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	id := events.Thread{Session: "s", Name: "main"}
	raw := must.Get(server.InProcessConn())(t) // nats.go sends none
	defer raw.Close()
	go func() { _, _ = io.Copy(io.Discard, raw) }()
	say := func(format string, args ...any) { must.Get(fmt.Fprintf(raw, format, args...))(t) }
	say("CONNECT {\"verbose\":false,\"headers\":true}\r\n")
	const header = "NATS/1.0\r\nnocolon\r\n\r\n"
	publish := func(seq uint64, text string) {
		e := events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "step", Thread: id,
			Body: fmt.Appendf(nil, `{"role":"coder","content":%q}`, text)}
		body := e.Encode()
		say("HPUB %s %d %d\r\n%s%s\r\n", events.EventSubject(id, e.Kind), len(header), len(header)+len(body), header, body)
	}
	publish(1, "one")
	publish(3, "three")
	publish(3, "another three") // it asks for what was stored before
	publish(2, "late")          // and so does this
	publish(3, "three")
	publish(4, "four")
	say("PING\r\n")
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	must.Until(t, "all are stored, and through", func() bool {
		s := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
		b := must.Get(conn.Events().Backlog(t.Context()))(t)
		return s.CachedInfo().State.LastSeq == 6 && b.Pending == 0 && b.Unacked == 0
	})
	cl := client.New(conn)

	head := must.Get(cl.Thread(id).Head(t.Context()))(t)
	letters := 0
	must.Do(t, conn.DeadLetters().EachLetter(t.Context(), id, func(natsio.DeadLetter) error { letters++; return nil }))
	if head.N != 3 || letters != 2 {
		t.Errorf("the thread has %d items, and %d dead letters, want 3 and 2", head.N, letters)
	}
	admin := natsadmin.New(conn)
	if data, err := admin.Message(t.Context(), events.EventsStream, 2); err != nil || len(data) == 0 {
		t.Errorf("message 2 = %q, %v, want its body", data, err)
	}
}

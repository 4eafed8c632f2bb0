package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// While no persister runs, a backup, gc and fsck end whatever the headers of an event look like: the server's own word, or nothing that can
// be read. Once one runs, each of those events is a dead letter, and its thread is answered.
func TestEventsOfAnyHeaders(t *testing.T) {
	s, conn := plain(t)
	id := events.Thread{Session: "s", Name: "main"}
	raw := must.Get(s.InProcessConn())(t) // nats.go sends no such headers
	defer raw.Close()
	go func() { _, _ = io.Copy(io.Discard, raw) }()
	must.Get(fmt.Fprint(raw, "CONNECT {\"verbose\":false,\"headers\":true}\r\n"))(t)
	subject := events.EventSubject(id, events.KindEntry)
	bad := []string{"Status: 100", "nocolon", "Status: 409\r\nDescription: Consumer Deleted", "Status: 404"}
	for _, header := range bad {
		header = "NATS/1.0\r\n" + header + "\r\n\r\n"
		must.Get(fmt.Fprintf(raw, "HPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(header), len(header), header))(t)
	}
	must.Until(t, "all are stored", func() bool {
		return must.Get(conn.Streams().LastSeqs(t.Context(), events.EventsStream))(t)[events.EventsStream] == uint64(len(bad))
	})
	cl := client.New(conn)
	entry := must.Get(cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(),
		client.Entry{Thread: id, Dialect: "item", Body: events.Prompt{ID: "x", Kind: events.PromptText}.Item().JSON(), Seq: 1}))(t)
	run := func(args ...string) string {
		t.Helper()
		out, code := spool(t, append(args, "--nats", s.ClientURL())...)
		must.Same(t, code, service.ExitOK, "exit code %d, want %d\n"+strings.ReplaceAll(out, "%", "%%"))
		return out
	}
	account := func() (acc fsck.Accounts) {
		t.Helper()
		out := run("fsck", "--events", "--json") // before or behind what it logs
		must.Do(t, json.NewDecoder(strings.NewReader(out[strings.Index(out, "{"):])).Decode(&acc))
		return acc
	}
	run("backup", filepath.Join(t.TempDir(), "backup"))
	run("gc")
	if acc := account(); acc.Waiting != int64(len(bad))+1 {
		t.Errorf("without a persister %+v, want %d events that are not looked at yet", acc, len(bad)+1)
	}
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	must.Do(t, entry.Applied(t.Context()))
	must.Do(t, faulttest.Settle(t.Context(), conn))
	if acc := account(); acc.Refused != int64(len(bad)) || acc.Unaccounted != 0 || acc.Applied != 1 {
		t.Errorf("with a persister %+v, want %d dead letters, and the one behind them applied", acc, len(bad))
	}
}

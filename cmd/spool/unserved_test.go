package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// TestUnserved: a command that waits for a persister where none runs says what it waits for, and what to do.
func TestUnserved(t *testing.T) {
	s, _ := plain(t)
	for name, command := range map[string]interface{ Run(*app) error }{
		"thread start": &threadStartCmd{Thread: "s"},
		"session new":  &sessionNewCmd{Session: "n"},
		"import":       &importCmd{Paths: []string{"../../examples/codex"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told natstest.Log
			ctx, stop := context.WithCancel(t.Context())
			a := &app{ctx: ctx, nats: &service.NATS{Server: s.ClientURL(), Timeout: 5 * time.Second},
				log: must.Get(service.Log(&told, "text", "warn"))(t), in: strings.NewReader(""), out: t.Output(), err: &told}
			defer a.close()
			ended := make(chan error)
			go func() { ended <- command.Run(a) }()
			must.Until(t, "it says that no persister runs", func() bool { return strings.Contains(told.String(), "start one with spool up") })
			stop()
			if err := must.Receive(t, ended, "it goes on waiting"); err == nil {
				t.Error("it is done, and no persister runs")
			}
		})
	}
}

// TestReadUnserved: an artifact of a session to which more was published than is applied may be in that. Nobody is told that it is nowhere.
func TestReadUnserved(t *testing.T) {
	s, conn := plain(t)
	must.Get(conn.Records().Write(t.Context(), record.Put{Key: events.SessionKey("s"),
		Value: sessions.Info{ID: "s", Threads: 1}.Encode(), Expect: record.Any}))(t)
	say := func() (string, int) {
		return spool(t, "read", "artifact://1", "--session", "s", "--nats", s.ClientURL())
	}
	if out, code := say(); code == service.ExitOK || !strings.Contains(out, "s has no artifacts") {
		t.Errorf("spool read where all is applied = %d: %s", code, out)
	}
	must.Get(conn.JetStream().Publish(t.Context(), events.EventSubject(events.Thread{Session: "s", Name: "main"}, events.KindEntry), nil))(t)
	if out, code := say(); code == service.ExitOK || !strings.Contains(out, "is a persister running?") ||
		strings.Contains(out, "has no artifacts") {
		t.Errorf("spool read behind what is not applied = %d: %s; want that alone", code, out)
	}
}

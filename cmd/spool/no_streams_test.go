package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/must"
	"spool/internal/service"
	"spool/pkg/events"
)

// TestNoStreams: on a NATS system where Spool never ran, every command says what makes its streams, and none waits for them.
func TestNoStreams(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(s.Stop)
	for _, command := range []string{"session ls", "show x", "search x", "du", "dead ls", "import ../../examples/codex", "exec -- echo ran",
		"publish --session s --dialect raw tail_test.go", "publish --session s --dialect raw --producer p tail_test.go",
		"prompts ask s really", "session new s"} {
		out, code := spool(t, append([]string{"--nats", s.ClientURL()}, strings.Fields(command)...)...)
		if code != service.ExitFailure || !strings.Contains(out, "spool up or a persister makes") ||
			strings.Contains(out, "err_code") || strings.Contains(out, "ran\n") {
			t.Errorf("%s = %d: %s; want 1, and what makes streams", command, code, out)
		}
	}
	out, code := spool(t, "doctor", "--nats", s.ClientURL())
	if code != service.ExitFailure || !strings.Contains(out, "stream SPOOL_EVENTS: not found\n") {
		t.Errorf("doctor = %d: %s; want 1, and each stream by its name", code, out)
	}
}

// TestExecIsStoppedWhileItWaits: where nothing takes events, a signal ends spool exec before it runs anything.
func TestExecIsStoppedWhileItWaits(t *testing.T) {
	s, conn := plain(t)
	must.Do(t, conn.JetStream().DeleteStream(t.Context(), events.EventsStream))
	ctx, stop := context.WithCancel(t.Context())
	a := &app{ctx: ctx, nats: &service.NATS{Server: s.ClientURL(), Timeout: 5 * time.Second}, log: slog.New(slog.DiscardHandler),
		in: strings.NewReader(""), out: t.Output(), err: t.Output()}
	defer a.close()
	ended := make(chan error)
	go func() { ended <- (&execCmd{Session: "s", Thread: "main", Command: []string{"false"}}).Run(a) }()
	stop()
	err := must.Receive(t, ended, "exec goes on waiting")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("exec = %v, want that it was cancelled and that nothing ran", err)
	}
}

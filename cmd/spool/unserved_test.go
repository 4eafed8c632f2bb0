package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
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

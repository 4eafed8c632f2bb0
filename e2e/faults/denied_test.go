//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// TestPermissionLost takes permissions from a persister's user in mid-run, by a reload of the server's configuration, and gives
// them back: it says what it may not do, nothing is stored in part, and it goes on where it was. (A directory without permissions
// would say nothing: the server that these tests start is root, whom no mode stops, or opens its files once.)
func TestPermissionLost(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.deny("persister", "")
	w.user = "everything"
	w.serve()
	w.user = "persister"
	persister := w.persister()
	w.user = "everything"
	w.start("ingest", "-http", w.http).Await("ingest listens")
	load := w.publish(faulttest.NewLedger(small()))
	for _, denied := range []string{events.RecordSubject("thread.>"), "$O." + events.NodesBucket + ".>", "spool.v1.item.>"} {
		load.acks(50)
		w.reload("persister", denied)
		load.acks(100)
		said := len(persister.Log())
		w.eventually("the persister says what it may not do", func() error {
			if log := persister.Log()[said:]; !strings.Contains(log, "ermission") {
				return errors.New(log)
			}
			return nil
		})
		w.reload("persister", "")
		load.acks(50)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		load.stop()
		if err := faulttest.Settle(ctx, w.dial()); err != nil {
			t.Fatalf("%s was denied and given back: %v", denied, err)
		}
		cancel()
		load = w.publish(load.Ledger)
	}
	load.acks(50)
	load.check()
	if persister.Ended() {
		t.Error("the persister ended")
	}
}

// TestPublishDenied: whoever may not publish is told so at once, and not after a timeout.
func TestPublishDenied(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.deny("agent", "spool.v1.event.>")
	w.user = "everything"
	w.serve()
	w.fleet()
	conn, err := natsio.Dial(t.Context(), natsio.Config{URL: "nats://" + w.nats, User: "agent", Password: "agent", Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := conn.Events().PublishEvents(ctx, []*events.Event{event("p", 1, []byte("x"))}); err == nil || ctx.Err() != nil ||
		!strings.Contains(err.Error(), "ermission") {
		t.Errorf("publish = %v, want a denied permission", err)
	}
	w.reload("agent", "")
	w.eventually("the agent may publish again", func() error {
		return conn.Events().PublishEvents(ctx,
			[]*events.Event{event("p", 1, []byte("x"))})
	})
}

// deny configures users: one that may do everything, and one that may not publish to a subject.
func (w *world) deny(user, subject string) {
	limits := ""
	if subject != "" {
		limits = fmt.Sprintf(", permissions: { publish: { deny: %q } }", subject)
	}
	w.more = fmt.Sprintf("authorization { users = [ { user: everything, password: everything }, { user: %s, password: %s%s } ] }", user, user, limits)
}

// reload is deny for a server that runs.
func (w *world) reload(user, subject string) {
	w.t.Helper()
	w.deny(user, subject)
	w.configure()
	said := strings.Count(w.server.Log(), "Reloaded server configuration")
	w.server.Signal(syscall.SIGHUP)
	w.eventually("the server reads its configuration again", func() error {
		if strings.Count(w.server.Log(), "Reloaded server configuration") == said {
			return errors.New("not yet")
		}
		return nil
	})
}

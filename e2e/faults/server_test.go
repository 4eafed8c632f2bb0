//go:build linux

package faults_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestServerKilled kills the server again and again under load and starts it on the same files. A crash of a process alone
// loses nothing however its server syncs: what it wrote is the kernel's.
func TestServerKilled(t *testing.T) {
	for _, sync := range []string{"always", "1s"} {
		t.Run(sync, func(t *testing.T) {
			row(t)
			w := newWorld(t)
			w.sync = sync
			w.serve()
			w.fleet()
			load := w.publish(faulttest.NewLedger(small()))
			kills := often(3, 100)
			for range kills {
				load.acks(100)
				w.server.Kill()
				w.serve()
			}
			load.acks(100)
			load.check()
		})
	}
}

// TestServerGone takes the server away for long. Whoever publishes waits or keeps entries on its own disk, as it chose;
// readiness says so; persisters come back by themselves.
func TestServerGone(t *testing.T) {
	w := serving(t)
	persister := w.fleet()
	online := w.publish(faulttest.NewLedger(small()))
	away := small()
	away.Name, away.Pause = "away", 50*time.Millisecond
	keeps := must.Get(client.Connect(t.Context(), client.Config{URL: "nats://" + w.nats, Offline: filepath.Join(w.dir, "offline")}))(t)
	t.Cleanup(keeps.Close)
	offline := w.publishBy(faulttest.NewLedger(away), keeps)
	online.acks(50)
	offline.acks(50)
	w.server.Kill()
	w.eventually("readiness is red", func() error {
		if w.ready() == nil {
			return errors.New("ready, and there is no server")
		}
		return nil
	})
	offline.acks(50) // on this machine's disk
	waits := online.Acked()
	if long {
		lasts(5 * time.Minute)
	} else {
		lasts(12 * time.Second)
	}
	if got := online.Acked(); got != waits {
		t.Errorf("%d entries were acked while there was no server", got-waits)
	}
	w.serve()
	online.acks(50)
	offline.stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.Do(t, keeps.Flush(ctx))
	online.check()
	w.check(offline.Ledger)
	if persister.Ended() {
		t.Error("the persister ended")
	}
}

// TestServerStalls stops the server in a rhythm (SIGSTOP, SIGCONT): everything that it does takes long and comes in bursts, as
// on a disk that hangs. That is the stand-in for a slow disk: this kernel has neither device-mapper nor a throttle for one.
func TestServerStalls(t *testing.T) {
	w := serving(t)
	w.fleet()
	load := w.publish(faulttest.NewLedger(small()))
	load.acks(50)
	rounds := often(12, 1000)
	for range rounds {
		w.server.Signal(syscall.SIGSTOP)
		lasts(250 * time.Millisecond)
		w.server.Signal(syscall.SIGCONT)
		lasts(50 * time.Millisecond)
	}
	if long { // longer than every timeout
		w.server.Signal(syscall.SIGSTOP)
		lasts(45 * time.Second)
		w.server.Signal(syscall.SIGCONT)
	}
	load.acks(50)
	load.check()
}

// TestNobodyAnswers: publishing to a server that has no streams yet waits for them, and says why to whoever does not want to.
func TestNobodyAnswers(t *testing.T) {
	w := serving(t)
	conn := w.dial()
	e := &events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: "s", Name: events.MainThread}, Body: []byte("x")}
	err := conn.Events().PublishEvents(t.Context(), []*events.Event{e})
	if !errors.Is(err, record.ErrBusy) || !strings.Contains(err.Error(), "is JetStream enabled and the stream there?") {
		t.Errorf("publish without streams = %v, want %v and what to look for", err, record.ErrBusy)
	}
	load := w.publish(faulttest.NewLedger(small()))
	must.Is(t, conn.Verify(t.Context()), record.ErrNotFound, "verify")
	w.fleet()
	load.acks(100)
	load.check()
}

//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/pkg/events"
)

// TestDiskFull fills the disk of the server.
func TestDiskFull(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.isolate()
	if err := w.inside.do("mount", "-t", "tmpfs", "-o", "size=48m", "none", w.inside.at); err != nil {
		skip(t, fmt.Sprintf("cannot mount a tmpfs: %v", err))
	}
	w.serve()
	persister := w.fleet()
	big := small()
	big.Entry = func(r *rand.Rand) int { return 10_000 + r.IntN(50_000) }
	load := w.publish(faulttest.NewLedger(big))
	last, since := int64(-1), time.Now()
	w.eventually("the disk is full", func() error {
		if n := load.Acked(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < 5*time.Second {
			return errors.New("still acked")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := &events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: events.MainThread}, Body: []byte("x")}
	err := w.dial().PublishEvents(ctx, []*events.Event{e})
	t.Log(err)
	t.Log(w.ready())
	for _, c := range []string{"doctor", "check"} {
		out, code := w.run("spool", c)
		t.Log(code, out)
	}
	out, code := w.run("gc", "-once", "-allow", "share")
	t.Log("gc", code, out)
	t.Log(w.logs())
	if err := w.inside.do("mount", "-o", "remount,size=512m", w.inside.at); err != nil {
		t.Fatal(err)
	}
	lasts(3 * time.Second)
	t.Log("acked since", load.Acked()-last)
	t.Log(w.ready())
	w.server.kill()
	w.serve()
	load.acks(20)
	load.check()
	if persister.ended() {
		t.Errorf("the persister ended:\n%s", persister.log())
	}
}

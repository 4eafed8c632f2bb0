//go:build linux

package faults_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestDiskFull fills the disk of the server. It answers no publish then, so that publishers wait, and readiness and doctor
// say why; nothing that was acked is lost. With room again, and the server started again, everything goes on.
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
	if err := w.dial().Events().PublishEvents(t.Context(), []*events.Event{event("p", 1, make([]byte, 100_000))}); !record.Temporary(err) {
		t.Errorf("publish to a full disk = %v, want an error after which one tries again", err)
	}
	// What is left is too little for an entry; somebody else takes it, until there is nothing for a record either.
	_ = w.inside.do("dd", "if=/dev/zero", "of="+w.inside.at+"/filler", "bs=4096")
	w.eventually("readiness is red", func() error {
		if err := w.ready(); err == nil || !strings.Contains(err.Error(), "is its disk full") {
			return fmt.Errorf("ready: %v", err)
		}
		return nil
	})
	if out, code := w.run("spool", "doctor"); code != 1 || !strings.Contains(out, "is its disk full") {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}
	if out, code := w.run("spool", "check", "writes"); code != 2 || !strings.Contains(out, "is its disk full") {
		t.Errorf("check: exit code %d, want 2\n%s", code, out)
	}
	if out, code := w.run("gc", "-once", "-allow", "share"); code != 1 || !strings.Contains(out, "nothing was deleted") {
		t.Errorf("gc: exit code %d, want 1: nothing can be condemned where nothing can be written\n%s", code, out)
	}
	must.Do(t, w.inside.do("mount", "-o", "remount,size=512m", w.inside.at))
	w.server.Kill() // room alone does not wake it
	w.serve()
	load.acks(20)
	load.check()
	if persister.Ended() {
		t.Error("the persister ended")
	}
}

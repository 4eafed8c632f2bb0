package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFailedThread: a thread with an item that can not be made small enough says so, stays listed, takes entries, and
// is failed until it is reopened (SPEC I4, I7, P10).
func TestFailedThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	say := func(line string) {
		t.Helper()
		if _, errw, code := w.try(line+"\n", "spool", "publish", "-", "--session", "s", "--dialect", "item"); code != 0 {
			t.Fatalf("publish: exit code %d\n%s", code, errw)
		}
	}
	say(`{"content":[{"type":"text","text":"head"},{"type":"text","text":"` + strings.Repeat("x", 400_000) + `"}]}`)
	w.shows("failed", "THREAD_ITEM_TOO_LARGE")
	if out := w.run("spool", "thread", "ls", "s"); !strings.Contains(out, "failed") {
		t.Errorf("thread ls = %q, want it listed as failed", out)
	}
	say(`{"content":[{"type":"text","text":"small"}]}`)
	w.shows("failed", "THREAD_ITEM_TOO_LARGE", "2 items")
	w.run("spool", "thread", "reopen", "s")
	if out := w.shows("active"); strings.Contains(out, "THREAD_ITEM_TOO_LARGE") {
		t.Errorf("thread show after it was reopened still names the failure:\n%s", out)
	}
}

// shows waits until spool thread show of the session s says all of want.
func (w *world) shows(want ...string) (out string) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var code int
		if out, _, code = w.try("", "spool", "thread", "show", "s"); code == 0 &&
			!slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(out, s) }) {
			return out
		}
	}
	w.t.Fatalf("thread show = %q, want %v", out, want)
	return out
}

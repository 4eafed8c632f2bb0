package fsck_test

import (
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/events"
)

// TestThreadOfSuperseded: what is linked to an event that was never stored begins no thread, and its producer publishes all again: fsck
// finds nothing, a repair has nothing to do, and the thread has its entries in their order then.
func TestThreadOfSuperseded(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.raw(entryOf(id, "p", 2, 1, "two"))
	w.raw(entryOf(id, "p", 3, 2, "three"))
	w.settle()
	store := natsadmin.Of(w.conn)
	report := must.Get(fsck.Check(w.Context(), store, fsck.Config{}))(w)
	if len(report.Findings) > 0 {
		t.Errorf("findings %v, want none", report.Findings)
	}
	must.Get(fsck.Fix(w.Context(), store, store, w.conn.Store(0), fsck.Config{}))(w)
	w.raw(entryOf(id, "p", 1, 0, "one"))
	w.raw(entryOf(id, "p", 2, 1, "two"))
	w.raw(entryOf(id, "p", 3, 2, "three"))
	w.settle()
	var out strings.Builder
	must.Get(w.cl.Thread(id).Export(w.Context(), &out))(w)
	if want := string(step("one")) + "\n" + string(step("two")) + "\n" + string(step("three")) + "\n"; out.String() != want {
		t.Errorf("the thread holds\n%swant\n%s", out.String(), want)
	}
	w.wantNoFindings()
}

package fsck_test

import (
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/events"
)

// Of a thread that nothing tells of, what is whole gets a thread of its own where records are known to be lost; what is
// not whole is told of until it is given up. Without that knowledge all of it is garbage, as after every deletion.
func TestNamelessThread(t *testing.T) {
	w := newWorld(t)
	id, kept := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "kept", Name: "main"}
	w.steps(kept, 1, 4)
	w.steps(id, 1, 13)
	must.Do(t, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	path := w.path(id) // newest first
	for _, stream := range []string{events.EventsStream, events.ItemsStream} {
		must.Do(t, must.Get(w.conn.JetStream().Stream(t.Context(), stream))(t).Purge(t.Context()))
	}
	w.loseHead(id)
	w.lose(events.PackKey(path[4].Pack.String())) // of entry 8
	w.wantClean()

	lost := fsck.Config{Lost: "somebody says so"}
	sys := natsadmin.Of(w.conn)
	fix := func(cfg fsck.Config) (whole, broken int) {
		t.Helper()
		for _, f := range must.Get(fsck.Fix(t.Context(), sys, sys, w.conn.Store(0), cfg))(t).Findings {
			if !strings.HasPrefix(f.Record, "thread.lost-") {
				t.Errorf("finding: %s", f)
			} else if strings.Contains(f.Detail, "7 entries up to") {
				whole++
			} else {
				broken++
			}
		}
		return whole, broken
	}
	if whole, broken := fix(lost); whole != 1 || broken != 1 {
		t.Fatalf("%d lines that are whole, %d that are not, want one each", whole, broken)
	}
	if whole, broken := fix(lost); whole != 0 || broken != 1 {
		t.Fatalf("then %d lines that are whole, %d that are not, want the other one alone", whole, broken)
	}
	found := 0
	for _, r := range must.Get(w.conn.Records().List(t.Context(), "thread.>"))(t) {
		if th, _ := events.ParseHeadKey(r.Key); th != kept {
			if got := w.path(th); len(got) != 7 || got[0].Ref != path[5].Ref {
				t.Errorf("%s has %d states, want the first 7", th, len(got))
			}
			found++
		}
	}
	must.Same(t, found, 1, "%d threads were found, want %d")
	lost.Cut = true
	if whole, broken := fix(lost); whole != 0 || broken != 0 {
		t.Errorf("what was given up is found: %d, %d", whole, broken)
	}
	w.wantClean()
}

package gc_test

import (
	"errors"
	"testing"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// DiskUse adds up by session and by class, and says what a fork and an equal image save.
func TestDiskUse(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("a"), append(talk(40, "talk"), image("i", 1))...)
	r.say(th("b"), image("j", 1))
	must.Do(t, r.Thread(th("c")).Fork(t.Context(), events.Fork{Session: "a", Thread: events.MainThread}))
	use, all, err := gc.DiskUse(t.Context(), r.conn.Records(), "")
	if err != nil || len(use) != 3 || all.Blobs != 1 || all.Packs < 2 || all.Tombstones != 0 {
		t.Fatalf("DiskUse() = %+v, %+v, %v, want three sessions, one blob, no tombstones", use, all, err)
	}
	if all.SavedBytes == 0 {
		t.Errorf("DiskUse() = %+v, want that a fork and an equal image save something", all)
	}
	one, again, err := gc.DiskUse(t.Context(), r.conn.Records(), "b")
	if err != nil || len(one) != 1 || one[0].Session != "b" || one[0].Entries != 1 || again != all {
		t.Errorf("DiskUse(b) = %+v, %+v, %v, want that session alone, and the same by class", one, again, err)
	}
	r.remove(th("b"))
	r.remove(th("c"))
	cfg := brave()
	cfg.Quarantine = 1 << 40
	r.collect(cfg)
	if _, all, err := gc.DiskUse(t.Context(), r.conn.Records(), ""); err != nil || all.Tombstones == 0 || all.TombstoneBytes == 0 {
		t.Errorf("DiskUse() in quarantine = %+v, %v, want tombstones and their bytes", all, err)
	}
	r.put("future.x", []byte("?"))
	if use, _, err := gc.DiskUse(t.Context(), r.conn.Records(), ""); !errors.Is(err, record.ErrClass) || len(use) != 1 {
		t.Errorf("DiskUse() with a record of another version = %v, %v, want one session, and ErrClass", use, err)
	}
	r.put("future.x", nil)
	if _, _, err := gc.DiskUse(t.Context(), r.conn.Records(), ""); err != nil {
		t.Errorf("DiskUse() behind its removal = %v", err)
	}
}

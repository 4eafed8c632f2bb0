package history_test

import (
	"path/filepath"
	"slices"
	"testing"

	"spool/internal/backup"
	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
)

// A restored system has no items of before: its history has the prompts nevertheless, made again from the threads, whether
// it is new or is the one of the system that was copied.
func TestRestored(t *testing.T) {
	src := newSpool(t)
	src.say("one", 1_700_000_100, "user:fix the parser", "assistant:done", "user:now the lexer")
	known := open(t, filepath.Join(t.TempDir(), "history.db"))
	want := src.caughtUp(known)
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(t.Context(), src.conn, repo, nil))(t)
	conn := natstest.Dial(t, natstest.Server(t))
	must.Do(t, backup.Restore(t.Context(), conn, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil))
	dst := &spool{t, conn, client.New(conn), nil}
	for name, db := range map[string]*history.DB{"new": open(t, filepath.Join(t.TempDir(), "history.db")), "known": known} {
		if got := dst.caughtUp(db); len(got) != 2 || !slices.Equal(got, want) {
			t.Errorf("%s: the history has %q, want %q", name, got, want)
		}
	}
}

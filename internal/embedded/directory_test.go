package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
)

// TestForeignDirectory: a directory with files of others is refused before anything is written; an empty one, one that
// was served before, whatever else is in it, and one that a start which failed left are taken.
func TestForeignDirectory(t *testing.T) {
	start := func(dir string) error {
		s, err := Start(Config{Dir: dir})
		if err == nil {
			s.Stop()
		}
		return err
	}
	names := func(dir string) (names []string) {
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			names = append(names, e.Name())
		}
		return names
	}
	put := func(dir, name string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	foreign := t.TempDir()
	put(foreign, "session.jsonl")
	if err := start(foreign); err == nil || !strings.Contains(err.Error(), "neither empty nor a data directory of Spool") ||
		!strings.Contains(err.Error(), "session.jsonl") {
		t.Errorf("Start on a directory with a transcript = %v, want a refusal that names it", err)
	}
	must.Same(t, len(names(foreign)), 1, "%d files are in it, want %d")

	again := filepath.Join(t.TempDir(), "new")
	must.Do(t, start(again))
	put(again, "token")
	must.Do(t, start(again))

	begun := t.TempDir()
	for _, name := range []string{"lock", "history.db", "history.db-wal", ".hidden"} {
		put(begun, name)
	}
	must.Do(t, start(begun))

	file := filepath.Join(foreign, "session.jsonl")
	if err := start(file); err == nil {
		t.Error("Start on a file = nil")
	}
}

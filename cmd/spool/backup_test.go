package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"spool/internal/must"
	"spool/internal/service"
)

// TestRestoreThatFails: a restore that fails leaves its directory as it was, so that it can be tried again.
func TestRestoreThatFails(t *testing.T) {
	t.Setenv("NATS_URL", "")
	t.Setenv("NATS_CONTEXT", "")
	w := newJSONWorld(t)
	kept := filepath.Join(t.TempDir(), "backup")
	w.run("backup", kept)
	objects := must.Get(filepath.Glob(filepath.Join(kept, "objects", "*", "*")))(t)
	if len(objects) == 0 {
		t.Fatal("the backup has no objects")
	}
	whole := must.Get(os.ReadFile(objects[0]))(t)
	must.Do(t, os.WriteFile(objects[0], []byte("broken"), 0o600))
	gone, empty := filepath.Join(t.TempDir(), "gone"), t.TempDir()
	for _, dir := range []string{gone, empty} {
		if out, code := spool(t, "restore", kept, "--data", dir); code != service.ExitFailure {
			t.Errorf("restore of a broken backup = %d %s, want %d", code, out, service.ExitFailure)
		}
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that the restore made: %v, want it removed", err)
	}
	if left := must.Get(os.ReadDir(empty))(t); len(left) > 0 {
		t.Errorf("a directory that was empty has %v after a restore that failed", left)
	}
	must.Do(t, os.WriteFile(objects[0], whole, 0o600))
	if out, code := spool(t, "restore", kept, "--data", gone); code != service.ExitOK {
		t.Errorf("restore behind one that failed = %d %s", code, out)
	}
}

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// A misspelt command of spool backup makes no backup of that name; a directory is one that is there, or that is written as a path, or behind
// the command that is meant.
func TestMisspeltCommandIsNoDirectory(t *testing.T) {
	w := newJSONWorld(t)
	t.Chdir(t.TempDir())
	must.Do(t, os.Mkdir("there", 0o700))
	for _, word := range []string{"verfy", "check", "lss"} {
		out, code := spool(t, "backup", word, "--nats", w.up.NATS)
		if code != service.ExitUsage || !strings.Contains(out, "spool backup create "+word) || !strings.Contains(out, "verify") {
			t.Errorf("backup %s = %d %s, want %d, the commands, and how a directory of that name is made", word, code, out, service.ExitUsage)
		}
		if _, err := os.Stat(word); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("backup %s: %v, want nothing of that name", word, err)
		}
	}
	for _, args := range [][]string{{"there"}, {"./verfy"}, {"create", "lss"}} {
		w.run(append([]string{"backup"}, args...)...)
		w.run("backup", "verify", args[len(args)-1])
	}
}

package transcript_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/events"
)

// unattended is a store to which no persister comes.
type unattended struct {
	*store
	t *testing.T
}

var errBehind = errors.New("nobody came")

func (u unattended) Settled(context.Context, events.Thread) error { return errBehind }

func (u unattended) Await(_ context.Context, t events.Thread, _ string, _, _ uint64) error {
	u.t.Errorf("the import waits for %s", t)
	return errBehind
}

// An import needs no persister: sessions that go on from others are then copies, and it says so.
func TestForksWithoutAPersister(t *testing.T) {
	dir, s := t.TempDir(), newStore()
	header := `{"type":"session","version":3,"id":"from","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}` + "\n"
	lines := `{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"x"}}` + "\n"
	write(t, filepath.Join(dir, "a.jsonl"), header+lines)
	for _, id := range []string{"b", "c"} {
		fork := strings.Replace(header, `"id":"from"`, `"id":"`+id+`","parentSession":"from"`, 1)
		write(t, filepath.Join(dir, id+".jsonl"), fork+lines)
	}
	u := unattended{s, t}
	sources := must.Get(transcript.Find(disk{}, dir))(t)
	for _, f := range transcript.New(u, u, transcript.Config{}).Import(t.Context(), sources).Files {
		warned := len(f.Warnings) == 1 && strings.Contains(f.Warnings[0], "from/main")
		if f.Err != nil || f.Published != 2 || warned != (f.Session != "from") {
			t.Errorf("%s: %d lines published, warnings %q, %v", f.File, f.Published, f.Warnings, f.Err)
		}
	}
}

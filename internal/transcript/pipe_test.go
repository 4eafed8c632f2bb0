//go:build unix

package transcript_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"spool/internal/must"
	"spool/internal/transcript"
)

// A pipe is refused before it is opened, which would wait for its other end.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	s := newStore()
	f := transcript.New(s, s, transcript.Config{}).Import(t.Context(), must.Get(transcript.Find(disk{}, path))(t)).Files[0]
	if f.Err == nil {
		t.Error("a pipe is imported")
	}
}

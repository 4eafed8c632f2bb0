//go:build unix

package interchange_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

const besideFolder = "projects/-home-dev-my-app/" + claudeID

// importFile imports one file of a directory, and gives what became of it.
func importFile(t *testing.T, conn *natsio.Conn, dir, file string) transcript.FileResult {
	t.Helper()
	src := transcript.Source{FS: os.DirFS(dir), Path: file}
	res, _, err := interchange.Import(t.Context(), conn, []transcript.Source{src}, transcript.Config{Inbox: conn.Inbox()})
	if err != nil {
		t.Fatalf("Import(%s): %v", file, err)
	}
	return res.Files[0]
}

// A session that was published, and that no persister has come to, is not taken for one that nobody has.
func TestBesideBehind(t *testing.T) {
	conn, here := natstest.Conn(t), t.TempDir()
	const main, output, pipe = besideFolder + ".jsonl", besideFolder + "/tool-results/1.txt", besideFolder + "/tool-results/pipe"
	write(t, filepath.Join(here, main), []byte(claudeLine(1, "")))
	write(t, filepath.Join(here, output), []byte("out"))
	must.Do(t, syscall.Mkfifo(filepath.Join(here, pipe), 0o600))
	must.Do(t, importFile(t, conn, here, main).Err)
	must.Is(t, importFile(t, conn, here, output).Err, client.ErrBehind, "a file of a session that is published")
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)).Run)
	if f := importFile(t, conn, here, output); f.Err != nil || f.Artifacts != 1 {
		t.Errorf("behind the persister: %+v, want an artifact", f)
	}
	if f := importFile(t, conn, here, pipe); f.Err == nil {
		t.Error("a pipe is imported")
	}
}

// What a restore leaves beside a file that is there, or left when it was killed, is nobody's output.
func TestBesideOfARestore(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	write(t, filepath.Join(here, besideFolder+".jsonl"), []byte(claudeLine(1, "")))
	write(t, filepath.Join(here, besideFolder, "tool-results", "1.txt"), []byte("out"))
	write(t, filepath.Join(here, "file-history", claudeID, "1@v1"), []byte("old"))
	load(t, r.conn, here)
	write(t, filepath.Join(r.Path, besideFolder, "tool-results", "1.txt"), []byte("of this machine"))
	write(t, filepath.Join(r.Path, "file-history", claudeID, "1@v1"), []byte("of this machine"))
	part := filepath.Join(r.Path, besideFolder, "tool-results", "1.ABCDEFGH.txt.ABCDEFGH.part")
	write(t, part, []byte("ou"))
	r.Force = true
	must.Get(r.write(claudeID))(t)
	sources := must.Get(transcript.Find(disk{}, r.Path))(t)
	if len(sources) != 3 {
		t.Errorf("%d files would be imported, want 3: %v", len(sources), sources)
	}
	long := time.Now().Add(-2 * time.Hour)
	must.Do(t, os.Chtimes(part, long, long))
	must.Get(r.write(claudeID))(t)
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a restore that was killed had staged is still there: %v", err)
	}
}

// A place that was a file once, and a folder later, costs one of them: the session's file is there, and what is not is named.
func TestBesideInAFile(t *testing.T) {
	r, here := newRig(t), t.TempDir()
	main := filepath.Join(here, besideFolder+".jsonl")
	write(t, main, []byte(claudeLine(1, "")))
	load(t, r.conn, here)
	arts := artifactstore.Of(r.conn, 0)
	for i, place := range []string{"tool-results/a", "tool-results/a/b", "tool-results/c"} {
		rec := artifacts.Record{
			ID: artifacts.NewID(time.UnixMilli(1), [10]byte{byte(i)}), Session: claudeID, Filename: filepath.Base(place), Created: 1,
			Category: artifacts.Normal, Writer: artifacts.FromPayload, Size: artifacts.UnknownSize, Modified: int64(i + 1), Place: "claude:" + place,
		}
		_, _, err := arts.Adopt(t.Context(), rec, strings.NewReader(place))
		must.Do(t, err)
	}
	done, err := r.write(claudeID)
	if err != nil {
		t.Fatalf("Session: %v", err)
	}
	must.Same(t, string(must.Get(os.ReadFile(filepath.Join(r.Path, besideFolder+".jsonl")))(t)), claudeLine(1, ""), "the file is %q, want %q")
	must.Same(t, string(must.Get(os.ReadFile(filepath.Join(r.Path, besideFolder, "tool-results/c")))(t)), "tool-results/c", "c is %q, want %q")
	if len(done.Lost) != 1 || !slices.ContainsFunc(done.Lost, func(s string) bool { return strings.Contains(s, "tool-results/a") }) {
		t.Errorf("not restored: %q, want one of the two", done.Lost)
	}
}

package transcript_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

const ompBegin = `{"type":"session","version":3,"id":"s","cwd":"/w"}` + "\n"

func ompEntry(id string) string { return `{"type":"custom","id":"` + id + `","parentId":null}` + "\n" }

// say publishes lines to a thread as a program does.
func say(t *testing.T, s *store, thread events.Thread, text string) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		must.Do(t, s.PublishEvents(t.Context(), []*events.Event{{Kind: events.KindEntry, Dialect: "omp", Thread: thread, Seq: uint64(i + 1),
			Epoch: 1, Producer: "program", Body: []byte(line)}}))
	}
}

// What an export wrote of any thread of a session adds nothing to it, nor does a beginning of that; one line that no thread has is another
// generation.
func TestExportOfAnotherThread(t *testing.T) {
	main, fork := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "fk"}
	s, dir := newStore(), t.TempDir()
	growTo(t, s, filepath.Join(dir, "s.jsonl"), ompBegin+ompEntry("a")+ompEntry("b"))
	say(t, s, fork, ompBegin+ompEntry("a")+ompEntry("x")+ompEntry("y"))
	n := s.events()
	for text, want := range map[string]string{
		string(s.export(t, fork)):                "nothing was added: s/fk has all of it",
		ompBegin + ompEntry("a") + ompEntry("x"): "nothing was added: s/fk has all of it, and more",
		ompBegin + ompEntry("a"):                 "nothing was added: s/main has all of it, and more",
		ompBegin + ompEntry("a") + `{"type":"cu`: "nothing was added: s/main has all of it, and more",
	} {
		res := growTo(t, s, filepath.Join(dir, "any.jsonl"), text)
		if got := strings.Join(res.Files[0].Warnings, "; "); got != want || s.events() != n {
			t.Errorf("import of %q: %q and %d new events, want %q and none", text, got, s.events()-n, want)
		}
		if f := res.Files[0]; f.Thread == "fk" && (f.Bytes != int64(len(text)) || f.Lines != strings.Count(text, "\n") || f.Skipped != f.Lines) {
			t.Errorf("import of %q: %d bytes, %d lines, %d of them there before", text, f.Bytes, f.Lines, f.Skipped)
		}
	}
	now := string(s.export(t, fork)) + ompEntry("z")
	if res := growTo(t, s, filepath.Join(dir, "any.jsonl"), now); !warned(res, "it was rewritten from byte") {
		t.Errorf("a file with a line more: %q", res.Files[0].Warnings)
	}
	same(t, s.export(t, main), now)
}

// A thread of a session that no import began has its export as well: nothing comes beside it.
func TestExportOfAThreadOfAnAgent(t *testing.T) {
	s := newStore()
	say(t, s, events.Thread{Session: "s", Name: "main"}, ompBegin+ompEntry("a"))
	say(t, s, events.Thread{Session: "s", Name: "fk"}, ompBegin+ompEntry("x"))
	path := filepath.Join(t.TempDir(), "any.jsonl")
	if res := growTo(t, s, path, ompBegin+ompEntry("x")); len(s.threads) != 2 || warned(res, "beside") || !warned(res, "s/fk has all of it") {
		t.Errorf("%d threads, %q, want 2", len(s.threads), res.Files[0].Warnings)
	}
	if res := growTo(t, s, path, ompBegin+ompEntry("z")); len(s.threads) != 3 || !warned(res, "beside") {
		t.Errorf("a file that no thread has: %d threads, %q, want 3", len(s.threads), res.Files[0].Warnings)
	}
}

// A directory with an export of every thread of a session that was rewritten makes the session what it was, here and elsewhere,
// whatever the files' times.
func TestExportsOfGenerations(t *testing.T) {
	main := events.Thread{Session: "s", Name: "main"}
	first, now := ompBegin+ompEntry("a"), ompBegin+ompEntry("b")
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	growTo(t, s, path, first)
	growTo(t, s, path, now)
	all := t.TempDir()
	for id := range s.threads {
		out := write(t, filepath.Join(all, id.Name+".jsonl"), string(s.export(t, id)))
		if id != main {
			must.Do(t, os.Chtimes(out, time.Now(), time.Now().Add(time.Hour)))
		}
	}
	n := s.events()
	run(t, s, transcript.Config{}, all)
	if same(t, s.export(t, main), now); s.events() != n || len(s.threads) != 2 {
		t.Errorf("where they came from: %d events and %d threads more", s.events()-n, len(s.threads)-2)
	}
	elsewhere := newStore()
	run(t, elsewhere, transcript.Config{}, all)
	same(t, elsewhere.export(t, main), now)
	ahead := newStore() // it knows the session as it is now, not what it was
	growTo(t, ahead, path, now)
	for range 2 {
		run(t, ahead, transcript.Config{}, all)
		same(t, ahead.export(t, main), now)
	}
	must.Same(t, len(ahead.threads), 3, "%d threads, want %d: main, what it was, and what it is")
}

// What an export of the session writes of a thread is not another generation of it.
func TestSessionExport(t *testing.T) {
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	growTo(t, s, path, ompBegin+ompEntry("a"))
	exported, failure := strings.Replace(ompBegin, "3", "4", 1)+ompEntry("aa")+ompEntry("bb"), error(nil)
	cfg := transcript.Config{SessionExport: func(_ context.Context, _ events.Thread, w io.Writer) error {
		_, err := io.WriteString(w, exported)
		return errors.Join(err, failure)
	}}
	n := s.events()
	write(t, path, exported[:len(exported)-len(ompEntry("bb"))])
	if res := run(t, s, cfg, path); s.events() != n || !warned(res, "s/main has all of it, and more") {
		t.Errorf("its beginning adds %d events, %q", s.events()-n, res.Files[0].Warnings)
	}
	write(t, path, exported)
	if res := run(t, s, cfg, path); s.events() != n || !warned(res, "s/main has all of it") {
		t.Errorf("all of it adds %d events, %q", s.events()-n, res.Files[0].Warnings)
	}
	failure = errors.New("no answer")
	write(t, path, exported+ompEntry("c"))
	sources := must.Get(transcript.Find(disk{}, path))(t)
	if res := transcript.New(s, s, cfg).Import(t.Context(), sources); !errors.Is(res.Files[0].Err, failure) || s.events() != n {
		t.Errorf("while it cannot be told: %v, %d events more; want the error and none", res.Files[0].Err, s.events()-n)
	}
	failure = casstore.ErrNotFound
	if res := run(t, s, cfg, path); !warned(res, "it was rewritten") {
		t.Errorf("where the export cannot be read: %q", res.Files[0].Warnings)
	}
}

// Of the threads beside one those are read alone that have as many entries as the file.
func TestShorterThreadsAreNotRead(t *testing.T) {
	short, long := events.Thread{Session: "s", Name: "short"}, events.Thread{Session: "s", Name: "long"}
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	growTo(t, s, path, ompBegin+ompEntry("a")+ompEntry("b"))
	say(t, s, short, ompBegin+ompEntry("a"))
	say(t, s, long, ompBegin+ompEntry("a")+ompEntry("x"))
	growTo(t, s, path, ompBegin+ompEntry("a")+ompEntry("c"))
	if s.exports[short] != 0 || s.exports[long] == 0 {
		t.Errorf("the shorter thread was read %d times and the other one %d, want 0 and some", s.exports[short], s.exports[long])
	}
}

package transcript_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/transcript"
	"spool/pkg/events"
)

var mainThread = events.Thread{Session: sessionID, Name: "main"}

func write(t testing.TB, name string, content string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(content), 0o644))
	return name
}

// run imports paths and fails the test for a file that failed.
func run(t testing.TB, s *store, cfg transcript.Config, paths ...string) transcript.Result {
	t.Helper()
	sources := must.Get(transcript.Find(disk{}, paths...))(t)
	res := transcript.New(s, s, cfg).Import(t.Context(), sources)
	for _, f := range res.Files {
		if f.Err != nil {
			t.Fatalf("import %s: %v", f.File, f.Err)
		}
	}
	return res
}

func same(t testing.TB, got []byte, want string) {
	t.Helper()
	if string(got) != want {
		t.Fatalf("export has %d bytes, want %d; got end %q, want end %q", len(got), len(want), end(string(got)), end(want))
	}
}

func end(s string) string { return s[max(0, len(s)-80):] }

func TestEveryShapeComesBackAndIsStoredOnce(t *testing.T) {
	for name, content := range shapes {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), content)
			first := run(t, s, transcript.Config{}, path)
			same(t, s.export(t, mainThread), content)
			if first.Published != first.Lines || first.Bytes != int64(len(content)) {
				t.Errorf("first import = %+v, want every line published and %d bytes", first, len(content))
			}
			n := s.events()
			again := run(t, s, transcript.Config{}, path)
			if s.events() != n || again.Published != 0 || again.Skipped != first.Lines {
				t.Errorf("second import published %d and skipped %d of %d lines, and the store went from %d to %d events; want 0, all, no change",
					again.Published, again.Skipped, first.Lines, n, s.events())
			}
			if len(again.Files[0].Warnings) > 0 {
				t.Errorf("second import warns %q, want nothing", again.Files[0].Warnings)
			}
		})
	}
}

// A file that is imported at every length on its way to the end is in its thread as if it had been imported once.
func TestGrownFile(t *testing.T) {
	for name, content := range shapes {
		if len(content) > 10_000 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newStore()
			path := filepath.Join(t.TempDir(), "a.jsonl")
			step, rewritten := max(1, len(content)/97), false
			for n := strings.Index(content, "\n") + 1; n < len(content); n += step {
				res := growTo(t, s, path, content[:n])
				rewritten = rewritten || warned(res, "it was rewritten") // a line was JSON before it was complete
				if res.Failed == 0 && s.threads[mainThread] != nil {
					same(t, s.export(t, mainThread), content[:n])
				}
			}
			res := growTo(t, s, path, content)
			same(t, s.export(t, mainThread), content)
			if !rewritten && len(s.threads) != 1 {
				t.Errorf("%d threads, want 1 (%q)", len(s.threads), res.Files[0].Warnings)
			}
		})
	}
}

func growTo(t testing.TB, s *store, path, content string) transcript.Result {
	t.Helper()
	write(t, path, content)
	sources := must.Get(transcript.Find(disk{}, path))(t)
	return transcript.New(s, s, transcript.Config{}).Import(t.Context(), sources)
}

func warned(res transcript.Result, text string) bool {
	for _, f := range res.Files {
		for _, w := range f.Warnings {
			if strings.Contains(w, text) {
				return true
			}
		}
	}
	return false
}

func TestOpenLineThatGrows(t *testing.T) {
	s := newStore()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	open := userLines(2) + userLine(3, 4)
	growTo(t, s, path, open)
	same(t, s.export(t, mainThread), open)
	growTo(t, s, path, open+"\n")
	same(t, s.export(t, mainThread), open+"\n")

	more := open + "\r\n" + userLine(4, 4) + "\n"
	if res := growTo(t, s, path, more); !warned(res, "it was rewritten from byte") {
		t.Errorf("warnings = %q, want one about the carriage return", res.Files[0].Warnings)
	}
	same(t, s.export(t, mainThread), more)
}

func newStoreWith(t testing.TB, content string) *store {
	s := newStore()
	growTo(t, s, filepath.Join(t.TempDir(), "a.jsonl"), content)
	return s
}

func TestShrunkFile(t *testing.T) {
	content := userLines(10)
	for _, left := range []int{len(content) / 2, strings.Index(content, "\n") + 1, len(content) - 5} {
		s := newStoreWith(t, content)
		n := s.events()
		res := growTo(t, s, filepath.Join(t.TempDir(), "b.jsonl"), content[:left])
		if !warned(res, "has all of it") || s.events() != n || len(s.threads) != 1 {
			t.Errorf("%d of %d bytes left: warnings %q, %d events, want a warning and %d", left, len(content), res.Files[0].Warnings, s.events(), n)
		}
		same(t, s.export(t, mainThread), content)
	}
}

func TestCopyAddsNothing(t *testing.T) {
	content := userLines(1200) + `{"torn`
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.jsonl"), content)
	write(t, filepath.Join(dir, "z", "copy.jsonl"), content)
	write(t, filepath.Join(dir, "b", "shorter.jsonl"), content[:40_000])
	var z bytes.Buffer
	enc, _ := zstd.NewWriter(&z)
	_, _ = enc.Write([]byte(content))
	_ = enc.Close()
	write(t, filepath.Join(dir, "a.jsonl.zst"), z.String())
	z.Reset()
	gz := gzip.NewWriter(&z)
	_, _ = gz.Write([]byte(content))
	_ = gz.Close()
	write(t, filepath.Join(dir, "a.jsonl.gz"), z.String())

	s := newStore()
	res := run(t, s, transcript.Config{}, dir)
	if res.Published != 1200 || len(s.threads) != 1 || s.events() != 1201 {
		t.Errorf("published %d, %d threads, %d events, want 1200, 1, 1201", res.Published, len(s.threads), s.events())
	}
	same(t, s.export(t, mainThread), content)
	if again := run(t, s, transcript.Config{}, dir); again.Published != 0 || s.events() != 1201 {
		t.Errorf("second import published %d, want 0", again.Published)
	}
}

// Files of one session that differ are all kept: the one that was written last is the session, the others are former
// generations of it, and each result says where its file is. What is behind the last complete line is the newest one's.
func TestFilesThatPart(t *testing.T) {
	dir, written := t.TempDir(), time.Now().Add(-time.Minute)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if !strings.Contains(name, "torn") {
			path := filepath.Join(dir, name+".jsonl")
			write(t, path, shapes[name])
			written = written.Add(time.Second)
			must.Do(t, os.Chtimes(path, written, written))
		}
	}
	s := newStore()
	check := func(res transcript.Result) {
		t.Helper()
		for _, f := range res.Files {
			content := bytes.TrimRight(must.Get(os.ReadFile(f.File))(t), " ")
			if got := s.export(t, f.ID()); !bytes.HasPrefix(got, content) {
				t.Errorf("%s in %s: %d bytes, want %d", f.File, f.ID(), len(got), len(content))
			}
		}
	}
	first := run(t, s, transcript.Config{}, dir)
	check(first)
	n, ts := s.events(), len(s.threads)
	if ts < len(first.Files)-3 {
		t.Errorf("%d threads of %d files, want nearly as many", ts, len(shapes))
	}
	again := run(t, s, transcript.Config{}, dir)
	check(again)
	for _, f := range first.Files { // each alone is found again
		if one := run(t, s, transcript.Config{}, f.File); one.Published != 0 {
			t.Errorf("%s alone: published %d into %s, want 0", f.File, one.Published, one.Files[0].ID())
		}
	}
	if s.events() != n || len(s.threads) != ts {
		t.Errorf("importing them again: %d events, %d threads, want %d, %d", s.events(), len(s.threads), n, ts)
	}
}

// What users and tools wrote into a session before its first import is the beginning of its thread, as it is in the middle
// when they write later; a thread that an agent fills, or that has ended, is another's, and the import says where the file
// is (SPEC P6).
func TestThreadThatWasBegunByOthers(t *testing.T) {
	says := func(dialect, body string) *events.Event {
		return &events.Event{Kind: events.KindEntry, Producer: "~live", Seq: 1, Dialect: dialect, Thread: mainThread, Body: []byte(body)}
	}
	note := `{"content":[{"type":"text","text":"a note"}]}`
	for name, c := range map[string]struct {
		first  *events.Event
		second string // dialect of another entry behind it
		main   bool
		says   string
	}{
		"a note":             {says("item", note), "", true, "begins with what commands or notes wrote before"},
		"an agent":           {says("claude", "{}"), "", false, "was there before"},
		"an agent, a note":   {says("claude", "{}"), "item", false, "was there before"},
		"a note, an agent":   {says("item", note), "claude", false, "was there before"},
		"notes":              {says("item", note), "item", true, "begins with"},
		"another workflow's": {says("step", `{"role":"planner","content":"x"}`), "", false, "was there before"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			before := []*events.Event{c.first}
			if c.second != "" {
				e := says(c.second, note)
				e.Seq = 2
				before = append(before, e)
			}
			must.Do(t, s.PublishEvents(t.Context(), before))
			path, content := filepath.Join(t.TempDir(), "a.jsonl"), userLines(2)
			res := run(t, s, transcript.Config{}, write(t, path, content))
			f := res.Files[0]
			if (f.ID() == mainThread) != c.main || f.Published != 2 || !warned(res, c.says) || !warned(res, f.Thread) {
				t.Fatalf("published %d into %s with %q, want 2 into main: %v, and %q", f.Published, f.ID(), f.Warnings, c.main, c.says)
			}
			n := len(s.threads[f.ID()].order)
			content += userLine(7, 0) + "\n"
			res = run(t, s, transcript.Config{}, write(t, path, content))
			if g := res.Files[0]; g.ID() != f.ID() || g.Published != 1 || len(s.threads[f.ID()].order) != n+1 {
				t.Errorf("the grown file: published %d into %s, want 1 into %s", g.Published, g.ID(), f.ID())
			}
			if !bytes.HasSuffix(s.export(t, f.ID()), []byte(content)) {
				t.Errorf("export = %q, want the file at its end", s.export(t, f.ID()))
			}
		})
	}
}

// A source that has a thread beside main since an earlier version goes on there.
func TestThreadBesideStays(t *testing.T) {
	s, path := newStore(), filepath.Join(t.TempDir(), "a.jsonl")
	agent := &events.Event{Kind: events.KindEntry, Producer: "~a", Seq: 1, Dialect: "claude", Thread: mainThread, Body: []byte("{}")}
	must.Do(t, s.PublishEvents(t.Context(), []*events.Event{agent}))
	first := run(t, s, transcript.Config{}, write(t, path, userLines(2))).Files[0]
	for _, e := range s.threads[mainThread].entries {
		e.Dialect = "item"
	}
	if now := run(t, s, transcript.Config{}, write(t, path, userLines(3))).Files[0]; now.ID() != first.ID() || now.Published != 1 {
		t.Errorf("published %d into %s, want 1 into %s", now.Published, now.ID(), first.ID())
	}
}

func TestImportGoesOnAfterAFailure(t *testing.T) {
	content := userLines(2500)
	path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), content)
	s := newStore()
	batches := 0
	s.fail = func([]*events.Event) error {
		if batches++; batches == 2 {
			return record.ErrBusy // retried
		}
		if batches >= 4 {
			return record.ErrRefused
		}
		return nil
	}
	sources, _ := transcript.Find(disk{}, path)
	res := transcript.New(s, s, transcript.Config{}).Import(t.Context(), sources)
	f := res.Files[0]
	if !errors.Is(f.Err, record.ErrRefused) || !strings.Contains(f.Error, "import it again to go on") || res.Failed != 1 {
		t.Fatalf("import = %v, want ErrRefused and what to do", f.Err)
	}
	s.fail = nil
	res = run(t, s, transcript.Config{}, path)
	if res.Published+f.Published != 2500 || res.Skipped != f.Published {
		t.Errorf("published %d and then %d, want 2500 together", f.Published, res.Published)
	}
	same(t, s.export(t, mainThread), content)
}

func TestBatchesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 30 {
		b.WriteString(userLine(i, 400_000) + "\n")
	}
	b.WriteString(userLine(31, 6<<20) + "\n" + userLines(2100))
	s := newStore()
	var last transcript.Progress
	res := run(t, s, transcript.Config{Progress: func(p transcript.Progress) { last = p }},
		write(t, filepath.Join(t.TempDir(), "a.jsonl"), b.String()))
	for _, batch := range s.batches {
		size := 0
		for _, e := range batch {
			size += len(e.Body)
		}
		if len(batch) > 1000 || size > 4<<20 && len(batch) > 1 {
			t.Errorf("a batch of %d lines and %d bytes, want at most 1000 and 4 MiB, or one line", len(batch), size)
		}
	}
	same(t, s.export(t, mainThread), b.String())
	if want := (transcript.Progress{Bytes: int64(b.Len()), Total: int64(b.Len()), Lines: int64(res.Lines)}); last != want {
		t.Errorf("progress ends at %+v, want %+v", last, want)
	}
}

// A file that was rewritten is the thread of its name; what it said before is in a former one (SPEC P6).
func TestRewrittenSession(t *testing.T) {
	lines := func(format string) func(n int, text string) string {
		return func(n int, text string) string { return fmt.Sprintf(format, n, text) + "\n" }
	}
	for harness, h := range map[string]struct {
		head, line func(n int, text string) string
	}{
		"omp": {lines(`{"type":"session","version":%d,"id":"s","cwd":"/w","title":"%s"}`),
			lines(`{"type":"message","id":"%d","parentId":null,"message":{"role":"user","content":"%s"}}`)},
		"claude": {lines(`{"type":"summary","leafUuid":"%d","sessionId":"s","summary":"%s"}`),
			lines(`{"type":"user","uuid":"%d","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"%s"}}`)},
		"codex": {lines(`{"timestamp":"","type":"session_meta","payload":{"v":%d,"id":"s","cwd":"%s"}}`),
			lines(`{"timestamp":"","type":"event_msg","payload":{"type":"user_message","n":%d,"message":"%s"}}`)},
	} {
		first := h.head(3, "A") + h.line(1, "one") + h.line(2, "two")
		for name, now := range map[string]string{
			"header":                 h.head(3, "Another") + h.line(1, "one") + h.line(2, "two"),
			"line before the header": `{"type":"title","title":"T","pad":" "}` + "\n" + first,
			"same size":              h.head(3, "A") + h.line(1, "ONE") + h.line(2, "two"),
			"last line":              h.head(3, "A") + h.line(1, "one") + h.line(2, "TWO"),
			"lines removed":          h.head(3, "A") + h.line(2, "two"),
			"shorter":                h.head(3, "B") + h.line(1, "one"),
			"shorter and grown":      h.head(3, "A") + h.line(1, "one") + h.line(7, "three") + h.line(8, "four"),
		} {
			t.Run(harness+"/"+name, func(t *testing.T) { rewritten(t, first, now, h.line(9, "more")) })
		}
	}
}

func rewritten(t *testing.T, first, now, more string) {
	thread := events.Thread{Session: "s", Name: "main"}
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	growTo(t, s, path, first)
	res := growTo(t, s, path, now)
	if res.Files[0].ID() != thread || !warned(res, "it was rewritten from byte") || len(s.threads) != 2 {
		t.Fatalf("imported into %s of %d threads with %q", res.Files[0].ID(), len(s.threads), res.Files[0].Warnings)
	}
	same(t, s.export(t, thread), now)
	former := must.Get(s.Former(t.Context(), thread))(t)
	same(t, s.export(t, former[0]), first)
	n := s.events()
	growTo(t, s, path, now)
	old := write(t, filepath.Join(t.TempDir(), "old.jsonl"), first)
	must.Do(t, os.Chtimes(old, time.Now(), time.Now().Add(-time.Hour)))
	if res = run(t, s, transcript.Config{}, old); s.events() != n || len(s.threads) != 2 {
		t.Errorf("the file and an old copy of it add %d events (%q)", s.events()-n, res.Files[0].Warnings)
	}
	growTo(t, s, path, now+more)
	same(t, s.export(t, thread), now+more)
	must.Same(t, len(s.threads), 2, "%d threads after it has grown, want %d")
	must.Do(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	write(t, path, first) // and back
	must.Do(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	run(t, s, transcript.Config{}, path)
	same(t, s.export(t, thread), first)
}

// Of files of one session that part, the one that was written last is the session; importing them again adds nothing.
func TestCopiesOfASession(t *testing.T) {
	head := `{"type":"session","version":3,"id":"s","cwd":"/w"}` + "\n"
	dir, s := t.TempDir(), newStore()
	now := time.Now()
	files := []string{head + `{"type":"custom","id":"a","parentId":null}` + "\n" + `{"type":"custom","id":"b","parentId":"a"}` + "\n",
		head + `{"type":"custom","id":"c","parentId":null}` + "\n"}
	for i, text := range files {
		path := write(t, filepath.Join(dir, []string{"z", "a"}[i]+".jsonl"), text)
		must.Do(t, os.Chtimes(path, now, now.Add(time.Duration(i-5)*time.Hour)))
	}
	run(t, s, transcript.Config{}, dir)
	same(t, s.export(t, events.Thread{Session: "s", Name: "main"}), files[1])
	n := s.events()
	if run(t, s, transcript.Config{}, dir); s.events() != n || len(s.threads) != 2 {
		t.Errorf("importing them again adds %d events, and there are %d threads", s.events()-n, len(s.threads))
	}
}

// An import that adds nothing to a thread says that it has more where it has.
func TestNothingWasAdded(t *testing.T) {
	line := func(i, n int) string { return userLine(i, n) + "\n" }
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	growTo(t, s, path, line(1, 5)+line(2, 5)+line(3, 5))
	if res := growTo(t, s, path, line(1, 5)+line(2, 5)); !warned(res, "nothing was added: ") || !warned(res, " has all of it, and more") {
		t.Errorf("a shorter file: %q, want that the thread has more", res.Files[0].Warnings)
	}
	if res := growTo(t, s, path, line(1, 5)+line(2, 5)+strings.TrimSuffix(line(3, 5), "\n")+"\n"); warned(res, "more") {
		t.Errorf("the whole file: %q", res.Files[0].Warnings)
	}
	// As an export differs that has a header of its own: the same lines, which Restore takes for those that were, at other places.
	longer := transcript.Source{Path: path, Restore: func(n int,
		body []byte) []byte {
		return bytes.Replace(body, []byte("xxxxxxxxx"), []byte("xxxxx"), 1)
	}}
	write(t, path, line(1, 9)+line(2, 5)+line(3, 5))
	longer.FS = disk{}
	res := transcript.New(s, s, transcript.Config{}).Import(t.Context(), []transcript.Source{longer})
	if !warned(res, "nothing was added: ") || warned(res, "more") || res.Published != 0 {
		t.Errorf("the same lines at other places: published %d, %q", res.Published, res.Files[0].Warnings)
	}
}

// A thread that was imported under the hash of its file's first line is its source's still.
func TestSourceOfAnEarlierVersion(t *testing.T) {
	head := `{"type":"session","version":3,"id":"s","cwd":"/w"}` + "\n"
	thread := events.Thread{Session: "s", Name: "main"}
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	must.Do(t, s.PublishEvents(t.Context(), []*events.Event{{Kind: events.KindEntry, Dialect: "omp", Thread: thread, Seq: 1, Epoch: 1,
		Producer: "import:omp:0011223344556677", Body: []byte(head[:len(head)-1])}}))
	more := head + `{"type":"custom","id":"c","parentId":null}` + "\n"
	res := growTo(t, s, path, more)
	same(t, s.export(t, thread), more)
	if res.Published != 1 || len(s.threads) != 1 {
		t.Errorf("%d lines are new in %d threads, want 1 in 1", res.Published, len(s.threads))
	}
}

// A file whose secrets were masked on the way in is what it was: it is not taken for a rewritten one
// (docs/secrets.md).
func TestMaskedSession(t *testing.T) {
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	line := func(id, text string) string {
		return `{"type":"custom","id":"` + id + `","parentId":null,"data":"` + text + `"}` + "\n"
	}
	thread := events.Thread{Session: "s", Name: "main"}
	head := `{"type":"session","version":3,"id":"s","cwd":"/w"}` + "\n"
	s, path := newStore(), filepath.Join(t.TempDir(), "s.jsonl")
	first := head + line("a", "key "+secret+" and "+secret+".") + line("b", secret)
	growTo(t, s, path, first)
	for _, e := range s.threads[thread].entries {
		e.Body = []byte(strings.ReplaceAll(string(e.Body), secret, "[redacted:github-pat]"))
	}
	for _, more := range []string{"", line("c", "more"), line("c", "more")} {
		n := s.events()
		if res := growTo(t, s, path, first+more); len(s.threads) != 1 || warned(res, "it was rewritten") {
			t.Fatalf("%d threads, %d events more, with %q", len(s.threads), s.events()-n, res.Files[0].Warnings)
		}
	}
	must.Same(t, s.events(), 4, "%d events, want %d")
	growTo(t, s, path, head+line("a", "a key "+secret+" and "+secret+".")+line("b", secret))
	must.Same(t, len(s.threads), 2, "%d threads after a line changed beside its secrets, want %d")
}

// An old copy of a file adds nothing and takes nothing away, also where somebody else has written to the thread in between;
// a file that says something else is another generation there, too.
func TestOldCopyOfASharedThread(t *testing.T) {
	head := `{"type":"session","version":3,"id":"s","cwd":"/w"}` + "\n"
	line := func(id string) string { return `{"type":"custom","id":"` + id + `","parentId":null}` + "\n" }
	thread := events.Thread{Session: "s", Name: "main"}
	s, dir := newStore(), t.TempDir()
	path := filepath.Join(dir, "s.jsonl")
	growTo(t, s, path, head+line("a"))
	must.Do(t, s.PublishEvents(t.Context(), []*events.Event{{Kind: events.KindEntry, Dialect: "omp", Thread: thread, Seq: 1,
		Producer: "~label", Body: []byte(`{"type":"label","id":"l","parentId":"a","targetId":"a","label":"L"}`)}}))
	growTo(t, s, path, head+line("a")+line("b")+line("c"))
	must.Same(t, len(s.threads), 1, "%d threads, want %d")
	has := s.events()
	old := write(t, filepath.Join(dir, "old.jsonl"), head+line("a")+line("b"))
	if res := run(t, s, transcript.Config{}, old); len(s.threads) != 1 || s.events() != has || !warned(res, "nothing was added") {
		t.Errorf("an old copy: %d threads, %d events, %q, want 1, %d", len(s.threads), s.events(), res.Files[0].Warnings, has)
	}
	now := head + line("a") + line("x")
	if growTo(t, s, path, now); len(s.threads) != 2 {
		t.Errorf("a file that says something else: %d threads, want 2", len(s.threads))
	}
	same(t, s.export(t, thread), now)
}

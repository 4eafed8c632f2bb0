package transcript_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Two files that parted from one session and both go on settle: each has a thread, to which its new lines alone are added.
func TestTwoFilesThatGoOn(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	text := map[string]string{}
	told := 0
	grow := func(name string, n int) {
		text[name] += userLine(n, len(name)*10) + "\n"
		path := write(t, filepath.Join(dir, name, "s.jsonl"), text[name])
		at := time.Now().Add(time.Second) // a copy tool, or another clock, dates it
		must.Do(t, os.Chtimes(path, at, at))
		for _, f := range run(t, s, transcript.Config{}, dir).Files {
			told += strings.Count(strings.Join(f.Warnings, "\n"), "it parted from")
		}
	}
	for n := range 3 {
		text["a"] += userLine(n, 20) + "\n"
	}
	text["bb"] = text["a"]
	grow("a", 100)
	grow("bb", 200)
	grow("a", 101)
	grow("bb", 201)
	had, there := s.events(), len(s.threads)
	for n := range 10 {
		grow([]string{"a", "bb"}[n%2], 300+n)
	}
	must.Same(t, s.events()-had, 10, "%d events of 10 new lines, want %d")
	must.Same(t, len(s.threads), there, "%d threads, want %d as before they grew")
	must.Same(t, told, 1, "told %d times, want %d")
	if there > 3 {
		t.Errorf("%d threads of two files, want 3 at most", there)
	}
	run(t, s, transcript.Config{}, dir)
	must.Same(t, s.events()-had, 10, "%d events when nothing changed, want %d")
	var kept []string
	for id := range s.threads {
		kept = append(kept, string(s.export(t, id)))
	}
	for name, want := range text {
		n := 0
		for _, got := range kept {
			if got == want {
				n++
			}
		}
		must.Same(t, n, 1, "%d threads have all of %s, want %d", name)
	}
}

// The same of two homes, each of which sees its own file alone: with their names known, forgotten by one at every turn, by both, or the
// same in both.
func TestTwoHomesThatGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		by      func(home string, n int) string
		threads int
	}{
		"known":              {func(home string, _ int) string { return home }, 2},
		"one forgets":        {func(home string, n int) string { return home + strings.Repeat("+", n*(len(home)-3)) }, 2},
		"both forget":        {func(home string, n int) string { return home + strings.Repeat("+", n) }, 2},
		"images of one disk": {func(string, int) string { return "same" }, 7},
		"nobody knows":       {func(string, int) string { return "" }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newStore(), t.TempDir()
			text := map[string]string{"one": userLine(0, 20) + "\n", "three": userLine(0, 20) + "\n"}
			for n := range 20 {
				home := []string{"one", "three"}[n%2]
				text[home] += userLine(10+n, 20) + "\n"
				path := write(t, filepath.Join(dir, home, "s.jsonl"), text[home])
				at := time.Now().Add(time.Second)
				must.Do(t, os.Chtimes(path, at, at))
				run(t, s, transcript.Config{Host: "box", By: c.by(home, n)}, path)
			}
			must.Same(t, len(s.threads), c.threads, "%d threads, want %d")
			for home, want := range text {
				found := false
				for id := range s.threads {
					found = found || string(s.export(t, id)) == want
				}
				if !found {
					t.Errorf("no thread has what %s wrote", home)
				}
			}
		})
	}
}

// What was read of a file is said with the last line that is new, however much there is, and with what stands behind that.
func TestCaptured(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	text, thread := "", events.Thread{}
	for _, more := range []string{userLines(3), userLines(2500)[len(userLines(3)):], `{"torn":`, "1}\n"} {
		text += more
		path := write(t, filepath.Join(dir, "s.jsonl"), text)
		at := time.Unix(1_700_000_000, int64(len(text)))
		must.Do(t, os.Chtimes(path, at, at))
		thread = run(t, s, transcript.Config{Host: "box", By: "4f", Home: "/root"}, path).Files[0].ID()
		want := threads.Captured{By: "4f", Host: "box", Home: "/root",
			Size: int64(len(text)), Modified: at.UnixNano(), Sum: sha256.Sum256([]byte(text))}
		must.Same(t, s.threads[thread].head.Captured, want, "behind %d bytes: %v, want %v", len(text))
	}
	for _, batch := range s.batches {
		for i, e := range batch {
			if e.Kind == events.KindEntry && (e.Captured != nil) != (i == len(batch)-1) {
				t.Fatalf("event %d of %d: captured = %v, want it of the last alone", i, len(batch), e.Captured)
			}
		}
	}
	must.Same(t, s.batches[1][len(s.batches[1])-1].Captured.Size, 0, "before the last batch: %d bytes, want %d: it is not known yet")
}

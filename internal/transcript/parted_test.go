package transcript_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/events"
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
	had, threads := s.events(), len(s.threads)
	for n := range 10 {
		grow([]string{"a", "bb"}[n%2], 300+n)
	}
	must.Same(t, s.events()-had, 10, "%d events of 10 new lines, want %d")
	must.Same(t, len(s.threads), threads, "%d threads, want %d as before they grew")
	must.Same(t, told, 1, "told %d times, want %d")
	if threads > 3 {
		t.Errorf("%d threads of two files, want 3 at most", threads)
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

// The same of two machines, each of which sees its own file alone.
func TestTwoMachinesThatGoOn(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	wrote := ""
	text := map[string]string{}
	grow := func(host string, n int) transcript.FileResult {
		text[host] += userLine(n, 20) + "\n"
		path := write(t, filepath.Join(dir, host, "s.jsonl"), text[host])
		at := time.Now().Add(time.Second)
		must.Do(t, os.Chtimes(path, at, at))
		res := run(t, s, transcript.Config{Host: host,
			Writer: func(context.Context, string) (string, error) { return wrote, nil }}, path).Files[0]
		if res.Thread == events.MainThread {
			wrote = host
		}
		return res
	}
	text["one"] = userLine(0, 20) + "\n"
	text["two"] = text["one"]
	for n := range 10 {
		grow([]string{"one", "two"}[n%2], 10+n)
	}
	must.Same(t, len(s.threads), 2, "%d threads, want %d")
	for host, want := range text {
		found := false
		for id := range s.threads {
			found = found || string(s.export(t, id)) == want
		}
		if !found {
			t.Errorf("no thread has what %s wrote", host)
		}
	}
}

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/history"
	"spool/internal/must"
)

// asked is a line of spool history --json.
type asked struct {
	Session, Thread, Cwd, Harness, Text, Time string
	N                                         int64
}

// keptPrompts waits until the history that spool up feeds has so many, and not more.
func (w *world) keptPrompts(file string, want int64) {
	w.t.Helper()
	var n int64
	err := history.With(file, func(db *history.DB) (err error) {
		for late := time.Now().Add(time.Minute); err == nil && n < want && time.Now().Before(late); {
			n, err = db.Count(w.t.Context())
		}
		return err
	})
	if err != nil || n != want {
		w.t.Errorf("%s has %d prompts, %v, want %d", file, n, err, want)
	}
}

func (w *world) history(args ...string) []asked {
	w.t.Helper()
	return decode[asked](w.t, w.run("spool", append([]string{"history"}, args...)...))
}

// TestHistory: prompts of every harness are found, each once, also after kill -9 of spool up, from its file and from one of
// the caller's own (SPEC S11).
func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	w.imports(transcripts(t)[0])
	w.checkItems() // all items are out
	data := filepath.Join(w.home, "data")
	kept := w.history("--data", data, "recent", "--limit", "1000", "--json")
	harnesses, seen := map[string]bool{}, map[asked]bool{}
	for i, p := range kept {
		harnesses[p.Harness] = true
		if seen[p] {
			t.Errorf("%+v comes twice", p)
		}
		seen[p] = true
		if i > 0 && p.Time > kept[i-1].Time {
			t.Errorf("%+v comes after an older one", p)
		}
	}
	for _, name := range []string{"claude", "codex", "omp"} {
		if !harnesses[name] {
			t.Errorf("there is no prompt of %s among %d", name, len(kept))
		}
	}
	found := w.history("search", "COMPOST", "litre", "--json")
	if len(found) != 1 || found[0].Cwd != "/home/mira/orchard" || !strings.Contains(found[0].Text, "litres of compost") {
		t.Errorf("search = %+v, want the one prompt about litres of compost", found)
	}
	for _, c := range []struct {
		args string
		want int
	}{{"--cwd /home/mira/orchard --session " + found[0].Session, 1}, {"--cwd /home/mira", 0}} {
		if got := w.history(append([]string{"search", "compost", "litre", "--json"}, strings.Fields(c.args)...)...); len(got) != c.want {
			t.Errorf("search %s = %+v, want %d", c.args, got, c.want)
		}
	}

	up.Kill()
	up = w.up()
	body := `{"created_at":"2026-11-20T23:00:00Z","content":[{"type":"text","text":"one more prompt"}]}` + "\n"
	if _, errw, code := w.try(body, "spool", "publish", "-", "--session", "later", "--dialect", "item"); code != 0 {
		t.Fatalf("publish: exit code %d\n%s", code, errw)
	}
	var after []asked
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late) && len(after) <= len(kept); {
		after = w.history("recent", "--limit", "1000", "--json") // a partition waits until the dead persister's pin ends
	}
	if len(after) != len(kept)+1 || after[0].Text != "one more prompt" {
		t.Errorf("recent after a restart = %d, first %+v, want %d and the new one", len(after), after[0], len(kept)+1)
	}
	var prompts, items int
	if said := w.run("spool", "history", "rebuild"); must.Get(fmt.Sscanf(said, "%d prompts\n%d items\n", &prompts, &items))(t) != 2 ||
		prompts != len(after) || items <= prompts {
		t.Errorf("rebuild = %q, want %d prompts, and more items", said, len(after))
	}
	w.keptPrompts(filepath.Join(data, "history.db"), int64(len(after)))
	must.Same(t, up.Stop(), 0, "spool up after SIGTERM: exit code %d, want %d")
}

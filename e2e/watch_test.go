package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// TestWatchKilled appends to transcripts while spool up and spool watch are killed again and again. In the end every
// line is there once, in order, and nothing but spool watch has imported any.
func TestWatchKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	dir := filepath.Join(w.home, "transcripts")
	agents := harnesses(t, dir)
	watch := func() *proc.Process { return w.start(w.command("spool", "watch", dir)) }
	up, watching := w.up(), watch()
	for round := range 6 {
		for range 8 {
			for i, a := range agents {
				a.grow(t, 1+random.IntN(60), i == round%3)
			}
			time.Sleep(time.Duration(random.Int64N(int64(60 * time.Millisecond)))) // the moments of writes and kills are the test's input
			for i, a := range agents {
				if i == round%3 {
					a.finish(t)
				}
			}
		}
		if round%2 == 0 {
			watching.Kill()
			agents[0].grow(t, 5, false)
			watching = watch()
		}
		if round%3 != 1 {
			up.Kill()
			agents[1].grow(t, 5, false)
			up = w.up()
		}
	}
	for i, a := range agents {
		a.grow(t, 3, i == 2)
	}
	must.Eventually(t, "all lines in their threads", func() error {
		threads := w.threads()
		for _, a := range agents {
			if n := threads[a.thread].Entries; n < int64(a.lines) {
				return fmt.Errorf("%s has %d entries of %d", a.thread, n, a.lines)
			}
		}
		return nil
	})
	must.Eventually(t, "the last line, which has no newline", func() error {
		got := w.run("spool", "export", agents[2].thread)
		if want := string(must.Get(os.ReadFile(agents[2].file))(t)); got != want {
			return fmt.Errorf("export has %d bytes, want %d", len(got), len(want))
		}
		return nil
	})
	agents[0].grow(t, 2, false)
	must.Same(t, watching.Stop(), 0, "spool watch after SIGTERM: exit code %d, want %d")
	w.checkItems()
	files := w.imports(dir)
	must.Same(t, len(w.threads()), len(agents), "%d threads, want %d")
	for _, f := range files {
		must.Same(t, f.Published, 0, "an import of %s behind the watch publishes %d lines, want %d", f.File)
		w.checkExport(f)
	}
	w.checkNoDead(w.dial())
	w.run("spool", "watch", "--once", dir)
	must.Same(t, up.Stop(), 0, "spool up after SIGTERM: exit code %d, want %d")
	if _, _, code := w.try("", "spool", "watch", "--once", dir); code == 0 {
		t.Error("spool watch --once without Spool: exit code 0")
	}
}

// TestWatchUnanswered kills a Spool that stands still, so that what spool watch asks of it is never answered: what waits
// for that goes on with the next Spool.
func TestWatchUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "transcripts")
	a := harnesses(t, dir)[0]
	a.grow(t, 5, false)
	up := w.up()
	w.start(w.command("spool", "watch", dir))
	stored := func() {
		t.Helper()
		must.Eventually(t, "all lines in their thread", func() error {
			if n := w.threads()[a.thread].Entries; n < int64(a.lines) {
				return fmt.Errorf("%s has %d entries of %d", a.thread, n, a.lines)
			}
			return nil
		})
	}
	stored()
	for range 3 {
		up.Signal(syscall.SIGSTOP)
		a.grow(t, 5, false)
		time.Sleep(time.Second) // it asks meanwhile
		up.Kill()
		up = w.up()
		stored()
	}
}

// TestWatchDeleted: the agent of a session that was deleted goes on, and spool watch captures all of the session again, with what lies
// beside its file and did not change.
func TestWatchDeleted(t *testing.T) {
	t.Parallel()
	const id = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e22"
	w := newWorld(t)
	w.up()
	dir := filepath.Join(w.home, ".claude", "projects", "-srv-mill")
	line := func(uuid string, more string) {
		t.Helper()
		name := filepath.Join(dir, id+".jsonl")
		if more != "" {
			name = filepath.Join(dir, id, "subagents", "agent-a1.jsonl")
		}
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		f := must.Get(os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		must.Get(fmt.Fprintf(f, `{"parentUuid":null,"cwd":"/srv/mill","sessionId":%q,"type":"user","uuid":%q,%s`+
			`"message":{"role":"user","content":"mill"},"timestamp":"2026-11-20T10:00:00.000Z"}`+"\n", id, uuid, more))(t)
		must.Do(t, f.Close())
	}
	line("u1", "")
	line("u2", `"isSidechain":true,"agentId":"a1",`)
	result := filepath.Join(dir, id, "tool-results", "r.txt")
	must.Do(t, os.MkdirAll(filepath.Dir(result), 0o700))
	must.Do(t, os.WriteFile(result, []byte("flour"), 0o600))
	whole := func(entries int64) {
		t.Helper()
		w.run("spool", "watch", "--once")
		must.Eventually(t, "all of the session", func() error {
			threads := w.threads()
			if n, agent := threads[id+"/main"].Entries, threads[id+"/agent-a1"].Entries; n != entries || agent != 1 {
				return fmt.Errorf("%d entries, and %d of the subagent, want %d and 1", n, agent, entries)
			}
			return nil
		})
		if got := w.run("spool", "artifact", "ls", id); !strings.Contains(got, "r.txt") {
			t.Errorf("artifacts = %s, want r.txt among them", got)
		}
	}
	whole(1)
	w.run("spool", "session", "rm", id, "--yes", "--by", "mira")
	line("u3", "")
	whole(2)
}

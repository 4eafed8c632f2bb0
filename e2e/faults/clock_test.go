//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
)

// skewed is what buildSkewed adds to package time: an offset in seconds, read ten times a second from the file that SPOOL_CLOCK names.
// Now itself must not call the system: the runtime calls it where that is not allowed.
const skewed = `
var skew int64

func init() {
	name, ok := syscall.Getenv("SPOOL_CLOCK")
	if !ok {
		return
	}
	go func() {
		for ; ; Sleep(100 * Millisecond) {
			f, err := open(name)
			if err != nil {
				continue
			}
			var buf [32]byte
			n, _ := read(f, buf[:])
			closefd(f)
			seconds, sign := int64(0), int64(1)
			for _, c := range buf[:max(n, 0)] {
				switch {
				case c == '-':
					sign = -1
				case c >= '0' && c <= '9':
					seconds = seconds*10 + int64(c-'0')
				}
			}
			skew = sign * seconds
		}
	}()
}
`

// buildSkewed builds the commands and nats-server with a wall clock that a file moves. Go's own time.go is not kept here: it is read
// where Go is installed, and changed at its one place.
func buildSkewed(t *testing.T) (tools string) {
	t.Helper()
	root := must.Get(exec.Command("go", "env", "GOROOT").Output())(t)
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	b, err := os.ReadFile(source)
	if err != nil {
		skip(t, fmt.Sprintf("Go's own source is not there: %v", err))
	}
	const begins, imports = "func Now() Time {", "import ("
	text := string(b)
	at := strings.Index(text, begins)
	now := at + strings.Index(text[max(at, 0):], "sec, nsec, mono :=")
	if at < 0 || now < at || strings.Count(text, imports) != 1 {
		skip(t, "time.Now of this version of Go is not as it is known here")
	}
	line := now + strings.IndexByte(text[now:], '\n') + 1
	text = text[:line] + "\tsec += skew\n" + text[line:] + skewed
	text = strings.Replace(text, imports, imports+"\n\t\"syscall\"", 1)
	dir := t.TempDir()
	changed := filepath.Join(dir, "time.go")
	must.Do(t, os.WriteFile(changed, []byte(text), 0o600))
	overlay := must.Get(json.Marshal(map[string]any{"Replace": map[string]string{source: changed}}))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	tools = filepath.Join(dir, "bin")
	must.Do(t, proc.Build(tools, append([]string{"-overlay", filepath.Join(dir, "overlay.json")}, commands...)...))
	return tools
}

// TestClock moves the wall clock of one process at a time by two days, forward and backward, while it works: the
// server's, a persister's, a collector's, that of the HTTP side, an agent's. Then there are two collectors, one two days ahead and
// one two days behind. Nothing is lost; gc and retention, which have a policy of a day, take nothing that is young, and
// say which clock is wrong.
func TestClock(t *testing.T) {
	row(t)
	if !long {
		skip(t, "builds Go's library and every command anew, which takes minutes: SPOOL_FAULTS=long")
	}
	tools := buildSkewed(t)
	for _, who := range []string{"nats-server", "persister", "gc", "ingest", "spool", "two collectors"} {
		t.Run(who, func(t *testing.T) { tryClock(t, tools, who) })
	}
}

func tryClock(t *testing.T, tools, who string) {
	w := newWorld(t)
	w.tools = tools
	set := func(name string, offset time.Duration) {
		t.Helper()
		file := filepath.Join(w.dir, name+".clock")
		must.Do(t, os.WriteFile(file+".next", []byte(strconv.Itoa(int(offset.Seconds()))), 0o600))
		must.Do(t, os.Rename(file+".next", file))
	}
	policies := filepath.Join(w.dir, "policies.toml")
	must.Do(t, os.WriteFile(policies, []byte("[[retention]]\nname = \"day\"\nmax-age = \"24h\"\n"), 0o600))
	w.clock = func(name string) string { return filepath.Join(w.dir, name+".clock") }
	w.serve()
	w.fleet()
	collector := func() *proc.Process {
		return w.start("gc", "-every", "1s", "-config", policies, "-retention-share", "1", "-allow", "share",
			"-log-level", "info")
	}
	gcs := []*proc.Process{collector()}
	load := w.publish(faulttest.NewLedger(small()))
	load.acks(100)
	gcs[0].Await("gc cycle")
	const days = 48 * time.Hour
	if who == "two collectors" {
		w.clock = func(string) string { return filepath.Join(w.dir, "other.clock") }
		gcs = append(gcs, collector())
		set("gc", days)
		set("other", -days)
		lasts(5 * time.Second)
		load.acks(100)
	} else {
		for n, offset := range []time.Duration{days, -days, 0, -time.Hour, 0, -days, 0} {
			load.acks(100)
			set(who, offset)
			lasts(3 * time.Second) // in which gc runs, too
			if err := post(t.Context(), w.http, n, 1); err != nil {
				t.Error(err)
			}
			if who == "spool" {
				w.agent(n)
			}
			load.acks(100)
		}
	}
	for _, gc := range gcs {
		if gc.Ended() {
			t.Error("gc ended")
		}
		gc.Stop()
		said := strings.Contains(gc.Log(), "clock says")
		if wrong := slices.Contains([]string{"nats-server", "gc", "two collectors"}, who); said != wrong {
			t.Errorf("gc tells of a wrong clock: %v, want %v", said, wrong)
		}
		if strings.Contains(gc.Log(), "session removed") {
			t.Errorf("retention has removed sessions of today:\n%s", gc.Log())
		}
	}
	load.check()
	if who == "spool" {
		w.agent(0)
	}
	set("gc", 0)
	out, _ := w.run("gc", "-once", "-dry-run", "-allow", "share")
	if strings.Contains(out, "refused") && who != "nats-server" {
		t.Errorf("gc refuses to judge:\n%s", out)
	}
}

// agent has a session published and an output run by the clock that agents and who looks at listings have now. Whatever that is, the
// session is there, has begun by the server's clock, and has neither failed nor been changed after now. When it was changed last is not
// held to more: what says that it is old is believed, as a transcript that is imported is.
func (w *world) agent(n int) {
	w.t.Helper()
	session := fmt.Sprint("agent-", n)
	entry := filepath.Join(w.dir, "entry")
	must.Do(w.t, os.WriteFile(entry, []byte(`{"content":[{"type":"text","text":"hello"}]}`+"\n"), 0o600))
	began := time.Now()
	w.must("spool", "publish", "--session", session, "--dialect", "item", entry)
	w.must("spool", "exec", "--session", session, "--", "sh", "-c", "echo hello; sleep 0.5; echo end")
	w.eventually("the session is listed", func() error {
		list, said, code := proc.Run(w.t, w.command("spool", "session", "ls", "--all", "--json"), patience)
		if code != 0 {
			return fmt.Errorf("session ls: exit code %d: %s", code, said)
		}
		for line := range bytes.Lines(list) {
			var s struct {
				ID, State         string
				Created, Modified time.Time
			}
			must.Do(w.t, json.Unmarshal(line, &s))
			if s.ID != session {
				continue
			}
			const near = time.Minute
			if s.Created.Before(began.Add(-near)) || s.Modified.After(time.Now().Add(near)) || s.State == "failed" {
				w.t.Errorf("%s: created %v, modified %v, %s; it is %v", session, s.Created, s.Modified, s.State, time.Now())
			}
			return nil
		}
		return fmt.Errorf("%s is not there", session)
	})
}

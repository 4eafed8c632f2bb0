//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
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
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	tools = filepath.Join(dir, "bin")
	if err := proc.Build(tools, append([]string{"-overlay", filepath.Join(dir, "overlay.json")}, commands...)...); err != nil {
		t.Fatal(err)
	}
	return tools
}

// TestClock moves the wall clock of one process at a time by a day, forward and backward, while it works: the server's, a persister's, a
// collector's. Nothing is lost, gc decides as it would have.
func TestClock(t *testing.T) {
	row(t)
	if !long {
		skip(t, "builds Go's library and every command anew, which takes minutes: SPOOL_FAULTS=long")
	}
	tools := buildSkewed(t)
	for _, who := range []string{"nats-server", "persister", "gc"} {
		t.Run(who, func(t *testing.T) {
			w := newWorld(t)
			w.tools = tools
			clock := func(name string) string { return filepath.Join(w.dir, name+".clock") }
			set := func(offset time.Duration) {
				t.Helper()
				next := clock(who) + ".next"
				if err := os.WriteFile(next, []byte(strconv.Itoa(int(offset.Seconds()))), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, clock(who)); err != nil {
					t.Fatal(err)
				}
			}
			set(0)
			w.clock = clock
			w.serve()
			w.fleet()
			gc := w.start("gc", "-every", "1s", "-allow", "share", "-log-level", "info")
			load := w.publish(faulttest.NewLedger(small()))
			for _, offset := range []time.Duration{24 * time.Hour, -24 * time.Hour, 0, -time.Hour, 48 * time.Hour} {
				load.acks(100)
				set(offset)
				lasts(3 * time.Second) // in which gc runs, too
				load.acks(100)
			}
			if gc.Ended() {
				t.Error("gc ended")
			}
			gc.Stop()
			load.check()
			if out := w.must("gc", "-once", "-dry-run", "-allow", "share"); strings.Contains(out, "refused") {
				t.Errorf("gc refuses to judge:\n%s", out)
			}
		})
	}
}

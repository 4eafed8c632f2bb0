package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

// TestExec: a command under spool exec has the standard input, output, error, exit code and signals that it has without it,
// and what it printed is in its thread.
func TestExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	script := `cat; echo to stderr >&2; printf '\033[1mbold\033[0m\r\n'; exit 7`
	out, errw, code := w.try("from stdin\n", "spool", "exec", "--session", "s", "--", "sh", "-c", script)
	if out != "from stdin\n\x1b[1mbold\x1b[0m\r\n" || errw != "to stderr\n" || code != 7 {
		t.Errorf("stdout %q, stderr %q, code %d", out, errw, code)
	}
	w.awaitItems("s", 2)
	items := w.run("spool", "tail", "s", "--all", "-T", "--json")
	for _, want := range []string{`"type":"tool_call"`, `sh -c '"'"'cat`, `"is_error":true`, `"exit_code":7`, `to stderr\n`, `bold\n`} {
		if want = strings.ReplaceAll(want, `'"'"'`, `'`); !strings.Contains(items, want) {
			t.Errorf("items have no %s:\n%s", want, items)
		}
	}

	// A long output: everything at once, and the whole of it again as an artifact.
	out = w.run("spool", "exec", "--session", "s", "--thread", "t", "--tool", "count", "--", "seq", "1", "100000")
	var want bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintln(&want, i+1)
	}
	if out != want.String() {
		t.Errorf("stdout of %d bytes, want %d", len(out), want.Len())
	}
	w.awaitItems("s/t", 2)
	if got := w.run("spool", "read", "--session", "s", "artifact://0"); got != want.String() {
		t.Errorf("artifact://0 of %d bytes, want %d", len(got), want.Len())
	}
	id := between(w.run("spool", "tail", "s/t", "--all", "-T", "--json"), `"output":{"id":"`, `"`)
	if got, _, _ := w.try("", "spool", "output", "follow", "s/t", id); got != want.String() {
		t.Errorf("spool output follow gave %d bytes, want %d", len(got), want.Len())
	}

	if _, errw, code := w.try("", "spool", "exec", "--", "no-such-command"); code != 127 || !strings.Contains(errw, "no-such-command") {
		t.Errorf("unknown command: code %d, %q", code, errw)
	}
	if _, _, code := w.try("", "spool", "exec", "--", "sh", "-c", "kill -KILL $$"); code != 128+9 {
		t.Errorf("killed command: code %d, want 137", code)
	}
	if _, _, code := w.try("", "spool", "exec"); code != 2 {
		t.Errorf("no command: code %d, want 2", code)
	}
	// A reader that goes away ends the command, as it would without us.
	pipe := exec.Command("sh", "-c", "spool exec --session s --thread p -- yes | head -n 1")
	pipe.Env, pipe.Dir = w.command("spool").Env, w.home
	if got, err := pipe.Output(); err != nil || string(got) != "y\n" {
		t.Errorf("piped into head = %q, %v", got, err)
	}
	w.execSignals()
	if code := up.stop(); code != 0 {
		t.Errorf("spool up ended with %d", code)
	}
}

// execSignals: signals go to the command, which decides.
func (w *world) execSignals() {
	w.t.Helper()
	cmd := w.command("spool", "exec", "--session", "s", "--thread", "sig", "--", "sh", "-c", `trap 'echo caught >&2; exit 5' TERM; echo ready >&2; while :; do sleep 0.05; done`)
	p := w.start(cmd)
	p.await("ready")
	if open := w.run("spool", "output", "ls", "s", "--json"); !strings.Contains(open, `"thread":"sig"`) {
		w.t.Errorf("output ls = %s, want the one of the thread sig", open)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	if code := p.wait(); code != 5 {
		w.t.Errorf("code %d, want 5", code)
	}
	if all, _ := p.out.read(); !strings.Contains(all, "caught") {
		w.t.Errorf("stderr = %q", all)
	}
}

// awaitItems waits for the items of a thread.
func (w *world) awaitItems(thread string, n int) {
	w.t.Helper()
	w.run("spool", "tail", thread, "--all", "--count", fmt.Sprint(n))
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// TestExecWithoutServer: nothing is run that can not be recorded.
func TestExecWithoutServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, errw, code := w.try("", "spool", "exec", "--", "echo", "ran")
	if code != 1 || out != "" || !strings.Contains(errw, "connect to NATS") {
		t.Errorf("stdout %q, stderr %q, code %d", out, errw, code)
	}
}

// TestLargeOutput: an output of any size goes through a persister in bounded memory, and on at the exact byte after the
// persister was killed in the middle (SPEC O7). With SPOOL_TEST_GIANT=1 it has a gigabyte, else 60 MB.
func TestLargeOutput(t *testing.T) {
	size, limit := int64(60_000_000), int64(192<<20)
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		size = 1_000_000_000
	}
	w := newWorld(t)
	w.start(w.command("natsd", "-listen", w.nats, "-data", filepath.Join(w.home, "data"))).await("ready")
	persister := func() *process {
		cmd := w.command("persister")
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=128MiB")
		p := w.start(cmd)
		p.await("persister runs")
		return p
	}
	p := persister()
	conn := w.dial()
	cl := client.New(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o, err := cl.Output(ctx, events.Thread{Session: "s", Name: "main"}, client.OutputConfig{ID: "o"})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	line := []byte("\x1b[32mA line of a build that is very long, and says little.\x1b[0m\n")
	block := bytes.Repeat(line, 64<<10/len(line))
	for sent, killed := int64(0), false; sent < size; sent += int64(len(block)) {
		if _, err := o.Write(block); err != nil {
			t.Fatal(err)
		}
		if !killed && sent > size/2 {
			killed = true
			checkPeak(t, p, limit)
			p.kill()
			p = persister()
		}
	}
	if err := o.Close(client.OutputEnd{}); err != nil {
		t.Fatal(err)
	}
	if err := o.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	rs, err := cl.Artifacts(ctx, "s")
	if err != nil || len(rs) != 1 {
		t.Fatalf("Artifacts = %v, %v, want one", rs, err)
	}
	body, n, err := cl.OpenArtifact(ctx, rs[0])
	if err != nil {
		t.Fatal(err)
	}
	want := &lines{line: []byte("A line of a build that is very long, and says little.\n")}
	if got, err := io.Copy(want, body); err != nil || got != n || want.bad >= 0 {
		t.Errorf("artifact of %d bytes, read %d, %v, first wrong byte %d", n, got, err, want.bad)
	}
	if blocks := (size + int64(len(block)) - 1) / int64(len(block)); n != blocks*int64(len(block)/len(line)*len(want.line)) {
		t.Errorf("artifact of %d bytes after %d blocks of %d lines", n, blocks, len(block)/len(line))
	}
	checkPeak(t, p, limit)
	t.Logf("%d bytes in %v", size, took.Round(time.Millisecond))
	w.checkNoDead(conn)
}

func checkPeak(t *testing.T, p *process, limit int64) {
	t.Helper()
	peak := p.peak()
	t.Logf("peak of the persister: %d MiB", peak>>20)
	if peak > limit {
		t.Errorf("the persister had %d bytes in memory, want at most %d", peak, limit)
	}
}

// lines checks that a text is one line again and again.
type lines struct {
	line []byte
	at   int64
	bad  int64
}

func (l *lines) Write(b []byte) (int, error) {
	if l.at == 0 {
		l.bad = -1
	}
	for i, c := range b {
		if c != l.line[(l.at+int64(i))%int64(len(l.line))] && l.bad < 0 {
			l.bad = l.at + int64(i)
		}
	}
	l.at += int64(len(b))
	return len(b), nil
}

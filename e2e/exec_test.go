package e2e_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"spool/internal/must"
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
	w.awaitItems("s/p", 2)
	if open := w.run("spool", "output", "ls", "s", "--json"); open != "" {
		t.Errorf("outputs that stay open: %s", open)
	}
	w.run("spool", "thread", "end", "s/p")
	if out, errw, code := w.try("", "spool", "exec", "--session", "s", "--thread", "p", "--", "echo", "run"); code == 0 ||
		out != "" || !strings.Contains(errw, "was not run: thread has ended") {
		t.Errorf("exec into a thread that has ended: %q, %q, code %d, want it not to run", out, errw, code)
	}
	w.execSignals()
	must.Same(t, up.Stop(), 0, "spool up ended with %d, want %d")
}

// execSignals: signals go to the command, which decides.
func (w *world) execSignals() {
	w.t.Helper()
	cmd := w.command("spool", "exec", "--session", "s", "--thread", "sig", "--", "sh", "-c",
		`trap 'echo caught >&2; exit 5' TERM; echo ready >&2; while :; do sleep 0.05; done`)
	p := w.start(cmd)
	p.Await("ready")
	must.Eventually(w.t, "an output that is open is listed", func() error { // its first piece goes out behind what it printed
		if open := w.run("spool", "output", "ls", "s", "--json"); !strings.Contains(open, `"thread":"sig"`) {
			return fmt.Errorf("output ls = %s, want the one of the thread sig", open)
		}
		return nil
	})
	p.Signal(syscall.SIGTERM)
	must.Same(w.t, p.Wait(), 5, "code %d, want %d")
	if all := p.Log(); !strings.Contains(all, "caught") {
		w.t.Errorf("stderr = %q", all)
	}
}

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

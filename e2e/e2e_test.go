// Package e2e_test runs Spool's commands as processes: what a user starts is what is tested, and kill -9 is kill -9.
package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(proc.Main(m, "spool/cmd/...", "spool/e2e/natsd", "spool/e2e/keeper", "spool/e2e/acpagent"))
}

// world is a home directory, and the addresses of what runs for a test.
type world struct {
	t          *testing.T
	home       string
	nats, http string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, home: t.TempDir(), nats: proc.Address(t), http: proc.Address(t)}
}

func (w *world) url() string { return "nats://" + w.nats }

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := proc.Command(w.home, name, args...)
	cmd.Env = append(cmd.Env, "NATS_URL="+w.url())
	return cmd
}

// try runs a command to its end and gives what it wrote and its exit code.
func (w *world) try(stdin string, name string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := w.command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, errs, code := proc.Run(w.t, cmd, must.Patience)
	return string(out), string(errs), code
}

// run is try for a command that must succeed.
func (w *world) run(name string, args ...string) string {
	w.t.Helper()
	out, errw, code := w.try("", name, args...)
	if code != 0 {
		w.t.Fatalf("%s %s: exit code %d, want 0\n%s", name, strings.Join(args, " "), code, errw)
	}
	return out
}

// up starts spool up and returns when it is.
func (w *world) up(flags ...string) *proc.Process {
	w.t.Helper()
	// Without NATS_URL, which would name an outside system.
	args := []string{"up", "--data", filepath.Join(w.home, "data"), "--listen", w.nats, "--http", w.http}
	p := w.start(proc.Command(w.home, "spool", append(args, flags...)...))
	p.Await("Spool is up.")
	return p
}

// start runs a command beside the test.
func (w *world) start(cmd *exec.Cmd) *proc.Process {
	w.t.Helper()
	return proc.Start(w.t, cmd)
}

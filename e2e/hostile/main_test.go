// Package hostile_test feeds the real commands what nobody should send: envelopes that are bombs, entries that are no JSON or too
// much of it, names that are paths and subjects, files that unpack to far more than they are. Everything refused is explained and
// kept, everything taken comes back as it was, and memory stays bounded (DESIGN 11, 13.9; SPEC B1).
package hostile_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m, "spool/cmd/...", "spool/e2e/natsd").Run()) }

// stuckAfter is how long a command may take: those that wait for what is stored wait for all that came before it.
const stuckAfter = 15 * time.Minute

// memory is the soft limit of every process, as GOMEMLIMIT has it, and hard what none may ever have had.
const (
	memory = "256MiB"
	hard   = 320 << 20
)

// world is a server and what runs on it.
type world struct {
	t          *testing.T
	home, data string
	nats, http string
	env        []string
}

// newWorld starts a server, a persister with these flags, the HTTP side and a collector.
func newWorld(t *testing.T, every string, persister ...string) (w *world, daemons []*proc.Process) {
	t.Helper()
	w = &world{t: t, home: t.TempDir(), data: t.TempDir(), nats: proc.Address(t), http: proc.Address(t)}
	w.start("natsd", "-data", w.data, "-listen", w.nats).Await("ready")
	w.env = []string{"GOMEMLIMIT=" + memory}
	p := w.start("persister", persister...)
	p.Await("persister runs")
	in := w.start("ingest", "-http", w.http)
	in.Await("ingest listens")
	return w, []*proc.Process{p, in, w.start("gc", "-every", every)}
}

func (w *world) url() string { return "nats://" + w.nats }

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := proc.Command(w.home, name, args...)
	cmd.Env = append(append(cmd.Env, "NATS_URL="+w.url()), w.env...)
	return cmd
}

func (w *world) dial() *natsio.Conn {
	w.t.Helper()
	conn := must.Get(natsio.Dial(w.t.Context(), natsio.Config{URL: w.url()}))(w.t)
	w.t.Cleanup(conn.Close)
	return conn
}

func (w *world) try(stdin io.Reader, name string, args ...string) (stdout []byte, stderr string, code int) {
	w.t.Helper()
	cmd := w.command(name, args...)
	cmd.Stdin = stdin
	out, errs, code := proc.Run(w.t, cmd, stuckAfter)
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss<<10 > hard {
		w.t.Errorf("%s %.200q had %d MiB in memory, want at most %d", name, args, use.Maxrss>>10, hard>>20)
	}
	return out, string(errs), code
}

// run is try for what must succeed.
func (w *world) run(name string, args ...string) []byte {
	w.t.Helper()
	out, errs, code := w.try(nil, name, args...)
	if code != 0 {
		w.t.Fatalf("%s %.300q: exit code %d\n%s", name, args, code, errs)
	}
	return out
}

// settle waits until everything that was published is applied.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), must.Patience)
	defer cancel()
	must.Do(w.t, faulttest.Settle(ctx, w.dial()))
}

// post sends a body.
func (w *world) post(path, kind string, body io.Reader) (status int, answer string) {
	w.t.Helper()
	resp := must.Get(http.Post("http://"+w.http+path, kind, body))(w.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(w.t)
	return resp.StatusCode, string(b)
}

func (w *world) start(name string, args ...string) *proc.Process {
	w.t.Helper()
	return proc.Start(w.t, w.command(name, args...))
}

// checkAlive: a process goes on, within its memory.
func checkAlive(t *testing.T, p *proc.Process) {
	t.Helper()
	if p.Ended() {
		t.Errorf("%s ended: %v", p.Args(), p.State())
		return
	}
	peak := p.Peak()
	t.Logf("peak of %s: %d MiB", filepath.Base(p.Args()[0]), peak>>20)
	if peak > hard {
		t.Errorf("%s had %d MiB in memory, want at most %d", p.Args(), peak>>20, hard>>20)
	}
}

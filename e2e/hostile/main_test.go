// Package hostile_test feeds the real commands what nobody should send: envelopes that are bombs, entries that are no JSON or too
// much of it, names that are paths and subjects, files that unpack to far more than they are. Everything refused is explained and
// kept, everything taken comes back as it was, and memory stays bounded (DESIGN 11, 13.9; SPEC B1).
package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spool/internal/natsio"
)

// bin is the folder with the commands, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spool-hostile-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/...", "./e2e/natsd")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build = %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience is how long something that must happen may take: machines that run tests are slow at times.
const patience = 90 * time.Second

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
	daemons    []*process
}

// newWorld starts a server, a persister with these flags, the HTTP side and a collector.
func newWorld(t *testing.T, every string, persister ...string) (w *world, daemons []*process) {
	t.Helper()
	w = &world{t: t, home: t.TempDir(), data: t.TempDir(), nats: address(t), http: address(t)}
	w.start("natsd", "-data", w.data, "-listen", w.nats).await("ready")
	w.env = []string{"GOMEMLIMIT=" + memory}
	p := w.start("persister", persister...)
	p.await("persister runs")
	in := w.start("ingest", "-http", w.http)
	in.await("ingest listens")
	w.daemons = []*process{p, in, w.start("gc", "-every", every)}
	return w, w.daemons
}

func address(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := "127.0.0.1:" + strconv.Itoa(20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

func (w *world) url() string { return "nats://" + w.nats }

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = w.home
	cmd.Env = append([]string{"HOME=" + w.home, "TMPDIR=" + w.home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "NATS_URL=" + w.url()}, w.env...)
	return cmd
}

func (w *world) dial() *natsio.Conn {
	w.t.Helper()
	conn, err := natsio.Dial(w.t.Context(), natsio.Config{URL: w.url()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// try runs a command to its end.
func (w *world) try(stdin io.Reader, name string, args ...string) (stdout []byte, stderr string, code int) {
	w.t.Helper()
	cmd := w.command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stuck := time.AfterFunc(stuckAfter, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	stuck.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || strings.Contains(errs.String(), "goroutine ") {
		w.tell()
		w.t.Fatalf("%s %.200q: %v\n%.1000s", name, args, err, errs.String())
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss<<10 > hard {
		w.t.Errorf("%s %.200q had %d MiB in memory, want at most %d", name, args, use.Maxrss>>10, hard>>20)
	}
	return out.Bytes(), errs.String(), cmd.ProcessState.ExitCode()
}

// tell writes down what the daemons do that somebody waits for.
func (w *world) tell() {
	w.t.Helper()
	for _, p := range w.daemons {
		p.lives()
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		w.t.Logf("%s said:\n%.20000s", p.cmd.Args, p.said)
	}
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

// post sends a body.
func (w *world) post(path, kind string, body io.Reader) (status int, answer string) {
	w.t.Helper()
	resp, err := http.Post("http://"+w.http+path, kind, body)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// eventually waits until something succeeds.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	err := f()
	for end := time.Now().Add(patience); err != nil; err = f() {
		if time.Now().After(end) {
			w.tell()
			w.t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// process is a command that goes on running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	said   *said
	exited chan struct{}
}

func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, cmd: w.command(name, args...), said: &said{}, exited: make(chan struct{})}
	p.cmd.Stderr = p.said
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.exited })
	return p
}

func (p *process) await(text string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.said.String(), text); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.exited:
			p.t.Fatalf("%s ended before it said %q:\n%s", p.cmd.Args, text, p.said)
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s never said %q:\n%s", p.cmd.Args, text, p.said)
		}
	}
}

// lives reports that the process goes on, within its memory.
func (p *process) lives() {
	p.t.Helper()
	select {
	case <-p.exited:
		p.t.Errorf("%s ended: %v\n%.4000s", p.cmd.Args, p.cmd.ProcessState, p.said)
		return
	default:
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Logf("no memory figures on this system: %v", err)
		return
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("peak of %s: %d MiB", filepath.Base(p.cmd.Path), kib>>10)
	if kib<<10 > hard {
		p.t.Errorf("%s had %d MiB in memory, want at most %d", p.cmd.Args, kib>>10, hard>>20)
	}
}

// said is what a process wrote.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buf.Len() < 1<<20 {
		s.buf.Write(b)
	}
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

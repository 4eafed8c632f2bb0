// Package e2e_test runs Spool's commands as processes: what a user starts is what is tested, and kill -9 is kill -9.
package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// bin is the folder with the commands, built once.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "spool-e2e-")
	if err != nil {
		panic(err)
	}
	bin = dir
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/...", "./e2e/natsd")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build = %v\n%s", err, out)
		_ = os.RemoveAll(dir)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// port is one that nothing listens on, outside of the range from which outgoing connections take theirs, so that it stays
// free while its process is down.
func port(t *testing.T) int {
	t.Helper()
	for range 100 {
		p := 20_000 + rand.IntN(10_000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		if err == nil {
			_ = l.Close()
			return p
		}
	}
	t.Fatal("no free port")
	return 0
}

// world is a home directory, and the addresses of what runs for a test.
type world struct {
	t          *testing.T
	home       string
	nats, http string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir()}
	w.nats = fmt.Sprintf("127.0.0.1:%d", port(t))
	w.http = fmt.Sprintf("127.0.0.1:%d", port(t))
	return w
}

func (w *world) url() string { return "nats://" + w.nats }

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = w.home
	cmd.Env = []string{"HOME=" + w.home, "TMPDIR=" + w.home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "NATS_URL=" + w.url()}
	return cmd
}

// try runs a command to its end and gives what it wrote and its exit code.
func (w *world) try(stdin string, name string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := w.command(name, args...)
	var out, errw bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errw
	err := cmd.Start()
	if err == nil {
		stuck := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		stuck.Stop()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s %v: %v", name, args, err)
	}
	return out.String(), errw.String(), cmd.ProcessState.ExitCode()
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
func (w *world) up() *process {
	w.t.Helper()
	cmd := w.command("spool", "up", "--data", filepath.Join(w.home, "data"), "--listen", w.nats, "--http", w.http)
	cmd.Env = cmd.Env[:len(cmd.Env)-1] // NATS_URL would name an outside system
	p := w.start(cmd)
	p.await("Spool is up.")
	return p
}

// process is a command that goes on running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
}

// start runs a command beside the test; what is left of it at the end of the test is killed.
func (w *world) start(cmd *exec.Cmd) *process {
	w.t.Helper()
	p := &process{t: w.t, cmd: cmd, out: &output{more: make(chan struct{})}, exited: make(chan struct{})}
	cmd.Stderr = p.out
	if cmd.Stdout == nil {
		cmd.Stdout = io.Discard
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.exited) }()
	w.t.Cleanup(p.kill)
	return p
}

// await returns when the process has written a text to stderr.
func (p *process) await(text string) {
	p.t.Helper()
	late := time.After(40 * time.Second)
	for {
		all, more := p.out.read()
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-more:
		case <-p.exited:
			p.t.Fatalf("%s ended before it said %q:\n%s", p.cmd.Args, text, all)
		case <-late:
			p.t.Fatalf("%s never said %q:\n%s", p.cmd.Args, text, all)
		}
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// stop asks the process to end and gives its exit code.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

// wait gives the exit code of a process that ends by itself.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		all, _ := p.out.read()
		p.t.Fatalf("%s does not end:\n%s", p.cmd.Args, all)
	}
	return p.cmd.ProcessState.ExitCode()
}

// output is what a process wrote so far.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // closed and replaced with every write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.buf.Write(b)
}

func (o *output) read() (all string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.more
}

//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/natsio"
	"spool/pkg/client"
)

// patience is how long something that must happen may take: machines that run tests are slow at times.
const patience = 90 * time.Second

// world is a server, where its files are, and the processes beside it.
type world struct {
	t                   *testing.T
	dir                 string                   // files of this world
	data                string                   // of the server; in another mount namespace if there is one
	nats, http, monitor string                   // addresses
	sync                string                   // sync_interval
	more                string                   // of the server's configuration
	user                string                   // who this test and the processes that it starts are; "" = nobody in particular
	tools               string                   // folder of the commands
	clock               func(name string) string // file with the offset of a process's clock; nil: clocks are right
	inside              *namespace
	server              *process
	started             int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), sync: "always", tools: bin}
	w.data = filepath.Join(w.dir, "data")
	for _, addr := range []*string{&w.nats, &w.http, &w.monitor} {
		*addr = fmt.Sprintf("127.0.0.1:%d", port(t))
	}
	return w
}

// given are the ports that rows have.
var given sync.Map

// port is one that nothing listens on, outside of the range from which outgoing connections take theirs, so that it stays
// free while its process is down.
func port(t *testing.T) int {
	t.Helper()
	for range 100 {
		p := 20_000 + rand.IntN(10_000)
		if _, taken := given.LoadOrStore(p, true); taken { // another row has it, and may not listen yet
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p)); err == nil {
			_ = l.Close()
			return p
		}
	}
	t.Fatal("no free port")
	return 0
}

// configure writes the server's configuration.
func (w *world) configure() string {
	w.t.Helper()
	conf := filepath.Join(w.dir, "nats.conf")
	text := fmt.Sprintf("server_name: faults\nlisten: %s\nhttp: %s\njetstream { store_dir: %q, max_file_store: 20G, sync_interval: %s }\n%s\n", w.nats, w.monitor, w.data, w.sync, w.more)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return conf
}

// serve starts the server and returns when JetStream answers.
func (w *world) serve() {
	w.t.Helper()
	w.server = w.start("nats-server", "-c", w.configure())
	w.healthy()
}

// healthy waits until JetStream answers.
func (w *world) healthy() {
	w.t.Helper()
	w.eventually("JetStream answers", func() error {
		if w.server.ended() {
			w.t.Fatalf("nats-server ended:\n%s", w.server.log())
		}
		get, err := http.Get("http://" + w.monitor + "/healthz")
		if err != nil {
			return err
		}
		defer get.Body.Close()
		if body, _ := io.ReadAll(get.Body); get.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz: %s", body)
		}
		return nil
	})
}

// up starts everything in one process, on the server's files.
func (w *world) up(args ...string) {
	w.t.Helper()
	w.server = w.start("spool", append([]string{"up", "--data", w.data, "--listen", w.nats, "--http", w.http, "--log-level", "info"}, args...)...)
	w.server.await("Spool is up.")
}

// fleet starts a persister and the HTTP side, on a server that runs.
func (w *world) fleet() (persister *process) {
	w.t.Helper()
	persister = w.persister()
	w.start("ingest", "-http", w.http).await("ingest listens")
	return persister
}

func (w *world) persister() *process {
	w.t.Helper()
	p := w.start("persister")
	p.await("persister runs")
	return p
}

// ready asks the HTTP side whether entries can be stored.
func (w *world) ready() error {
	get, err := http.Get("http://" + w.http + "/readyz")
	if err != nil {
		return err
	}
	defer get.Body.Close()
	body, err := io.ReadAll(get.Body)
	if err == nil && get.StatusCode != http.StatusOK {
		err = fmt.Errorf("readyz: %d %s", get.StatusCode, body)
	}
	return err
}

// eventually waits until something succeeds.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	err := f()
	for end := time.Now().Add(patience); err != nil; err = f() {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %v: %v\n%s", what, patience, err, w.logs())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) dial() *natsio.Conn {
	w.t.Helper()
	conn, err := natsio.Dial(w.t.Context(), natsio.Config{URL: "nats://" + w.nats, User: w.user, Password: w.user})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// run runs a command to its end.
func (w *world) run(name string, args ...string) (out string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.tools, name), args...)
	cmd.Dir, cmd.Env = w.dir, w.environ()
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		w.t.Fatalf("%s %v: %v\n%s", name, args, err, b)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// must is run for a command that has to succeed.
func (w *world) must(name string, args ...string) string {
	w.t.Helper()
	out, code := w.run(name, args...)
	if code != 0 {
		w.t.Fatalf("%s %v: exit code %d, want 0\n%s", name, args, code, out)
	}
	return out
}

func (w *world) environ() []string {
	return []string{"HOME=" + w.dir, "TMPDIR=" + w.dir, "PATH=" + os.Getenv("PATH"), "NATS_URL=nats://" + w.nats, "NATS_USER=" + w.user, "NATS_PASSWORD=" + w.user}
}

// process is a command that goes on running; it dies with the test.
type process struct {
	w    *world
	cmd  *exec.Cmd
	file string // what it writes
	done chan struct{}
}

// start runs a command beside the test.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	path := filepath.Join(w.tools, name)
	if w.inside != nil && (name == "nats-server" || name == "spool") { // whoever has the server's files
		args = append([]string{"-t", strconv.Itoa(w.inside.holder.cmd.Process.Pid), "-m", "--", path}, args...)
		path = w.inside.nsenter
	}
	return w.launch(name, path, args...)
}

func (w *world) launch(name, path string, args ...string) *process {
	w.t.Helper()
	w.started++
	p := &process{w: w, cmd: exec.Command(path, args...), file: filepath.Join(w.dir, fmt.Sprintf("%02d-%s.log", w.started, name)), done: make(chan struct{})}
	out, err := os.Create(p.file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = w.dir, w.environ(), out, out
	if w.clock != nil {
		p.cmd.Env = append(p.cmd.Env, "SPOOL_CLOCK="+w.clock(name))
	}
	if name == "spool" {
		p.cmd.Env = slices.DeleteFunc(p.cmd.Env, func(v string) bool { return strings.HasPrefix(v, "NATS_URL=") }) // it has its own server
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	w.t.Cleanup(p.kill)
	return p
}

func (p *process) log() string {
	b, err := os.ReadFile(p.file)
	return string(b) + errText(err)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// await returns when the process has written a text.
func (p *process) await(text string) {
	p.w.t.Helper()
	p.w.eventually(fmt.Sprintf("%s says %q", p.cmd.Args, text), func() error {
		ended := p.ended()
		said, err := os.ReadFile(p.file)
		if err != nil || bytes.Contains(said, []byte(text)) {
			return err
		}
		if ended {
			p.w.t.Fatalf("%s ended before it said %q:\n%s", p.cmd.Args, text, said)
		}
		return fmt.Errorf("it says:\n%s", said)
	})
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	p.w.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.w.t.Fatal(err)
	}
}

// stop ends the process in order.
func (p *process) stop() {
	p.w.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.w.t.Fatalf("%s does not end:\n%s", p.cmd.Args, p.log())
	}
}

// load is a ledger that publishes.
type load struct {
	*faulttest.Ledger
	w    *world
	stop func()
}

// small is a workload that many rows use: 4 producers, 6 threads.
func small() faulttest.Workload {
	return faulttest.Workload{Sessions: 3, ThreadsEach: 2, Pause: 5 * time.Millisecond, Seed: rand.Uint64()}
}

// publish has a ledger publish over a connection of its own, until stop.
func (w *world) publish(l *faulttest.Ledger) *load {
	w.t.Helper()
	return w.publishBy(l, client.New(w.dial()))
}

func (w *world) publishBy(l *faulttest.Ledger, c *client.Client) *load {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.Run(ctx, c); err != nil {
			w.t.Errorf("publish: %v", err)
		}
	}()
	stop := func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return &load{l, w, stop}
}

// acks waits until so many entries more are acked.
func (l *load) acks(n int64) {
	l.w.t.Helper()
	want := l.Acked() + n
	l.w.eventually("entries are acked", func() error {
		if got := l.Acked(); got < want {
			return fmt.Errorf("%d entries are acked, want %d", got, want)
		}
		return nil
	})
}

// check stops the load and holds everything against the ledger; then the system has to be ready.
func (l *load) check() {
	l.w.t.Helper()
	l.stop()
	l.w.check(l.Ledger)
	l.w.eventually("ready", l.w.ready)
}

func (w *world) check(l *faulttest.Ledger) {
	w.t.Helper()
	if l.Acked() == 0 {
		w.t.Fatal("nothing was acked: it was not tried")
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	began := time.Now()
	if err := l.Check(ctx, w.dial()); err != nil {
		w.t.Errorf("%v\n%s", err, w.logs())
	}
	w.t.Logf("%d entries acked, %d unknown; checked in %v", l.Acked(), l.Unknown(), time.Since(began).Round(time.Millisecond))
}

// logs is the end of what each process wrote.
func (w *world) logs() string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(f), text[max(0, len(text)-1500):])
	}
	return b.String()
}

// lasts waits for as long as a fault is to last: it is the input of a row, nothing is concluded from it.
func lasts(d time.Duration) { time.Sleep(d) }

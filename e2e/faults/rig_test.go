//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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
	"spool/internal/natsio"
	"spool/pkg/client"
)

// patience is how long something that must happen may take.
const patience = must.Patience

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
	server              *proc.Process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), sync: "always", tools: proc.Bin(), nats: proc.Address(t), http: proc.Address(t),
		monitor: proc.Address(t)}
	w.data = filepath.Join(w.dir, "data")
	return w
}

func (w *world) configure() string {
	w.t.Helper()
	conf := filepath.Join(w.dir, "nats.conf")
	text := fmt.Sprintf("server_name: faults\nlisten: %s\nhttp: %s\njetstream { store_dir: %q, max_file_store: 20G, sync_interval: %s }\n%s\n", w.nats, w.monitor, w.data, w.sync, w.more)
	must.Do(w.t, os.WriteFile(conf, []byte(text), 0o600))
	return conf
}

// serve starts the server and returns when JetStream answers.
func (w *world) serve() {
	w.t.Helper()
	w.server = w.start("nats-server", "-c", w.configure())
	w.healthy()
}

// serving is a row's world whose server runs.
func serving(t *testing.T) *world {
	t.Helper()
	row(t)
	w := newWorld(t)
	w.serve()
	return w
}

// often is how many times a row does something: few, or many when it may take long.
func often(few, many int) int {
	if long {
		return many
	}
	return few
}

// healthy waits until JetStream answers.
func (w *world) healthy() {
	w.t.Helper()
	w.eventually("JetStream answers", func() error {
		if w.server.Ended() {
			w.t.Fatal("nats-server ended")
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
	w.server = w.start("spool", append([]string{"up", "--data", w.data, "--listen", w.nats, "--http", w.http, "--log-level",
		"info"}, args...)...)
	w.server.Await("Spool is up.")
}

// fleet starts a persister and the HTTP side, on a server that runs.
func (w *world) fleet() (persister *proc.Process) {
	w.t.Helper()
	persister = w.persister()
	w.start("ingest", "-http", w.http).Await("ingest listens")
	return persister
}

func (w *world) persister() *proc.Process {
	w.t.Helper()
	p := w.start("persister")
	p.Await("persister runs")
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

func (w *world) eventually(what string, try func() error) {
	w.t.Helper()
	must.Eventually(w.t, what, try)
}

func (w *world) dial() *natsio.Conn {
	w.t.Helper()
	conn := must.Get(natsio.Dial(w.t.Context(), natsio.Config{URL: "nats://" + w.nats, User: w.user, Password: w.user}))(w.t)
	w.t.Cleanup(conn.Close)
	return conn
}

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := proc.Command(w.dir, name, args...)
	cmd.Path = filepath.Join(w.tools, name)
	cmd.Env = append(cmd.Env, "NATS_URL=nats://"+w.nats, "NATS_USER="+w.user, "NATS_PASSWORD="+w.user)
	if w.clock != nil {
		cmd.Env = append(cmd.Env, "SPOOL_CLOCK="+w.clock(name))
	}
	return cmd
}

// run runs a command to its end and gives all that it wrote.
func (w *world) run(name string, args ...string) (out string, code int) {
	w.t.Helper()
	stdout, stderr, code := proc.Run(w.t, w.command(name, args...), patience)
	return string(stdout) + string(stderr), code
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

// start runs a command beside the test.
func (w *world) start(name string, args ...string) *proc.Process {
	w.t.Helper()
	cmd := w.command(name, args...)
	if w.inside != nil && (name == "nats-server" || name == "spool") { // whoever has the server's files
		cmd.Args = append([]string{w.inside.nsenter, "-t", strconv.Itoa(w.inside.holder.Pid()), "-m", "--", cmd.Path}, args...)
		cmd.Path = w.inside.nsenter
	}
	if name == "spool" {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "NATS_URL=") }) // it has its own server
	}
	return proc.Start(w.t, cmd)
}

// load is a ledger that publishes.
type load struct {
	*faulttest.Ledger
	w    *world
	stop func()
}

// small is a workload that many rows use: 4 producers, 6 threads.
func small() faulttest.Workload {
	return faulttest.Workload{Sessions: 3, ThreadsEach: 2, Pause: 20 * time.Millisecond, Seed: rand.Uint64()}
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
	const each = 5 * time.Millisecond // a check that goes on is no fault: a row of minutes leaves a hundred thousand to read
	ctx, cancel := context.WithTimeout(w.t.Context(), patience+time.Duration(l.Acked())*each)
	defer cancel()
	began := time.Now()
	if err := l.Check(ctx, w.dial()); err != nil {
		w.t.Error(err)
	}
	w.t.Logf("%d entries acked, %d unknown; checked in %v", l.Acked(), l.Unknown(), time.Since(began).Round(time.Millisecond))
}

// lasts waits for as long as a fault is to last: it is the input of a row, nothing is concluded from it.
func lasts(d time.Duration) { time.Sleep(d) }

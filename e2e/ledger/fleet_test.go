package ledger_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
)

// fleet is the processes of a system. Each is started again whenever it ends, until the fleet is stopped.
type fleet struct {
	t          *testing.T
	dir        string
	nats, http string // addresses
	members    []*member
	run        sync.WaitGroup
}

// newFleet starts a server, two persisters, the HTTP side and a collector.
func newFleet(t *testing.T, cycle time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	f.nats, f.http = proc.Address(t), proc.Address(t)
	f.start("server", "natsd", "-data", f.data(), "-listen", f.nats).await("ready")
	f.start("persister 1", "persister").await("persister runs")
	f.start("persister 2", "persister").await("persister runs")
	f.start("ingest", "ingest", "-http", f.http).await("ingest listens")
	f.start("gc", "gc", "-every", cycle.String(), "-share", "1").await("")
	t.Cleanup(func() { f.stop(syscall.SIGKILL) })
	return f
}

func (f *fleet) data() string { return filepath.Join(f.dir, "data") }
func (f *fleet) url() string  { return "nats://" + f.nats }

func (f *fleet) command(name string, args ...string) *exec.Cmd {
	cmd := proc.Command(f.dir, name, args...)
	cmd.Env = append(cmd.Env, "NATS_URL="+f.url())
	if name == "natsd" {
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=3GiB") // it keeps what was read of its streams for a while
	}
	return cmd
}

func (f *fleet) start(name, command string, args ...string) *member {
	m := &member{t: f.t, name: name, make: func() *exec.Cmd { return f.command(command, args...) }}
	f.members = append(f.members, m)
	m.begin()
	f.run.Go(m.keep)
	return m
}

// stop ends everything, the server last, and says what went wrong.
func (f *fleet) stop(with syscall.Signal) (wrong []string) {
	for i := len(f.members) - 1; i >= 0; i-- {
		wrong = append(wrong, f.members[i].end(with)...)
	}
	f.run.Wait()
	return wrong
}

// member is one process after another.
type member struct {
	t    *testing.T
	name string
	make func() *exec.Cmd

	mu     sync.Mutex
	now    *proc.Process
	ending bool
	kills  int
	wrong  []string // how it ended when nobody killed it
	peak   int64    // most memory of one of its processes that was seen, in bytes
}

func (m *member) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending {
		return
	}
	p, err := proc.Begin(m.t, m.make())
	if err != nil {
		m.t.Error(err)
		return
	}
	m.now = p
}

// keep starts the next process when one ends.
func (m *member) keep() {
	for {
		m.mu.Lock()
		p, ending := m.now, m.ending
		m.mu.Unlock()
		state := p.State() // waits
		if ending {
			return
		}
		m.mu.Lock()
		status, ok := state.Sys().(syscall.WaitStatus)
		killed := ok && status.Signal() == syscall.SIGKILL
		early := strings.Contains(p.Lines(40), "connect to NATS:") // it was begun while there was no server
		if !m.ending && !killed && !early {
			m.wrong = append(m.wrong, fmt.Sprintf("%s ended by itself: %v\n%s", m.name, state, p.Lines(40)))
		}
		m.mu.Unlock()
		time.Sleep(100 * time.Millisecond) // as a supervisor waits
		m.begin()
	}
}

// await returns when the process of now has said something.
func (m *member) await(text string) {
	m.t.Helper()
	m.mu.Lock()
	p := m.now
	m.mu.Unlock()
	p.Await(text)
}

func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = max(m.peak, m.now.Peak())
	m.kills++
	m.now.Kill()
}

// end ends the process for good.
func (m *member) end(with syscall.Signal) (wrong []string) {
	m.mu.Lock()
	p, first := m.now, !m.ending
	m.ending = true
	m.peak = max(m.peak, p.Peak())
	m.mu.Unlock()
	if !first {
		return nil
	}
	p.Signal(with)
	if code := p.Wait(); with == syscall.SIGTERM && code != 0 {
		m.wrong = append(m.wrong, fmt.Sprintf("%s after SIGTERM: exit code %d, want 0\n%s", m.name, code, p.Lines(40)))
	}
	return m.wrong
}

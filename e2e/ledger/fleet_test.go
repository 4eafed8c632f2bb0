package ledger_test

import (
	"bytes"
	"fmt"
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
	f.nats, f.http = address(t), address(t)
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

// address is one that nothing listens on, outside of the range from which outgoing connections take theirs, so that it stays free
// while its process is down.
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

func (f *fleet) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = f.dir
	cmd.Env = []string{"HOME=" + f.dir, "TMPDIR=" + f.dir, "PATH=" + os.Getenv("PATH"), "NATS_URL=" + f.url()}
	if name == "natsd" {
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=3GiB") // it keeps what was read of its streams for a while
	}
	return cmd
}

// start keeps a command running.
func (f *fleet) start(name, command string, args ...string) *member {
	m := &member{t: f.t, name: name, make: func() *exec.Cmd { return f.command(command, args...) }}
	f.members = append(f.members, m)
	m.begin()
	f.run.Add(1)
	go func() {
		defer f.run.Done()
		m.keep()
	}()
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
	now    *process
	ending bool
	kills  int
	wrong  []string // how it ended when nobody killed it
	peak   int64    // most memory of one of its processes that was seen, in bytes
}

// process is one that runs, or ran.
type process struct {
	cmd    *exec.Cmd
	said   *tail
	exited chan struct{}
}

func (m *member) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending {
		return
	}
	p := &process{cmd: m.make(), said: &tail{}, exited: make(chan struct{})}
	p.cmd.Stderr = p.said
	if err := p.cmd.Start(); err != nil {
		m.t.Error(err)
		return
	}
	m.now = p
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
}

// keep starts the next process when one ends.
func (m *member) keep() {
	for {
		m.mu.Lock()
		p, ending := m.now, m.ending
		m.mu.Unlock()
		<-p.exited
		if ending {
			return
		}
		m.mu.Lock()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !m.ending && (!ok || status.Signal() != syscall.SIGKILL) {
			m.wrong = append(m.wrong, fmt.Sprintf("%s ended by itself: %v\n%s", m.name, p.cmd.ProcessState, p.said))
		}
		m.mu.Unlock()
		time.Sleep(100 * time.Millisecond) // as a supervisor waits
		m.begin()
	}
}

// await returns when the process of now has said something.
func (m *member) await(text string) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		m.mu.Lock()
		p := m.now
		m.mu.Unlock()
		if strings.Contains(p.said.String(), text) {
			return
		}
		select {
		case <-p.exited:
			m.t.Fatalf("%s ended before it said %q:\n%s", m.name, text, p.said)
		default:
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s never said %q:\n%s", m.name, text, p.said)
		}
	}
}

// kill is kill -9.
func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = max(m.peak, m.now.memory())
	m.kills++
	_ = m.now.cmd.Process.Kill()
}

// end ends the process for good.
func (m *member) end(with syscall.Signal) (wrong []string) {
	m.mu.Lock()
	p, first := m.now, !m.ending
	m.ending = true
	m.peak = max(m.peak, p.memory())
	m.mu.Unlock()
	if !first {
		return nil
	}
	_ = p.cmd.Process.Signal(with)
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	if code := p.cmd.ProcessState.ExitCode(); with == syscall.SIGTERM && code != 0 {
		m.wrong = append(m.wrong, fmt.Sprintf("%s after SIGTERM: exit code %d, want 0\n%s", m.name, code, p.said))
	}
	return m.wrong
}

// memory is the most that the process has had, in bytes; 0 where the system does not say.
func (p *process) memory() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// tail is the first and the last that a process said.
type tail struct {
	mu         sync.Mutex
	head, last []byte
}

const tailBytes = 8 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tailBytes - len(t.head); room > 0 {
		t.head = append(t.head, b[:min(room, len(b))]...)
		return len(b), nil
	}
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.head) + string(t.last)
}

package attack_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// world is the processes under attack. Each has its own proxy to the NATS server.
type world struct {
	t          *testing.T
	dir        string
	embedded   bool // the server is in "spool up", which is a persister and serves HTTP, too
	nats       string
	server     *member
	persisters []*member // beside the one in "spool up"
	ingest     *member
	clients    *proxy // of what publishes over NATS
	web        *proxy // of what publishes over HTTP
	members    []*member
	config     string // with policies of retention
}

// member is a process that is begun again after each death.
type member struct {
	w     *world
	name  string
	ready string // what its log says when it works
	make  func() *exec.Cmd
	link  *proxy // to the NATS server; nil: it is the server
	mu    sync.Mutex
	now   *proc.Process
	old   []*proc.Process
	kills int
	most  int64 // memory, bytes
}

func newWorld(t *testing.T, embedded bool, config string) *world {
	w := &world{t: t, dir: t.TempDir(), embedded: embedded, nats: proc.Address(t), config: config}
	data := filepath.Join(w.dir, "data")
	if embedded {
		own := proc.Address(t) // its HTTP side is not attacked: ingest is
		w.server = w.add("up", "Spool is up.", false, "spool", "up", "--data", data, "--listen", w.nats, "--http", own,
			"--gc-every", "0", "--log-level", "info")
	} else {
		w.server = w.add("natsd", "ready", false, "natsd", "-data", data, "-listen", w.nats)
		w.persisters = append(w.persisters, w.add("persister-1", "persister runs", true, "persister"))
	}
	w.persisters = append(w.persisters, w.add("persister-2", "persister runs", true, "persister"))
	listen := proc.Address(t)
	w.ingest = w.add("ingest", "ingest listens", true, "ingest", "-http", listen)
	w.add("gc", "", true, "gc", "-every", "3s", "-share", "1", "-quarantine", "4s", "-config", config)
	w.clients, w.web = newProxy(t, w.nats), newProxy(t, listen)
	return w
}

func (w *world) add(name, ready string, linked bool, command string, args ...string) *member {
	m := &member{w: w, name: name, ready: ready}
	url := "nats://" + w.nats
	if linked {
		m.link = newProxy(w.t, w.nats)
		url = "nats://" + m.link.addr
	}
	m.make = func() *exec.Cmd {
		cmd := proc.Command(w.dir, command, args...)
		if m.link != nil { // the server has a server of its own
			cmd.Env = append(cmd.Env, "NATS_URL="+url)
		}
		return cmd
	}
	w.members = append(w.members, m)
	m.start()
	return m
}

// start begins the process and returns when it works. One that ends before is begun again: its server may be away.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for end := time.Now().Add(must.Patience); ; {
		p, err := proc.Begin(m.w.t, m.make())
		if err != nil {
			m.w.t.Errorf("start %s: %v", m.name, err)
			return
		}
		m.now, m.old = p, append(m.old, p)
		for time.Now().Before(end) && !p.Ended() {
			if strings.Contains(p.Log(), m.ready) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		if !time.Now().Before(end) {
			m.w.t.Errorf("%s does not work within %v", m.name, must.Patience)
			return
		}
	}
}

// kill ends the process at once and begins it again.
func (m *member) kill() {
	m.mu.Lock()
	m.kills++
	m.most = max(m.most, m.now.Peak())
	m.now.Kill()
	m.mu.Unlock()
	m.start()
}

// stop ends the process in order and begins it again.
func (m *member) stop() {
	m.mu.Lock()
	m.kills++
	m.most = max(m.most, m.now.Peak())
	p := m.now
	_ = syscall.Kill(p.Pid(), syscall.SIGTERM)
	select {
	case <-p.Done():
		if code := p.State().ExitCode(); code != 0 && m.link == nil {
			m.w.t.Errorf("%s was told to stop and ended with %d", m.name, code)
		}
	case <-time.After(must.Patience):
		m.w.t.Errorf("%s does not stop", m.name)
		_ = syscall.Kill(p.Pid(), syscall.SIGQUIT)
		p.Kill()
	}
	m.mu.Unlock()
	m.start()
}

// freeze stops the process for a while.
func (m *member) freeze(d time.Duration, meanwhile func()) {
	m.mu.Lock()
	p := m.now
	_ = syscall.Kill(p.Pid(), syscall.SIGSTOP)
	m.mu.Unlock()
	time.Sleep(d) // how long the fault lasts
	_ = syscall.Kill(p.Pid(), syscall.SIGCONT)
	if meanwhile != nil {
		meanwhile()
	}
}

// revive begins again what has ended by itself.
func (w *world) revive() {
	for _, m := range w.members {
		m.mu.Lock()
		ended := m.now.Ended()
		m.mu.Unlock()
		if ended {
			m.start()
		}
	}
}

// tool runs one of Spool's commands on the server, past all proxies.
func (w *world) tool(within time.Duration, args ...string) (out string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := proc.Command(w.dir, "spool", args...)
	bound := exec.CommandContext(ctx, cmd.Path, args...)
	if bound.Dir, bound.Env = cmd.Dir, cmd.Env; args[0] != "restore" {
		bound.Env = append(bound.Env, "NATS_URL=nats://"+w.nats)
	}
	b, err := bound.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return fmt.Sprintf("%s\nspool %v: not within %v", b, args, within), -2
	}
	return string(b), bound.ProcessState.ExitCode()
}

// dial connects to an address, and goes on after every loss of the connection.
func dial(t *testing.T, addr string) *nats.Conn {
	t.Helper()
	nc := must.Get(nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1), nats.PingInterval(2*time.Second)))(t)
	t.Cleanup(nc.Close)
	return nc
}

// noCrash reports what a process said that no process may say.
func (w *world) noCrash() {
	for _, m := range w.members {
		m.mu.Lock()
		for i, p := range m.old {
			log := p.Log()
			for _, bad := range []string{"panic:", "DATA RACE", "fatal error:"} {
				if at := strings.Index(log, bad); at >= 0 {
					w.t.Errorf("%s, life %d: %.3000s", m.name, i+1, log[at:])
				}
			}
		}
		m.most = max(m.most, m.now.Peak())
		w.t.Logf("%s: %d lives, %d kills, at most %d MiB", m.name, len(m.old), m.kills, m.most>>20)
		m.mu.Unlock()
	}
}

// httpClient does not wait for ever: an answer that was lost is an unknown outcome.
func httpClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
}

package cluster_test

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// process runs beside the test. What is left of it at the end is killed.
type process struct {
	cmd    *exec.Cmd
	out    *tail
	exited chan struct{}
}

func begin(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &tail{}, exited: make(chan struct{})}
	cmd.Stderr = p.out
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // with the test, however that ends
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.exited) }()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// ask asks it to end.
func (p *process) ask() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// tail keeps the end of what was written to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailBytes = 64 << 10

func (o *tail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > 2*tailBytes {
		o.b.Next(o.b.Len() - tailBytes)
	}
	return o.b.Write(p)
}

// last are its last lines.
func (o *tail) last(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.b.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

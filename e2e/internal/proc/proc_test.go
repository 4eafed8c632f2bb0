package proc_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// What this binary does when it is started again: see TestMain.
const roleEnv = "SPOOL_PROC_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "sleep":
		fmt.Fprintln(os.Stderr, "asleep")
		time.Sleep(time.Hour)
	case "fail":
		fmt.Fprintln(os.Stderr, "no luck")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func self(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

func TestProcess(t *testing.T) {
	var p *proc.Process
	t.Run("signals", func(t *testing.T) {
		p = proc.Start(t, self("sleep"))
		p.Await("asleep")
		p.Signal(syscall.SIGSTOP)
		must.Eventually(t, "it stands still", func() error {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
			if _, state, _ := strings.Cut(string(b), ") "); err == nil && !strings.HasPrefix(state, "T") {
				return errors.New("it runs")
			}
			return nil
		})
		p.Signal(syscall.SIGCONT)
		if p.Ended() {
			t.Error("it has ended")
		}
	})
	if !p.Ended() {
		t.Error("the process lives on behind its test")
	}
	if _, stderr, code := proc.Run(t, self("fail"), must.Patience); code != 3 || string(stderr) != "no luck\n" {
		t.Errorf("Run = %q, code %d, want its last words and 3", stderr, code)
	}
	p = proc.Start(t, self("sleep"))
	p.Await("asleep")
	if code := p.Stop(); code != -1 { // SIGTERM has no handler in there
		t.Errorf("Stop = %d, want -1", code)
	}
}

// TestPanic: a binary that panics, and so runs no cleanup, leaves no process behind.
func TestPanic(t *testing.T) {
	if os.Getenv(roleEnv) == "panic" {
		cmd := self("sleep")
		p := proc.Start(t, cmd)
		p.Await("asleep")
		fmt.Printf("pid %d\n", p.Pid())
		go panic("on purpose") // in no test's goroutine: nothing recovers it
		select {}
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ends a child with its parent")
	}
	out, err := self("panic", "-test.run=^TestPanic$").Output()
	if err == nil {
		t.Fatal("it does not panic")
	}
	_, rest, _ := strings.Cut(string(out), "pid ")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		t.Fatalf("no pid in %q", out)
	}
	must.Eventually(t, "the child is gone", func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, _ := strings.Cut(string(b), ") "); err == nil && !strings.HasPrefix(state, "Z") {
			return fmt.Errorf("%.80s", b)
		}
		return nil
	})
}

// TestPorts: no two calls get the same port while both tests run, and it is free to listen on.
func TestPorts(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		p := proc.Port(t)
		if seen[p] {
			t.Fatalf("port %d was given twice", p)
		}
		seen[p] = true
	}
	l := must.Get(net.Listen("tcp", proc.Address(t)))(t)
	_ = l.Close()
}

// Package proc runs real processes for tests: it builds commands once a test binary, starts them, awaits what they say, sends them
// signals and ends them. Every process ends with its test, and on Linux with the test binary, also when that panics or is killed. What a
// process wrote is kept until the test ends, and shown when the test fails.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/internal/must"
)

const (
	shownTail = 4 << 10  // bytes of each log that a failed test shows
	shownDump = 12 << 10 // bytes of the goroutines of a process that still ran
)

// bin is the folder that Main's packages were built into.
var bin string

// Bin is the folder with the commands that Main has built.
func Bin() string { return bin }

// tests is what a test binary runs.
type tests struct {
	m        interface{ Run() int }
	packages []string
}

// Main is the tests of a binary that needs these commands, given by import path. Its Run builds them, runs the tests and
// removes them. It is what TestMain runs: os.Exit(proc.Main(m, "spool/cmd/gc").Run()), or goleak.VerifyTestMain(proc.Main(…)).
func Main(m interface{ Run() int }, packages ...string) interface{ Run() int } {
	return tests{m, packages}
}

// Run implements what Main returns.
func (r tests) Run() int {
	dir, err := os.MkdirTemp("", "spool-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := Build(dir, r.packages...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	return r.m.Run()
}

// Build builds packages into a folder. Arguments of go build may stand before them. Where SPOOL_BUILT names a folder with all commands of
// this tree, as .ci/run makes one, they are linked to instead of built once more for every test binary.
func Build(dir string, packages ...string) error {
	if built := os.Getenv("SPOOL_BUILT"); built != "" && !strings.HasPrefix(packages[0], "-") {
		return link(built, dir)
	}
	args := append([]string{"build", "-o", dir + string(os.PathSeparator)}, packages...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", args, err, out)
	}
	return nil
}

// link makes a link in dir to each command that is built.
func link(built, dir string) error {
	commands, err := os.ReadDir(built)
	for _, c := range commands {
		err = errors.Join(err, os.Symlink(filepath.Join(built, c.Name()), filepath.Join(dir, c.Name())))
	}
	return err
}

// Command is a command that Main has built, with a home directory and nothing of this process's environment but PATH, which has the
// built commands first.
func Command(home, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	return cmd
}

// Process is a command that runs beside a test, or has run. All methods are safe for concurrent use; those that fail the test are for
// the test's own goroutine.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	log  string // file
	done chan struct{}
}

// Start starts a command and ends it (kill -9) with the test. Its standard error goes to its log, and its standard output too when
// cmd has no other place for it.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := must.Get(Begin(t, cmd))(t)
	return p
}

// Begin is Start for goroutines other than the test's own.
func Begin(t testing.TB, cmd *exec.Cmd) (*Process, error) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has a handle of its own
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{t: t, cmd: cmd, log: log.Name(), done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	t.Cleanup(p.end)
	return p, nil
}

// end ends the process with its test. A failed test shows what the process wrote last, and what its goroutines do if it still runs.
func (p *Process) end() {
	if !p.t.Failed() {
		p.Kill()
		return
	}
	said := len(p.Log())
	if !p.Ended() {
		p.dump()
	}
	log := p.Log()
	wrote, dump := log[:said], brief(log[said:])
	p.t.Logf("%.300q, %v, wrote %d bytes:\n%s%s", p.cmd.Args, p.cmd.ProcessState, said, wrote[max(0, said-shownTail):],
		dump[:min(len(dump), shownDump)])
}

// brief is a dump of goroutines without those in which nothing of Spool runs, and without the frames of Go's runtime.
func brief(dump string) string {
	var kept strings.Builder
	for block := range strings.SplitSeq(dump, "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if !strings.Contains(block, "\nspool/") {
			continue
		}
		fmt.Fprintf(&kept, "%s\n", lines[0])
		for i := 1; i+1 < len(lines); i += 2 {
			if call, where := lines[i], lines[i+1]; !strings.HasPrefix(call, "runtime.") {
				call, _, _ = strings.Cut(call, "({")
				where, _, _ = strings.Cut(where, " +0x")
				fmt.Fprintf(&kept, "\t%s %s\n", call, strings.TrimSpace(where))
			}
		}
	}
	return kept.String()
}

// Log is what the process has written so far.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Lines are the last lines of its log.
func (p *Process) Lines(n int) string {
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Pid is its number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Args is its command line.
func (p *Process) Args() []string { return p.cmd.Args }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// State is how the process ended. It waits until it has.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Await returns when the log has a text. The test fails when the process ends without.
func (p *Process) Await(text string) {
	p.t.Helper()
	must.Eventually(p.t, fmt.Sprintf("%.300q says %q", p.cmd.Args, text), func() error {
		ended := p.Ended() // before the log is read: what it wrote last counts
		if strings.Contains(p.Log(), text) {
			return nil
		}
		if ended {
			p.t.Fatalf("%.300q ended before it said %q: %v", p.cmd.Args, text, p.cmd.ProcessState)
		}
		return errors.New("it does not")
	})
}

// Kill is kill -9. It returns when the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal. That the process has ended already is no failure.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Stop ends the process in order (SIGTERM) and gives its exit code.
func (p *Process) Stop() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait()
}

// Wait gives the exit code of a process that is about to end.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(must.Patience):
		p.dump()
		p.t.Fatalf("%.300q does not end", p.cmd.Args)
	}
	return p.cmd.ProcessState.ExitCode()
}

// dump makes the process write its goroutines to its log, and ends it.
func (p *Process) dump() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Peak is the most memory that the process has had, in bytes; 0 where the system does not say, and when the process has ended.
func (p *Process) Peak() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// PeakOf is the most memory that a command that has ended has had, in bytes.
func PeakOf(cmd *exec.Cmd) int64 {
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return used.Maxrss << 10
}

// Run runs a command to its end and gives what it wrote and its exit code. The test fails when the command cannot be started, crashes
// with goroutines, or takes longer than within: then it is made to write its goroutines.
func Run(t testing.TB, cmd *exec.Cmd, within time.Duration) (stdout, stderr []byte, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	cmd.WaitDelay = 10 * time.Second // what it has started may hold its output open
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
	must.Do(t, cmd.Start())
	stuck := time.AfterFunc(within, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	late := !stuck.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || late || bytes.Contains(errs.Bytes(), []byte("\ngoroutine ")) {
		t.Fatalf("%.300q: %v (stopped after %v: %v)\n%.20000s", cmd.Args, err, within, late, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}

// EndWithParent has a command that no test runs end with this process, on Linux.
func EndWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
}

// Command sim searches: it builds the simulation, with a defect put in if one is named, and runs schedules in a
// process a core until one breaks a rule.
//
//	go run ./internal/sim/cmd/sim -count 20000          schedules 1 to 20,000
//	go run ./internal/sim/cmd/sim -count 0 -budget 8h   a night
//	go run ./internal/sim/cmd/sim -mutants all          after how many schedules each defect is found
//	go run ./internal/sim/cmd/sim -mutants all -compile are all defects still there to be put in?
//	go run ./internal/sim/cmd/sim -seed N -- -shrink 500
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spool/internal/sim"
)

var (
	root    = flag.String("root", ".", "directory of the source")
	from    = flag.Uint64("from", 1, "the first schedule")
	count   = flag.Uint64("count", 20_000, "how many schedules; 0 = until the budget is used up")
	budget  = flag.Duration("budget", 10*time.Minute, "how long")
	workers = flag.Int("workers", runtime.NumCPU(), "processes")
	seed    = flag.Uint64("seed", 0, "run this schedule alone, and print its trace; behind --: -shrink 500 -logs")
	twice   = flag.Uint64("replay", 0, "run so many schedules twice in each of two processes, and compare")
	mutants = flag.String("mutants", "", "names of defects to put in, one after another, separated by commas; all")
	compile = flag.Bool("compile", false, "with -mutants: run nothing, say which of them cannot be put in")
	table   = flag.String("table", "", "with -mutants: a document whose table of defects is made anew")
	all     = flag.Bool("all", false, "go on after a failure, and say which rules were broken how often")
	about   = flag.String("about", "", "only programs that are about this: faults,sweep …")
	stats   = flag.Bool("stats", false, "say which messages failed how, and how often")
	profile = flag.String("profile", "", "write CPU profiles of the workers to this file, with .0, .1 … behind its name")
	patient = flag.Duration("patience", time.Minute, "a schedule that takes longer hangs")
)

func main() {
	flag.Parse()
	if err := search(); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func search() error {
	dir, err := os.MkdirTemp("", "sim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	switch {
	case *seed > 0:
		return replay(dir)
	case *twice > 0:
		return replayAll(dir)
	}
	if *mutants == "" {
		bin, err := overlaid(dir, sim.Mutant{Name: "none"})
		if err != nil {
			return err
		}
		f := newFound()
		f.run(bin)
		f.print(os.Stdout)
		switch {
		case len(f.rules) > 0:
			return fmt.Errorf("%d rules are broken", len(f.rules))
		case f.done == 0:
			return errors.New("no schedule ran: is there a program -about that?")
		}
		fmt.Println("no rule was broken")
		return nil
	}
	return tryMutants(dir)
}

// overlaid builds with a defect put in, and with what makes schedules cheaper and changes nothing that they can see.
func overlaid(dir string, m sim.Mutant) (string, error) {
	abs, err := filepath.Abs(*root)
	if err != nil {
		return "", err
	}
	overlay, err := simulated(abs, m, true).Overlay(abs, dir)
	if err != nil {
		var other error
		if overlay, other = simulated(abs, m, false).Overlay(abs, dir); other != nil {
			return "", err
		}
		fmt.Fprintln(os.Stderr, "sim: this Go is not the one that testdata/replay knows; seeds do not replay exactly:", err)
	}
	return build(dir, overlay)
}

// build makes the test binary.
func build(dir, overlay string) (string, error) {
	bin := filepath.Join(dir, "sim.test")
	args := []string{"test", "-c", "-ldflags=-s -w", "-o", bin}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./internal/sim")...)
	cmd.Dir = *root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}

// found is what the workers found.
type found struct {
	mu     sync.Mutex
	rules  map[string]*hit
	done   int
	steps  int
	ops    int            // operations of the server
	counts map[string]int // of faults
	took   time.Duration
	cpu    time.Duration // of the workers
	stuck  atomic.Int64  // schedules that did not end, for a reason that is not of the system
	clean  string        // the binary without the defect that is put in; "" = there is none
	stop   chan struct{}
	once   sync.Once
}

type hit struct {
	seed  uint64
	text  string
	times int
}

func newFound() *found {
	return &found{rules: map[string]*hit{}, counts: map[string]int{}, stop: make(chan struct{})}
}

func (f *found) add(seed uint64, broken []string) {
	if f.clean != "" && !passes(f.clean, seed) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rule := sim.Rule(broken)
	if f.rules[rule] == nil {
		f.rules[rule] = &hit{seed: seed, text: broken[0]}
	}
	f.rules[rule].times++
	if !*all {
		f.once.Do(func() { close(f.stop) })
	}
}

// passes reports whether a schedule breaks nothing in the binary as it is, however often it is run: accidents of a
// process may decide too.
func passes(bin string, seed uint64) bool {
	for range 3 {
		if !passesOnce(bin, seed) {
			return false
		}
	}
	return true
}

func passesOnce(bin string, seed uint64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), *patient)
	defer cancel()
	out, err := exact(ctx, bin, "^TestWorker$", "-from", fmt.Sprint(seed), "-count", "1", "-about", *about).Output()
	return err == nil && !bytes.Contains(out, []byte(`"broken"`))
}

// exact runs one test of the binary, in the one way in which seeds are exact.
func exact(ctx context.Context, bin, test string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.run", test}, args...)...)
	cmd.Env = append(os.Environ(), "SPOOL_SIM_WORKER=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	return cmd
}

func (f *found) print(w io.Writer) {
	fmt.Fprintf(w, "%d schedules in %v, %.0f a second, %d steps each\n", f.done, f.took.Round(time.Millisecond),
		float64(f.done)/f.took.Seconds(), f.steps/max(f.done, 1))
	fmt.Fprintf(w, "%d operations of the server, %.0f a second, %d in a schedule\n", f.ops,
		float64(f.ops)/f.took.Seconds(), f.ops/max(f.done, 1))
	fmt.Fprintf(w, "%v of a processor, %.2f ms a schedule\n", f.cpu.Round(time.Millisecond),
		f.cpu.Seconds()*1000/float64(max(f.done, 1)))
	for _, rule := range slices.Sorted(maps.Keys(f.rules)) {
		h := f.rules[rule]
		fmt.Fprintf(w, "%6d times, first by seed %d: %s\n", h.times, h.seed, h.text)
	}
	if n := f.stuck.Load(); n > 0 {
		fmt.Fprintf(w, "%d schedules did not end, because nats.go waits with a mutex in its hand\n", n)
	}
	if !*stats {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		fmt.Fprintf(w, "%8d %s\n", f.counts[what], what)
	}
}

// run runs the workers until all have ended, or one has found something.
func (f *found) run(bin string) {
	began := time.Now()
	var wg sync.WaitGroup
	for i := range *workers {
		wg.Go(func() {
			n := (*count + uint64(*workers-1-i)) / uint64(*workers)
			if *count > 0 && n == 0 { // 0 would be as many as there is time for
				return
			}
			for at := *from + uint64(i); ; {
				next, again := f.worker(bin, at, n, *budget-time.Since(began))
				if !again {
					return
				}
				if *count > 0 {
					if n -= (next - at) / uint64(*workers); n == 0 || n > *count {
						return
					}
				}
				at = next
			}
		})
	}
	wg.Wait()
	f.took = time.Since(began)
}

// worker runs one process. When it dies over a schedule, that is a finding, and another one goes on behind it.
func (f *found) worker(bin string, at, n uint64, left time.Duration) (next uint64, again bool) {
	args := []string{"-test.timeout", "0", "-from", fmt.Sprint(at), "-step",
		fmt.Sprint(*workers), "-count", fmt.Sprint(n), "-budget", left.String(), "-about", *about}
	if *all || f.clean != "" {
		args = append(args, "-all")
	}
	if *profile != "" {
		args = append(args, "-test.cpuprofile", fmt.Sprintf("%s.%d", *profile, at%uint64(*workers)))
	}
	cmd := exact(context.Background(), bin, "^TestWorker$", args...)
	cmd.Env = append(cmd.Env, "GOTRACEBACK=all")
	var last bytes.Buffer
	cmd.Stderr = &last
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		return 0, false
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<28) // what is broken may tell whole bodies
		for s.Scan() {
			if strings.HasPrefix(s.Text(), "{") {
				lines <- s.Text()
			} else {
				fmt.Fprintln(&last, s.Text())
			}
		}
	}()
	open, hangs := f.follow(cmd, lines)
	err = cmd.Wait()
	f.mu.Lock()
	f.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	f.mu.Unlock()
	select {
	case <-f.stop:
		return 0, false
	default:
	}
	if open == 0 {
		if err != nil { // between two schedules: fewer ran than were asked for
			f.add(at, []string{fmt.Sprintf("a worker ended: %v %s", err, cause(last.String()))})
		}
		return 0, false
	}
	if hangs && strings.Contains(last.String(), "(*orderedSubscription).Stop") {
		// nats.go waits with a mutex in its hand: in a bubble time does not go on then. It says nothing.
		f.stuck.Add(1)
		return open + uint64(*workers), true
	}
	text := cause(last.String())
	if hangs {
		text = "the schedule hangs"
	}
	f.add(open, []string{fmt.Sprintf("the process died: %s (%v)", text, err)})
	return open + uint64(*workers), *all || f.clean != ""
}

// follow reads what a worker says, and returns the schedule that it did not end, if there is one.
func (f *found) follow(cmd *exec.Cmd, lines <-chan string) (open uint64, hangs bool) {
	for {
		select {
		case text, ok := <-lines:
			if !ok {
				return open, hangs
			}
			var l sim.Line
			if json.Unmarshal([]byte(text), &l) != nil {
				continue
			}
			if open = l.Seed; !l.Done {
				continue
			}
			open = 0
			f.mu.Lock()
			f.done++
			f.steps += l.Steps
			f.ops += l.Operations
			for what, n := range l.Counts {
				f.counts[what] += n
			}
			f.mu.Unlock()
			if len(l.Broken) > 0 {
				f.add(l.Seed, l.Broken)
			}
		case <-time.After(*patient):
			hangs = true
			_ = cmd.Process.Signal(syscall.SIGQUIT) // it says where everybody is
		case <-f.stop:
			_ = cmd.Process.Kill()
			for range lines {
			}
			return 0, false
		}
	}
}

// cause is the line of a crash that says why, and the first place of this module's own.
func cause(s string) string {
	why := ""
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		switch {
		case why == "" && (strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")):
			why = line
		case why != "" && strings.Contains(line, ".go:") && (strings.Contains(line,
			"/internal/") || strings.Contains(line, "/pkg/")) && !strings.Contains(line,
			"/usr/local/go/") && !strings.Contains(line, "/pkg/mod/"):
			return why + " at " + line
		}
	}
	return why
}

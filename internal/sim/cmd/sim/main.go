// Command sim searches: it builds the simulation, with a defect put in if one is named, and runs schedules in a
// process a core until one breaks a rule.
//
//	go run ./internal/sim/cmd/sim -count 20000          schedules 1 to 20,000
//	go run ./internal/sim/cmd/sim -count 0 -budget 8h   a night
//	go run ./internal/sim/cmd/sim -mutants all          after how many schedules each defect is found
//	go run ./internal/sim/cmd/sim -seed N -- -shrink 500
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
	all     = flag.Bool("all", false, "go on after a failure, and say which rules were broken how often")
	patient = flag.Duration("patience", 2*time.Minute, "a schedule that takes longer hangs")
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
		if len(f.rules) > 0 {
			return fmt.Errorf("%d rules are broken", len(f.rules))
		}
		return nil
	}
	list, err := sim.Mutants(filepath.Join(*root, "internal/sim/testdata/mutants"))
	if err != nil {
		return err
	}
	clean, err := overlaid(dir, sim.Mutant{Name: "none"})
	if err != nil {
		return err
	}
	if err := os.Rename(clean, clean+".clean"); err != nil {
		return err
	}
	clean += ".clean"
	missed := 0
	for _, m := range list {
		if *mutants != "all" && !slices.Contains(strings.Split(*mutants, ","), m.Name) {
			continue
		}
		found, err := try(dir, clean, m)
		if err != nil {
			return err
		}
		if !found {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d defects were not found", missed)
	}
	return nil
}

// try runs schedules with a defect put in. A schedule that fails without it too says nothing.
func try(dir, clean string, m sim.Mutant) (found bool, err error) {
	bin, err := overlaid(dir, m)
	if err != nil {
		return false, err
	}
	f := newFound()
	f.clean = clean
	f.run(bin)
	if len(f.rules) == 0 {
		fmt.Printf("%-28s NOT FOUND in %d schedules, %v: %s\n", m.Name, f.done, f.took.Round(time.Second), m.What)
		return false, nil
	}
	for _, rule := range slices.Sorted(maps.Keys(f.rules)) {
		h := f.rules[rule]
		fmt.Printf("%-28s found after %d schedules, %v, seed %d: %s\n", m.Name, f.done, f.took.Round(time.Second),
			h.seed, h.text)
		break
	}
	return true, nil
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
	args := []string{"test", "-c", "-o", bin}
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
	mu    sync.Mutex
	rules map[string]*hit
	done  int
	steps int
	ops   int // operations of the server
	took  time.Duration
	clean string // the binary without the defect that is put in; "" = there is none
	stop  chan struct{}
	once  sync.Once
}

type hit struct {
	seed  uint64
	text  string
	times int
}

func newFound() *found { return &found{rules: map[string]*hit{}, stop: make(chan struct{})} }

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

// passes reports whether a schedule breaks nothing in the binary as it is.
func passes(bin string, seed uint64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), *patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run", "^TestWorker$", "-from", fmt.Sprint(seed), "-count", "1")
	cmd.Env = append(os.Environ(), "SPOOL_SIM_WORKER=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	out, err := cmd.Output()
	return err == nil && !bytes.Contains(out, []byte(`"broken"`))
}

func (f *found) print(w io.Writer) {
	fmt.Fprintf(w, "%d schedules in %v, %.0f a second, %d steps each\n", f.done, f.took.Round(time.Millisecond),
		float64(f.done)/f.took.Seconds(), f.steps/max(f.done, 1))
	fmt.Fprintf(w, "%d operations of the server, %.0f a second, %d in a schedule\n", f.ops,
		float64(f.ops)/f.took.Seconds(), f.ops/max(f.done, 1))
	for _, rule := range slices.Sorted(maps.Keys(f.rules)) {
		h := f.rules[rule]
		fmt.Fprintf(w, "%6d times, first by seed %d: %s\n", h.times, h.seed, h.text)
	}
}

// run runs the workers until all have ended, or one has found something.
func (f *found) run(bin string) {
	began := time.Now()
	var wg sync.WaitGroup
	for i := range *workers {
		wg.Go(func() {
			n := *count / uint64(*workers)
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
	args := []string{"-test.run", "^TestWorker$", "-test.timeout", "0", "-from", fmt.Sprint(at), "-step",
		fmt.Sprint(*workers), "-count", fmt.Sprint(n), "-budget", left.String()}
	if *all || f.clean != "" {
		args = append(args, "-all")
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "SPOOL_SIM_WORKER=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
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
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "{") {
				lines <- s.Text()
			} else {
				fmt.Fprintln(&last, s.Text())
			}
		}
	}()
	open, hangs := f.follow(cmd, lines)
	err = cmd.Wait()
	select {
	case <-f.stop:
		return 0, false
	default:
	}
	if open == 0 {
		return 0, false
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
			f.mu.Unlock()
			if len(l.Broken) > 0 {
				f.add(l.Seed, l.Broken)
			}
		case <-time.After(*patient):
			hangs = true
			_ = cmd.Process.Kill()
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

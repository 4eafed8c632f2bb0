package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"spool/internal/must"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "TestSeed: the schedule to run")
	from    = flag.Uint64("from", 1, "TestSim, TestWorker: the first schedule")
	step    = flag.Uint64("step", 1, "TestSim, TestWorker: from one schedule to the next")
	count   = flag.Uint64("count", 100, "TestSim, TestWorker: how many schedules; 0 = until -budget is used up")
	budget  = flag.Duration("budget", 20*time.Second, "TestSim, TestWorker: how long")
	about   = flag.String("about", "", "TestSim, TestWorker, TestSeed: only programs that are about this: faults,sweep …")
	program = flag.String("program", "", "TestSeed: a program of this file in the place of the seed's own")
	shrink  = flag.Int("shrink", 0, "TestSeed: make a failing program smaller, in so many runs at most")
	logs    = flag.Bool("logs", false, "TestSeed: show what the processes log")
	keepOn  = flag.Bool("all", false, "TestSim, TestWorker: go on after a failure")
)

func TestMain(m *testing.M) {
	flag.Parse()
	prepare()
	takeReplies()
	if err := Warm(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// generated is the program of a seed.
func generated(t *testing.T, seed uint64) Program {
	t.Helper()
	if *about == "" {
		return Generate(seed)
	}
	p := must.Get(GenerateOf(seed, *about))(t)
	return p
}

// prepare readies the process. Garbage is collected between schedules alone. One processor: what is exact wants it, and where
// two timers of a bubble ring at the same time the runtime of Go 1.26 dies under the race detector.
func prepare() {
	debug.SetGCPercent(800) // the heap of a schedule is small
	runtime.GOMAXPROCS(1)
	if exact {
		runtime.MemProfileRate = 0
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(1 << 30)
	}
}

var runs int

// run runs a program in a bubble.
func run(t *testing.T, p Program, opt Options) (r Result) {
	t.Helper()
	if !HasStreams(p) {
		t.Run("streams", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				must.Do(t, MakeStreams(p))
			})
		})
	}
	if runs++; exact && runs%60 == 0 {
		runtime.GC()
	}
	t.Run("bubble", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.Seed)
		synctest.Test(t, func(*testing.T) { r = Run(p, opt) })
	})
	return r
}

// TestSim runs schedules for a while. The command internal/sim/cmd/sim runs many, in a process a core.
func TestSim(t *testing.T) {
	began, n := time.Now(), uint64(0)
	for ; (*count == 0 || n < *count) && time.Since(began) < *budget; n++ {
		p := generated(t, *from+n**step)
		if r := run(t, p, Options{}); len(r.Broken) > 0 {
			t.Errorf("%s\n%s\nagain: go test ./internal/sim -run TestSeed -seed %d -shrink 500", p, strings.Join(r.Broken,
				"\n"), p.Seed)
			if !*keepOn {
				break
			}
		}
	}
	t.Logf("%d schedules in %v", n, time.Since(began).Round(time.Millisecond))
}

// TestWorker is a worker of the command: it writes a line of JSON before and after each schedule.
func TestWorker(t *testing.T) {
	if os.Getenv("SPOOL_SIM_WORKER") == "" {
		t.Skip("for the command internal/sim/cmd/sim")
	}
	out := json.NewEncoder(os.Stdout)
	began := time.Now()
	for n := uint64(0); (*count == 0 || n < *count) && time.Since(began) < *budget; n++ {
		p := generated(t, *from+n**step)
		_ = out.Encode(Line{Seed: p.Seed})
		r := run(t, p, Options{})
		_ = out.Encode(Line{Seed: p.Seed, Done: true, Digest: r.Digest, Broken: r.Broken, Steps: r.Steps, Events: r.Events,
			Counts: r.Counts, Operations: r.Operations})
		if len(r.Broken) > 0 && !*keepOn {
			return
		}
	}
}

// TestSeed runs one schedule, prints what happened, and makes it smaller when it fails.
func TestSeed(t *testing.T) {
	if *seed == 0 && *program == "" {
		t.Skip("needs -seed N or -program FILE")
	}
	p := generated(t, *seed)
	if *program != "" {
		b := must.Get(os.ReadFile(*program))(t)
		p = Program{}
		must.Do(t, json.Unmarshal(b, &p))
	}
	opt := Options{Keep: true}
	if *logs {
		opt.Log = os.Stdout
	}
	r := run(t, p, opt)
	if len(r.Broken) == 0 {
		t.Logf("%s%s\ndigest %s, %d steps, %v of virtual time, %d events: nothing is broken", p, r.Trace, r.Digest,
			r.Steps, r.Took, r.Events)
		return
	}
	if rule := Rule(r.Broken); *shrink > 0 {
		p = Shrink(p, rule, *shrink, func(q Program) string { return Rule(run(t, q, Options{}).Broken) })
		r = run(t, p, opt)
		b, _ := json.Marshal(p)
		t.Logf("the smaller program, for -program:\n%s", b)
	}
	t.Errorf("%s%s\n\n%s", p, r.Trace, strings.Join(r.Broken, "\n"))
}

// TestSeedsReplay runs schedules twice, in the build that the command makes: the same happens, to the byte. The first
// time that build takes minutes.
func TestSeedsReplay(t *testing.T) {
	if os.Getenv("SPOOL_SIM_WORKER") == "" {
		if testing.Short() {
			t.Skip("builds Go's runtime")
		}
		cmd := exec.Command("go", "run", "./internal/sim/cmd/sim", "-replay", "50")
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	if !exact {
		t.Fatal("this is not the build in which seeds are exact")
	}
	for s := *from; s < *from+*count; s++ {
		p := Generate(s)
		a, b := run(t, p, Options{Keep: true}), run(t, p, Options{Keep: true})
		if a.Trace != b.Trace {
			fmt.Printf("seed %d: %s\n", s, difference(a.Trace, b.Trace))
			a.Digest = "differs"
		}
		fmt.Printf("schedule %d of %d steps: %s\n", s, a.Steps, a.Digest)
	}
}

func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d of %d: %s | %s", i+1, len(x), x[i], y[i])
		}
	}
	return "one is longer"
}

// TestPrograms runs the programs of testdata/programs, each of which broke a rule once.
func TestPrograms(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/programs/*.json"))(t)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
			b := must.Get(os.ReadFile(f))(t)
			var p Program
			must.Do(t, json.Unmarshal(b, &p))
			broken := []string(nil)
			for range 10 { // an accident of the process may decide whether it shows
				if broken = run(t, p, Options{}).Broken; len(broken) > 0 {
					break
				}
				p.Seed++
			}
			switch {
			case p.Open:
				t.Logf("not mended: %s\nbroken: %q", p.What, broken)
			case len(broken) > 0:
				t.Errorf("%s\n%s%s", p.What, p, strings.Join(broken, "\n"))
			}
		})
	}
}

// Every defect that the simulation is to find can be put in: its text is in the source as it is now.
func TestMutantsCanBePutIn(t *testing.T) {
	t.Parallel()
	all := must.Get(Mutants("testdata/mutants"))(t)
	for _, m := range all {
		if _, err := m.Overlay("../..", t.TempDir()); err != nil {
			t.Error(err)
		}
	}
	if len(all) < 18 {
		t.Errorf("%d defects, want 18 at least", len(all))
	}
}

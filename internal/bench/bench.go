// Package bench measures Spool beside what its work costs at least and beside what one would write first, in one run, on
// one machine, against embedded servers: figures depend on the machine, the ratios between them much less.
//
//	raw     publish alone: what the server takes in, a message an entry
//	null    Spool's own way in and out, its publishers, partitions and items, without the work
//	naive   two objects, a key-value update, an item and an acknowledged ack for every entry, with the client API; several entries
//	        side by side
//	spool   publishers, persister, records, packs, items: until every entry's item and head are durable
//
// All parts get the same entries from the same generator. Each runs on a server of its own, for Config.Seconds, after a
// warm-up, and is checked afterwards: a part that lost or repeated an entry is an error, not a figure. The parts take turns
// in every round, so that what else the machine does hits all of them; a ratio is the median of the rounds' ratios. Each is there twice,
// of entries a second and of processor time an entry: the first says what this machine does when it does nothing else, the second
// hardly depends on what else it does. A part that stood still is measured again, and the report says so.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// Config says what is measured and for how long. The zero value is good.
type Config struct {
	Seconds    int    // how long each part publishes, in seconds; 0 = 5
	Rounds     int    // how often each part runs; 0 = 3
	Entries    int64  // entries of a part at most; 0 = as many as the time allows
	Batch      int    // entries in one publish of Spool's 4 publishers, over their 50 sessions each in turn; 0 = 500
	Sync       string // which servers: SyncDefault, SyncAlways or SyncBoth; empty = SyncBoth
	Dir        string // where the servers keep their data; empty = the system's temporary directory
	TCP        bool   // connect over loopback TCP, not in process: every part
	CPUProfile string // file for a profile of Spool's first run; empty = none

	Note func(string) // is told what runs now; may be nil
}

// What Config.Sync can be.
const (
	SyncDefault = "default" // JetStream's own: data is forced to disk every two minutes
	SyncAlways  = "always"  // with every acked write
	SyncBoth    = "both"
)

const relaxedSync = 2 * time.Minute

func (c Config) withDefaults() (Config, error) {
	c.Seconds = cmp.Or(c.Seconds, 5)
	c.Rounds = cmp.Or(c.Rounds, 3)
	c.Batch = cmp.Or(c.Batch, 500)
	c.Sync = cmp.Or(c.Sync, SyncBoth)
	if c.Note == nil {
		c.Note = func(string) {}
	}
	var errs []error
	if c.Seconds < 1 || c.Seconds > maxSeconds {
		errs = append(errs, fmt.Errorf("seconds is %d; use 1 to %d", c.Seconds, maxSeconds))
	}
	if c.Rounds < 1 {
		errs = append(errs, fmt.Errorf("rounds is %d; use 1 or more", c.Rounds))
	}
	if c.Batch < 1 || c.Batch > fastWindow/10 {
		errs = append(errs, fmt.Errorf("batch is %d; use 1 to %d", c.Batch, fastWindow/10))
	}
	if c.Entries < 0 {
		errs = append(errs, fmt.Errorf("entries is %d; use 0 or more", c.Entries))
	}
	switch c.Sync {
	case SyncDefault, SyncAlways, SyncBoth:
	default:
		errs = append(errs, fmt.Errorf("sync is %q; use %s, %s or %s", c.Sync, SyncDefault, SyncAlways, SyncBoth))
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// ErrConfig: the configuration is wrong, and nothing was measured.
var ErrConfig = errors.New("cannot measure that")

// maxSeconds keeps the data of a part within a disk.
const maxSeconds = 60

// part is one thing to measure on servers of one kind.
type part struct {
	name   string
	sync   time.Duration // as embedded.Config has it
	window int64         // entries that are published and not done, at most: how far the rest may fall behind
	open   func(context.Context, *rig) (pipeline, error)
}

// The windows are what each pipeline needs to be busy, and small enough for the rest to take little of the time.
const (
	fastWindow = 20_000
	slowWindow = 500
)

func (c Config) parts() []part {
	var ps []part
	if c.Sync != SyncAlways {
		ps = append(ps,
			part{"raw_publish", relaxedSync, fastWindow, openRaw}, part{"null", relaxedSync, fastWindow, openNull},
			part{"naive", relaxedSync, slowWindow, openNaive}, part{"spool", relaxedSync, fastWindow, openSpool})
	}
	if c.Sync != SyncDefault {
		ps = append(ps, part{"naive_sync_always", 0, slowWindow, openNaive}, part{"spool_sync_always", 0, fastWindow, openSpool})
	}
	return ps
}

// Run measures. An error means that there is no report: a server did not start, or a part lost an entry.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := newBench(cfg)
	parts := cfg.parts()
	for round := range cfg.Rounds {
		for _, p := range parts {
			cfg.Note(fmt.Sprintf("round %d of %d: %s", round+1, cfg.Rounds, p.name))
			r, err := b.steady(p.name, func() (Run1, error) { return b.run(ctx, p) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			b.runs[p.name] = append(b.runs[p.name], r)
		}
	}
	rep := b.report()
	for _, p := range parts {
		if p.name != "spool" && p.name != "spool_sync_always" {
			continue
		}
		if err := b.latencies(ctx, rep, p); err != nil {
			return nil, fmt.Errorf("latency: %w", err)
		}
	}
	return rep, nil
}

// bench is a run in progress.
type bench struct {
	Config
	text     prose
	load     float64 // of the machine when it began
	runs     map[string][]Run1
	stalls   []Stall
	profiled bool
}

func newBench(cfg Config) *bench {
	return &bench{Config: cfg, text: newProse(), load: loadAverage(), runs: map[string][]Run1{}}
}

// setup is what the figures depend on.
func (b *bench) setup() Setup {
	return Setup{
		Seconds: b.Seconds, Rounds: b.Rounds, EntryBytes: entryBytes, Sessions: sessions, Batch: b.Batch, TCP: b.TCP, CPUs: runtime.NumCPU(),
		Load: b.load, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// Run1 is one measurement of one part.
type Run1 struct {
	Entries  int64   `json:"entries"`
	Seconds  float64 `json:"seconds"` // from the first publish until the last entry was done
	PerSec   float64 `json:"per_s"`
	CPUMicro float64 `json:"cpu_us"`          // processor time of the whole process for one entry, in microseconds; 0 = unknown
	Pause    float64 `json:"longest_pause_s"` // in which no entry was done
	Others   float64 `json:"others_cores"`    // cores that other programs took meanwhile; 0 = unknown too
}

// Stall is a measurement that was taken again, because the part stood still in it.
type Stall struct {
	Part string `json:"part"`
	Run1
}

// stalled is the pause in which a pipeline stands still, and does not just wait for a disk.
const stalled = 2 * time.Second

// steady measures again what stood still, twice at most; then the last one counts, and its pause is in it.
func (b *bench) steady(part string, run func() (Run1, error)) (r Run1, err error) {
	for try := 0; ; try++ {
		if r, err = run(); err != nil || r.Pause < stalled.Seconds() || try == 2 {
			return r, err
		}
		b.Note(fmt.Sprintf("%s stood still for %.1f s: again", part, r.Pause))
		b.stalls = append(b.stalls, Stall{part, r})
	}
}

// measure takes what sends so many entries.
func (b *bench) measure(f *flow, send func() (int64, error)) (Run1, error) {
	f.longest.Store(0)
	cpu, all, start := cpuTime(), machineTime(), time.Now()
	n, err := send()
	took, used := time.Since(start), cpuTime()-cpu
	r := Run1{
		Entries: n, Seconds: took.Seconds(), PerSec: float64(n) / took.Seconds(),
		CPUMicro: float64(used.Microseconds()) / float64(max(n, 1)), Pause: time.Duration(f.longest.Load()).Seconds(),
	}
	if all > 0 {
		r.Others = max(0, (machineTime()-all-used).Seconds()/took.Seconds())
	}
	return r, err
}

// run measures one part once.
func (b *bench) run(ctx context.Context, p part) (Run1, error) {
	r, err := startRig(b.Config, p.sync)
	if err != nil {
		return Run1{}, err
	}
	defer r.stop()
	pl, err := p.open(ctx, r)
	if err != nil {
		return Run1{}, err
	}
	defer pl.close()
	f := newFlow(pl, b.text)
	if err := f.warmUp(ctx); err != nil {
		return Run1{}, err
	}
	runtime.GC()
	stop, err := b.profile(p)
	if err != nil {
		return Run1{}, err
	}
	run, err := b.measure(f, func() (int64, error) {
		return f.push(ctx, time.Duration(b.Seconds)*time.Second, p.window, b.Entries)
	})
	stop()
	if err != nil {
		return Run1{}, err
	}
	if err := pl.verify(ctx, f.published()); err != nil {
		return Run1{}, fmt.Errorf("%w: %w", ErrWrong, err)
	}
	return run, nil
}

// ErrWrong: after a part the streams did not hold what they must.
var ErrWrong = errors.New("what is stored is not what was published")

// profile records the first run of Spool if it was asked for.
func (b *bench) profile(p part) (stop func(), err error) {
	if b.CPUProfile == "" || b.profiled || (p.name != "spool" && p.name != "spool_sync_always") {
		return func() {}, nil
	}
	b.profiled = true
	f, err := os.Create(b.CPUProfile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.Note(fmt.Sprintf("profile: %v", err))
		}
	}, nil
}

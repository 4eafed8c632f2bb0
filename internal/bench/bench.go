// Package bench measures Spool beside what its work costs at least and beside what one would write first, in one run, on
// one machine, against embedded servers: figures depend on the machine, the ratios between them much less.
//
//	raw     publish alone: what the server takes in
//	null    publish, consume, publish one item, ack: any pipeline's moves, without the work
//	naive   an object, a key-value update, an item and an acknowledged ack for every entry, with the client API; one entry
//	        after the other, and in a second part several side by side
//	spool   publishers, persister, records, packs, items: until every entry's item and head are durable
//
// All parts get the same entries from the same generator. Each runs on a server of its own, for Config.Seconds, after a
// warm-up, and is checked afterwards: a part that lost or repeated an entry is an error, not a figure. The parts take turns
// in every round, so that what else the machine does hits all of them; a ratio is the median of the rounds' ratios.
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
			part{"naive", relaxedSync, slowWindow, openNaive},
			part{"naive_parallel", relaxedSync, slowWindow, openNaiveParallel}, part{"spool", relaxedSync, fastWindow, openSpool})
	}
	if c.Sync != SyncDefault {
		ps = append(ps, part{"naive_sync_always", 0, slowWindow, openNaive},
			part{"naive_parallel_sync_always", 0, slowWindow, openNaiveParallel}, part{"spool_sync_always", 0, fastWindow, openSpool})
	}
	return ps
}

// Run measures. An error means that there is no report: a server did not start, or a part lost an entry.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &bench{Config: cfg, text: newProse(), runs: map[string][]Run1{}}
	parts := cfg.parts()
	for round := range cfg.Rounds {
		for _, p := range parts {
			cfg.Note(fmt.Sprintf("round %d of %d: %s", round+1, cfg.Rounds, p.name))
			r, err := b.run(ctx, p)
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
		cfg.Note("latency at 20 % load: " + p.name)
		if err := b.latencyPart(ctx, rep, p); err != nil {
			return nil, fmt.Errorf("latency: %w", err)
		}
	}
	return rep, nil
}

// bench is a run in progress.
type bench struct {
	Config
	text     prose
	runs     map[string][]Run1
	profiled bool
}

// Run1 is one measurement of one part.
type Run1 struct {
	Entries  int64   `json:"entries"`
	Seconds  float64 `json:"seconds"` // from the first publish until the last entry was done
	PerSec   float64 `json:"per_s"`
	CPUMicro float64 `json:"cpu_us"` // processor time of the whole process for one entry, in microseconds; 0 = unknown
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
	cpu, start := cpuTime(), time.Now()
	n, err := f.push(ctx, time.Duration(b.Seconds)*time.Second, p.window, b.Entries)
	took, used := time.Since(start), cpuTime()-cpu
	stop()
	if err != nil {
		return Run1{}, err
	}
	if err := pl.verify(ctx, f.published()); err != nil {
		return Run1{}, fmt.Errorf("%w: %w", ErrWrong, err)
	}
	return Run1{
		Entries: n, Seconds: took.Seconds(), PerSec: float64(n) / took.Seconds(),
		CPUMicro: float64(used.Microseconds()) / float64(max(n, 1)),
	}, nil
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

package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/persist"
	"spool/internal/text"
)

// FleetConfig says for how many sessions at work the costs of an entry are compared. The zero value is good.
type FleetConfig struct {
	Sessions  []int // sizes; none = 200, 5,000 and 20,000
	Seconds   int   // how long each publishes; 0 = 5
	Rounds    int   // how often each runs, in turns; 0 = 3
	Batch     int   // entries in one publish; 0 = 500
	Run       int   // entries of a session before the next one has its turn; 0 = 10
	HeadBytes int   // of the persister; 0 = its default
	Dir       string
	Profile   string // file for a CPU profile of the first run of the last size; empty = none

	Note func(string) // is told what runs now; may be nil
}

// FleetReport is what Fleet found.
type FleetReport struct {
	Runs  []FleetRun `json:"runs"`
	Setup Setup      `json:"setup"`
}

// FleetRun is one measurement of one size.
type FleetRun struct {
	Sessions int `json:"sessions"`
	Run1
	PublishMicro float64 `json:"publish_cpu_us"` // processor time of publishing an entry while no persister is there
	Ratio        float64 `json:"ratio"`          // of the time that is left without that, to that of the first size in the same round
	Commits      int64   `json:"commits"`
	Loads        int64   `json:"loads"` // heads that the persister read
}

// Fleet measures what an entry costs by the number of sessions that are at work in turn: all of it, and without what publishing
// alone costs. Sizes take turns.
func Fleet(ctx context.Context, cfg FleetConfig) (*FleetReport, error) {
	for p, v := range map[*int]int{&cfg.Seconds: 5, &cfg.Rounds: 3, &cfg.Batch: 500, &cfg.Run: 10} {
		*p = cmp.Or(*p, v)
	}
	if len(cfg.Sessions) == 0 {
		cfg.Sessions = []int{sessions, 5_000, 20_000}
	}
	if slices.Min(cfg.Sessions) < spoolPublishers || cfg.Seconds < 1 || cfg.Seconds > maxSeconds || cfg.Rounds < 1 || cfg.Run < 1 ||
		cfg.Batch < 1 || cfg.Batch > fastWindow/10 {
		return nil, fmt.Errorf("%w: use at least %d sessions, 1 to %d seconds, at least 1 round and 1 entry in a row, and batches of 1 to %d",
			ErrConfig, spoolPublishers, maxSeconds, fastWindow/10)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	rep := &FleetReport{Setup: Setup{
		Seconds: cfg.Seconds, Rounds: cfg.Rounds, EntryBytes: entryBytes, Batch: cfg.Batch, TCP: true, CPUs: runtime.NumCPU(),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	b := &bench{Config: Config{Seconds: cfg.Seconds, Batch: cfg.Batch, Dir: cfg.Dir, TCP: true, Note: cfg.Note}, text: newProse()}
	for round := range cfg.Rounds {
		var first float64
		for i, n := range cfg.Sessions {
			cfg.Note(fmt.Sprintf("round %d of %d: %d sessions", round+1, cfg.Rounds, n))
			if round == 0 && i == len(cfg.Sessions)-1 {
				b.CPUProfile = cfg.Profile
			}
			r, err := b.fleet(ctx, cfg, n)
			if err != nil {
				return nil, fmt.Errorf("%d sessions: %w", n, err)
			}
			if own := r.CPUMicro - r.PublishMicro; i == 0 {
				first, r.Ratio = own, 1
			} else {
				r.Ratio = own / first
			}
			rep.Runs = append(rep.Runs, r)
		}
	}
	return rep, nil
}

// fleet measures one size once.
func (b *bench) fleet(ctx context.Context, cfg FleetConfig, n int) (FleetRun, error) {
	r, err := startRig(b.Config, relaxedSync)
	if err != nil {
		return FleetRun{}, err
	}
	defer r.stop()
	s, err := newSpoolOf(ctx, r, spoolPublishers, persist.Config{HeadBytes: cfg.HeadBytes})
	if err != nil {
		return FleetRun{}, err
	}
	defer s.close()
	f := newFlowOver(s, b.text, n)
	if err := f.begin(ctx); err != nil {
		return FleetRun{}, err
	}
	s.run = cfg.Run
	runtime.GC()
	stop, err := b.profile(part{name: "spool"})
	if err != nil {
		return FleetRun{}, err
	}
	out, before := FleetRun{Sessions: n}, s.persister.Stats()
	out.Run1, err = b.measure(func() (int64, error) { return f.push(ctx, time.Duration(b.Seconds)*time.Second, fastWindow, 0) })
	stop()
	if err != nil {
		return FleetRun{}, err
	}
	after := s.persister.Stats()
	out.Commits, out.Loads = after.Commits-before.Commits, after.HeadMisses-before.HeadMisses
	if err := s.verify(ctx, f.published()); err != nil {
		return FleetRun{}, fmt.Errorf("%w: %w", ErrWrong, err)
	}
	s.stop()
	_ = s.running.Wait()
	alone, err := b.measure(func() (int64, error) { return f.publishOnly(ctx, time.Second) })
	out.PublishMicro = alone.CPUMicro
	return out, err
}

// measure takes the processor time of what sends so many entries.
func (b *bench) measure(send func() (int64, error)) (Run1, error) {
	cpu, start := cpuTime(), time.Now()
	n, err := send()
	took, used := time.Since(start), cpuTime()-cpu
	return Run1{
		Entries: n, Seconds: took.Seconds(), PerSec: float64(n) / took.Seconds(),
		CPUMicro: float64(used.Microseconds()) / float64(max(n, 1)),
	}, err
}

// begin sends one entry of every session through: warmUp, for many.
func (f *flow) begin(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for by, ss := range f.sessions {
		g.Go(func() error {
			for at := 0; at < len(ss); {
				if f.published()-f.pl.done() > fastWindow {
					select {
					case <-gctx.Done():
						return gctx.Err()
					case <-time.After(look):
					}
					continue
				}
				n := min(f.pl.batch(), len(ss)-at)
				f.claimed.Add(int64(n))
				if err := f.pl.publish(gctx, by, ss, n); err != nil {
					return fmt.Errorf("warm up: %w", err)
				}
				at += n
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return f.drain(ctx)
}

// publishOnly publishes for a time, whoever takes it or not.
func (f *flow) publishOnly(ctx context.Context, for_ time.Duration) (n int64, err error) {
	before, deadline := f.published(), time.Now().Add(for_)
	g, gctx := errgroup.WithContext(ctx)
	for by, ss := range f.sessions {
		g.Go(func() error {
			for time.Now().Before(deadline) {
				f.claimed.Add(int64(f.pl.batch()))
				if err := f.pl.publish(gctx, by, ss, f.pl.batch()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return f.published() - before, err
}

// Missed implements what every report says: there are no floors.
func (r *FleetReport) Missed() []string { return nil }

// Write prints a table.
func (r *FleetReport) Write(to io.Writer) error {
	w := text.NewTable(to)
	fmt.Fprintln(w, "sessions\tentries/s\tCPU µs an entry\tof it to publish\tthe rest, against the first\tentries a commit\tloads an entry\t")
	for _, x := range r.Runs {
		fmt.Fprintf(w, "%d\t%.0f\t%.1f\t%.1f\t%.2f\t%d\t%.2f\t\n", x.Sessions, x.PerSec, x.CPUMicro, x.PublishMicro, x.Ratio,
			x.Entries/max(x.Commits, 1), float64(x.Loads)/float64(max(x.Entries, 1)))
	}
	return w.Flush()
}

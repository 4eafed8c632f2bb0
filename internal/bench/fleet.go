package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/persist"
	"spool/internal/sleep"
	"spool/internal/text"
)

// FleetConfig says of which fleets the costs of an entry are compared. The zero value is good.
type FleetConfig struct {
	Sessions  []int // sizes; none = 200, 5,000 and 20,000
	Agents    int   // that publish an entry at a time and wait for its ack; 0 = 1,000, below 0: none
	Readers   int   // that read live; 0 = 1,000, below 0: none
	Seconds   int   // how long each publishes; 0 = 5
	Rounds    int   // how often each runs, in turns; 0 = 3
	Batch     int   // entries in one publish; 0 = 500
	Run       int   // entries of a session before the next one has its turn; 0 = 10
	HeadBytes int   // of the persister; 0 = its default
	Dir       string
	Profile   string // file for a CPU profile of the first run of the last size; empty = none

	Note func(string) // is told what runs now; may be nil
}

// FleetReport is what Fleet found. Ratios: sessions_<n>_cpu, processor time of an entry to that of the first size in the same round,
// and the same of what is left without publishing, sessions_<n>_own_cpu; agents_<n>_cpu, that of agents with an entry at a time to
// that of the same agents with ten; and what is stored of their JSONL.
type FleetReport struct {
	Findings
	Runs   []FleetRun `json:"runs"`
	Stalls []Stall    `json:"stalls,omitempty"`
	Setup  Setup      `json:"setup"`
}

// FleetRun is one measurement of one fleet.
type FleetRun struct {
	Sessions int  `json:"sessions"`
	Agents   bool `json:"agents,omitempty"` // each session has a publisher of its own, which waits for its acks
	Batch    int  `json:"batch"`            // entries of a publish
	Run1
	PublishMicro float64 `json:"publish_cpu_us,omitempty"` // processor time of publishing an entry while no persister is there
	Stored       float64 `json:"stored_of_jsonl"`          // bytes of packs and blobs by a byte of JSONL
	Commits      int64   `json:"commits"`
	Loads        int64   `json:"loads"` // heads that the persister read
}

// agentBatch is how many entries the agents publish at once that those with one are compared with.
const agentBatch = 10

// fleetCeilings are those of DESIGN 14.
var fleetCeilings = map[string]float64{
	"sessions_5000_cpu": 1.5, "sessions_20000_cpu": 2, "agents_1000_cpu": 1.6, "nats_load80_p99_ms": 50,
}

// Fleet measures what an entry costs by the number of sessions that are at work in turn, and of agents that publish it alone; and what
// live readers wait for. Sizes take turns.
func Fleet(ctx context.Context, cfg FleetConfig) (*FleetReport, error) {
	for p, v := range map[*int]int{&cfg.Seconds: 5, &cfg.Rounds: 3, &cfg.Batch: 500, &cfg.Run: 10, &cfg.Agents: 1000, &cfg.Readers: 1000} {
		*p = cmp.Or(*p, v)
	}
	if len(cfg.Sessions) == 0 {
		cfg.Sessions = []int{sessions, 5_000, 20_000}
	}
	if slices.Min(cfg.Sessions) < spoolPublishers || cfg.Seconds < 1 || cfg.Seconds > maxSeconds || cfg.Rounds < 1 || cfg.Run < 1 ||
		cfg.Batch < 1 || cfg.Batch > fastWindow/10 || cfg.Agents > fastWindow/agentBatch {
		return nil, fmt.Errorf("%w: use at least %d sessions, at most %d agents, 1 to %d seconds, at least 1 round and 1 entry in a row, "+
			"and batches of 1 to %d", ErrConfig, spoolPublishers, fastWindow/agentBatch, maxSeconds, fastWindow/10)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	b := newBench(Config{Seconds: cfg.Seconds, Rounds: cfg.Rounds, Batch: cfg.Batch, Dir: cfg.Dir, TCP: true, Note: cfg.Note})
	rep := &FleetReport{Findings: newFindings(), Setup: b.setup()}
	rep.Ceilings = maps.Clone(fleetCeilings)
	fleets := cfg.fleets()
	for round := range cfg.Rounds {
		for i, of := range fleets {
			cfg.Note(fmt.Sprintf("round %d of %d: %s", round+1, cfg.Rounds, of.what()))
			if round == 0 && i == len(cfg.Sessions)-1 {
				b.CPUProfile = cfg.Profile
			}
			var r FleetRun
			_, err := b.steady(of.what(), func() (_ Run1, err error) {
				r, err = b.fleet(ctx, cfg, of)
				return r.Run1, err
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.what(), err)
			}
			rep.Runs = append(rep.Runs, r)
		}
	}
	rep.find(fleets)
	if cfg.Readers > 0 {
		err := fan(ctx, SubscribeConfig{Readers: cfg.Readers, Seconds: cfg.Seconds, Dir: cfg.Dir, Note: cfg.Note}, "nats", rep.Findings)
		if err != nil {
			return nil, fmt.Errorf("%d readers: %w", cfg.Readers, err)
		}
	}
	rep.Stalls = b.stalls
	return rep, nil
}

// fleets are what is measured, as runs without figures.
func (c FleetConfig) fleets() (of []FleetRun) {
	for _, n := range c.Sessions {
		of = append(of, FleetRun{Sessions: n, Batch: c.Batch})
	}
	if c.Agents > 0 {
		of = append(of, FleetRun{Sessions: c.Agents, Agents: true, Batch: agentBatch}, FleetRun{Sessions: c.Agents, Agents: true, Batch: 1})
	}
	return of
}

// what names it for people.
func (r FleetRun) what() string {
	switch {
	case !r.Agents:
		return fmt.Sprintf("%d sessions", r.Sessions)
	case r.Batch == 1:
		return fmt.Sprintf("%d agents, an entry at a time", r.Sessions)
	}
	return fmt.Sprintf("%d agents, %d at a time", r.Sessions, r.Batch)
}

// key begins the names of its figures.
func (r FleetRun) key() string {
	switch {
	case !r.Agents:
		return fmt.Sprintf("sessions_%d", r.Sessions)
	case r.Batch == 1:
		return fmt.Sprintf("agents_%d", r.Sessions)
	}
	return fmt.Sprintf("agents_%d_by_%d", r.Sessions, r.Batch)
}

// find adds the runs up.
func (r *FleetReport) find(fleets []FleetRun) {
	of := func(f FleetRun) (runs []FleetRun) {
		for _, x := range r.Runs {
			if x.key() == f.key() {
				runs = append(runs, x)
			}
		}
		return runs
	}
	of1 := func(f FleetRun, figure func(FleetRun) float64) []float64 { return each(of(f), figure) }
	cpu := func(x FleetRun) float64 { return x.CPUMicro }
	own := func(x FleetRun) float64 { return x.CPUMicro - x.PublishMicro }
	for i, f := range fleets {
		key := f.key()
		r.Figures[key+"_per_s"] = median(of1(f, func(x FleetRun) float64 { return x.PerSec }))
		r.Figures[key+"_cpu_us_per_entry"] = median(of1(f, cpu))
		r.Ratios[key+"_stored_of_jsonl"] = median(of1(f, func(x FleetRun) float64 { return x.Stored }))
		switch {
		case f.Agents && f.Batch == 1:
			r.ratio(key+byCPU, 0, of1(f, cpu), of1(fleets[i-1], cpu))
		case !f.Agents && i > 0:
			r.ratio(key+byCPU, 0, of1(f, cpu), of1(fleets[0], cpu))
			r.ratio(key+"_own"+byCPU, 0, of1(f, own), of1(fleets[0], own))
		}
	}
}

// fleet measures one fleet once.
func (b *bench) fleet(ctx context.Context, cfg FleetConfig, of FleetRun) (FleetRun, error) {
	r, err := startRig(b.Config, relaxedSync)
	if err != nil {
		return of, err
	}
	defer r.stop()
	publishers := spoolPublishers
	if of.Agents {
		publishers = of.Sessions
	}
	s, err := newSpoolOf(ctx, r, publishers, persist.Config{HeadBytes: cfg.HeadBytes})
	if err != nil {
		return of, err
	}
	defer s.close()
	s.size = of.Batch
	f := newFlowOver(s, b.text, of.Sessions)
	if err := f.begin(ctx); err != nil {
		return of, err
	}
	s.run = cfg.Run
	runtime.GC()
	stop, err := b.profile(part{name: "spool"})
	if err != nil {
		return of, err
	}
	before := s.persister.Stats()
	of.Run1, err = b.measure(f, func() (int64, error) { return f.push(ctx, time.Duration(b.Seconds)*time.Second, fastWindow, 0) })
	stop()
	if err != nil {
		return of, err
	}
	after := s.persister.Stats()
	of.Commits, of.Loads = after.Commits-before.Commits, after.HeadMisses-before.HeadMisses
	of.Stored = float64(after.BytesStored-before.BytesStored) / float64(max(after.BytesIn-before.BytesIn, 1))
	if err := s.verify(ctx, f.published()); err != nil {
		return of, fmt.Errorf("%w: %w", ErrWrong, err)
	}
	if of.Agents {
		return of, nil
	}
	s.stop()
	_ = s.running.Wait()
	alone, err := b.measure(f, func() (int64, error) { return f.publishOnly(ctx, time.Second) })
	of.PublishMicro = alone.CPUMicro
	return of, err
}

// begin sends one entry of every session through: warmUp, for many.
func (f *flow) begin(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for by, ss := range f.sessions {
		g.Go(func() error {
			for at := 0; at < len(ss); {
				if f.published()-f.pl.done() > fastWindow {
					if !sleep.For(gctx, look) {
						return gctx.Err()
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

// Write prints a table.
func (r *FleetReport) Write(to io.Writer) error {
	w := text.NewTable(to)
	fmt.Fprintf(w, "Entries of %d bytes; %d rounds of %d s; %s\n\n", r.Setup.EntryBytes, r.Setup.Rounds, r.Setup.Seconds, r.Setup.machine())
	fmt.Fprintln(w, "\tentries/s\tCPU µs an entry\tof it to publish\tentries a commit\tloads an entry\tstored of JSONL\tcores of others\t")
	for _, x := range r.Runs {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%s\t%d\t%.2f\t%.2f\t%.1f\t\n", x.what(), x.PerSec, x.CPUMicro, unlessZero(x.PublishMicro),
			x.Entries/max(x.Commits, 1), float64(x.Loads)/float64(max(x.Entries, 1)), x.Stored, x.Others)
	}
	errs := []error{w.Flush()}
	fmt.Fprintln(w, "\nMedians\tratio\tat most\t")
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		fmt.Fprintf(w, "%s\t%.2f\t%s\t\n", name, r.Ratios[name], floorText(r.Ceilings[name]))
	}
	errs = append(errs, w.Flush())
	if p99, ok := r.Figures["nats_load80_p99_ms"]; ok {
		fmt.Fprintf(w, "\nLive readers at 80 %% of %.0f entries/s\tp50 %.1f ms\tp99 %.1f ms\t\n", r.Figures["nats_rate_per_s"],
			r.Figures["nats_load80_p50_ms"], p99)
	}
	for _, s := range r.Stalls {
		fmt.Fprintf(w, "\nrepeated: %s, stood still for %.1f s\n", s.Part, s.Pause)
	}
	return errors.Join(append(errs, w.Flush())...)
}

func unlessZero(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

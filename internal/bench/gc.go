package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"spool/internal/gc"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// GCConfig says what of the collector is measured. The zero value is good.
type GCConfig struct {
	Nodes   []int  // sizes of the stores that are marked; empty = 10,000, 100,000, 1,000,000
	Packs   int    // of the store that is repacked, some 200 KiB each; 0 = 400
	Seconds int    // of load beside a collector that runs every second, and as long without one; 0 = 5; below 0: not measured
	Rounds  int    // of both; the medians count; 0 = 3
	Rate    int    // entries a second of that load; 0 = 1000
	Dir     string // where servers are; empty = the system's temporary directory

	Note func(string) // is told what runs now; may be nil
}

// GCReport is what collecting costs.
type GCReport struct {
	// Of the largest store. Headers are in memory: this is the marking, not the reading.
	MarkPerSecond  float64       `json:"mark_nodes_per_second"`
	MarkPerMillion float64       `json:"mark_mib_per_million_nodes"`
	Curve          []gc.Measured `json:"mark_curve"`

	RepackPerSecond   float64 `json:"repack_mb_per_second"` // of packs read, bytes as they are stored
	RepackPacks       int     `json:"repack_packs"`
	RepackInto        int     `json:"repack_into"`
	RepackBytesBefore int64   `json:"repack_bytes_before"` // of the stream of packs
	RepackBytesAfter  int64   `json:"repack_bytes_after"`  // when the next cycle has reclaimed
	DiskBefore        int64   `json:"disk_bytes_before"`   // of its directory
	DiskAfter         int64   `json:"disk_bytes_after"`

	// From publish to the item in a subscriber's hands.
	LatencyP50     float64 `json:"latency_p50_ms"`
	LatencyP99     float64 `json:"latency_p99_ms"`
	LatencyP50GC   float64 `json:"latency_gc_p50_ms"` // with a cycle every second, which is as often as gc does it
	LatencyP99GC   float64 `json:"latency_gc_p99_ms"`
	LatencyP99Over float64 `json:"latency_gc_p99_ratio"`
	CyclesBeside   int     `json:"latency_gc_cycles"`
	LatencyRate    float64 `json:"latency_rate_per_s"`
}

// Missed says which floors of DESIGN 14 the report misses.
func (r *GCReport) Missed() (list []string) {
	if r.MarkPerSecond < 1e6 {
		list = append(list, fmt.Sprintf("mark_nodes_per_second is %.0f, want at least 1,000,000", r.MarkPerSecond))
	}
	if r.MarkPerMillion > 64 {
		list = append(list, fmt.Sprintf("mark_mib_per_million_nodes is %.1f, want at most 64", r.MarkPerMillion))
	}
	return list
}

// Write prints it for people.
func (r *GCReport) Write(w io.Writer) error {
	t := text.NewTable(w)
	for _, m := range r.Curve {
		fmt.Fprintf(t, "mark %d nodes in %d packs\t%.2f s\t%.2f million nodes a second, %.2f MiB of memory for a million\n",
			m.Nodes, m.Packs, m.Seconds, m.PerSecond/1e6, m.PerMillion)
	}
	fmt.Fprintf(t, "repack %d packs into %d\t%.0f MB/s\tpacks: %.1f MB, then %.1f MB; their directory: %.1f MB, then %.1f MB\n",
		r.RepackPacks, r.RepackInto,
		r.RepackPerSecond, mb(r.RepackBytesBefore), mb(r.RepackBytesAfter), mb(r.DiskBefore), mb(r.DiskAfter))
	if r.LatencyP99 > 0 {
		fmt.Fprintf(t, "publish to item, %.0f entries/s\tp50 %.1f ms, p99 %.1f ms\twith gc every second (%d cycles): p50 %.1f ms, "+
			"p99 %.1f ms: %.2f of it\n",
			r.LatencyRate, r.LatencyP50, r.LatencyP99, r.CyclesBeside, r.LatencyP50GC, r.LatencyP99GC, r.LatencyP99Over)
	}
	return t.Flush()
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// GC measures the collector on servers of its own.
func GC(ctx context.Context, cfg GCConfig) (*GCReport, error) {
	if len(cfg.Nodes) == 0 {
		cfg.Nodes = []int{10_000, 100_000, 1_000_000}
	}
	cfg.Packs, cfg.Rounds, cfg.Rate = orInt(cfg.Packs, 400), orInt(cfg.Rounds, 3), orInt(cfg.Rate, 1000)
	cfg.Seconds = orInt(cfg.Seconds, 5)
	if cfg.Packs < 8 || cfg.Rounds < 1 || cfg.Rate < 1 || slices.Min(cfg.Nodes) < 1 {
		return nil, fmt.Errorf("%w: at least 8 packs, one round, one entry a second and one node", ErrConfig)
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	rep := &GCReport{}
	for _, n := range cfg.Nodes {
		cfg.Note(fmt.Sprintf("marking %d nodes", n))
		m, err := gc.Measure(ctx, n)
		if err != nil {
			return nil, err
		}
		rep.Curve, rep.MarkPerSecond, rep.MarkPerMillion = append(rep.Curve, m), m.PerSecond, m.PerMillion
	}
	cfg.Note("repacking")
	if err := rep.repack(ctx, cfg); err != nil {
		return nil, fmt.Errorf("repacking: %w", err)
	}
	if cfg.Seconds > 0 {
		if err := rep.latency(ctx, cfg); err != nil {
			return nil, fmt.Errorf("latency beside gc: %w", err)
		}
	}
	return rep, nil
}

func orInt(n, or int) int {
	if n == 0 {
		return or
	}
	return n
}

// collectorOf is one that repacks and reclaims at once, whatever the share.
func collectorOf(conn *natsio.Conn) (*gc.Collector, error) {
	return service.NewCollector(conn, gc.Config{Lane: events.Lanes - 1, Allow: []gc.Brake{gc.BrakeShare}}, slog.New(slog.DiscardHandler))
}

// repack stores packs of which a third is live, collects, and collects again: the old bytes go in the cycle after.
func (r *GCReport) repack(ctx context.Context, cfg GCConfig) error {
	rig, err := startRig(Config{Dir: cfg.Dir, Seconds: 10}, time.Second)
	if err != nil {
		return err
	}
	defer rig.stop()
	conn, err := rig.spool(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := fill(ctx, conn, cfg.Packs); err != nil {
		return err
	}
	size := func(bytes, disk *int64) error {
		all, err := natsadmin.New(conn).Usage(ctx)
		if err != nil {
			return err
		}
		for _, u := range all {
			if u.Stream == events.ObjectStream(events.NodesBucket) {
				*bytes = int64(u.Bytes)
			}
		}
		*disk, err = under(rig.dir, events.ObjectStream(events.NodesBucket))
		return err
	}
	if err := size(&r.RepackBytesBefore, &r.DiskBefore); err != nil {
		return err
	}
	c, err := collectorOf(conn)
	if err != nil {
		return err
	}
	p, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	read := int64(0)
	for _, g := range p.Repack {
		for _, s := range g.Packs {
			read += s.Bytes
		}
	}
	began := time.Now()
	d, err := c.Apply(ctx, p)
	if err != nil {
		return err
	}
	r.RepackPerSecond = mb(read) / time.Since(began).Seconds()
	r.RepackPacks, r.RepackInto = d.Repacked, d.Made
	if d.Repacked == 0 || d.Skipped > 0 {
		return fmt.Errorf("%w: %d packs were repacked, %d groups skipped", ErrWrong, d.Repacked, d.Skipped)
	}
	if _, _, err := service.Collect(ctx, conn, c, true); err != nil {
		return err
	}
	select { // the server closes holes in its files when it syncs
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	return size(&r.RepackBytesAfter, &r.DiskAfter)
}

// under is how many bytes the files of a stream take.
func under(dir, stream string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) { // the server removes a file of its own
				return nil
			}
			return err
		}
		if d.Type().IsRegular() && within(path, stream) {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n, err
}

func within(path, dir string) bool {
	for ; len(path) > 1; path = filepath.Dir(path) {
		if filepath.Base(path) == dir {
			return true
		}
	}
	return false
}

// fill stores packs with the steps of three threads each; one of the three has a head.
func fill(ctx context.Context, conn *natsio.Conn, packs int) error {
	store, text := conn.Store(0), newProse()
	b := casstore.NewPackBuilder()
	var heads [3]threads.Head
	for n := range packs {
		b.Reset()
		var id casstore.PackID
		binary.BigEndian.PutUint64(id[:], uint64(n)+1)
		for i := range heads {
			h := &heads[i]
			for _, l := range h.Located() {
				if !l.IsZero() {
					b.Locate(l)
				}
			}
			if h.Start.IsZero() {
				node := casstore.Node{Type: "start", Payload: casstore.AppendInt(nil, int64(i))}
				h.Start = casstore.Located{Ref: b.AddNode(&node), Pack: id}
			}
			for k := range 80 {
				at := (n*7919 + i*104729 + k*1543) % (len(text) - 4096)
				content := casstore.Node{Type: "content", Payload: casstore.AppendText(nil, text[at:at+2048])}
				state := casstore.Node{Type: "state", Payload: casstore.AppendInt(nil, int64(n*1000+k)),
					Refs: []casstore.Ref{h.Start.Ref, {}, b.AddNode(&content)}}
				if len(h.Recent) > 0 {
					state.Refs[1] = h.Recent[0].Ref
				}
				h.Recent = []casstore.Located{{Ref: b.AddNode(&state), Pack: id}}
			}
		}
		header, body, err := b.Finish()
		if err == nil {
			err = store.PutPack(ctx, id, header, body)
		}
		if err != nil {
			return err
		}
	}
	key := events.HeadKey(events.Thread{Session: "bench", Name: events.MainThread})
	_, err := conn.Records().Write(ctx, record.Put{Key: key, Value: heads[0].Encode(), Expect: record.Any})
	return err
}

// latency measures with and without a collector, in turn.
func (r *GCReport) latency(ctx context.Context, cfg GCConfig) error {
	var p50, p99 [2][]float64
	for round := range cfg.Rounds {
		for beside := range 2 {
			cfg.Note(fmt.Sprintf("latency, round %d of %d%s", round+1, cfg.Rounds, []string{"", ", beside gc"}[beside]))
			l, cycles, err := latencyBeside(ctx, cfg, beside == 1)
			if err != nil {
				return err
			}
			p50[beside], p99[beside] = append(p50[beside], l.quantile(0.5)), append(p99[beside], l.quantile(0.99))
			r.CyclesBeside += cycles
			r.LatencyRate = l.reached
		}
	}
	r.LatencyP50, r.LatencyP50GC = median(p50[0]), median(p50[1])
	r.LatencyP99, r.LatencyP99GC = median(p99[0]), median(p99[1])
	r.LatencyP99Over = r.LatencyP99GC / r.LatencyP99
	return nil
}

func latencyBeside(ctx context.Context, cfg GCConfig, collect bool) (l *latency, cycles int, err error) {
	rig, err := startRig(Config{Dir: cfg.Dir, Seconds: cfg.Seconds, TCP: true, Batch: 1}, time.Minute)
	if err != nil {
		return nil, 0, err
	}
	defer rig.stop()
	s, err := newSpool(ctx, rig, latencyPublishers)
	if err != nil {
		return nil, 0, err
	}
	defer s.close()
	l = &latency{spool: s, flow: newFlow(s, newProse()), rate: float64(cfg.Rate), batch: cfg.Rate/publishesRelaxed + 1}
	loop, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		var err error
		if collect {
			cycles, err = collectLoop(loop, rig)
		}
		done <- err
	}()
	err = l.measure(ctx, time.Duration(cfg.Seconds)*time.Second)
	stop()
	if err = errors.Join(err, <-done); err != nil {
		return nil, 0, err
	}
	slices.Sort(l.took)
	if err := l.flow.drain(ctx); err != nil {
		return nil, 0, err
	}
	if collect { // the persister counts what it prepared, and what a cycle refuses is prepared again
		return l, cycles, count(ctx, s.conn.JetStream(), events.ItemsStream, l.flow.published())
	}
	return l, cycles, s.verify(ctx, l.flow.published())
}

// collectLoop runs cycle after cycle, on a connection of its own.
func collectLoop(ctx context.Context, rig *rig) (cycles int, err error) {
	conn, err := rig.spool(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	c, err := collectorOf(conn)
	if err != nil {
		return 0, err
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for ctx.Err() == nil {
		p, err := c.Plan(ctx)
		if err == nil {
			_, err = c.Apply(ctx, p)
		}
		if err != nil && !errors.Is(err, gc.ErrBrake) && ctx.Err() == nil {
			return cycles, err
		}
		cycles++
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return cycles, nil
}

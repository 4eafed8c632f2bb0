package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"

	"spool/internal/text"
)

// Report is what a run found.
type Report struct {
	Ratios   map[string]float64 `json:"ratios"`   // medians of the rounds' ratios, Spool's rate over the other's
	Figures  map[string]float64 `json:"figures"`  // medians: <part>_per_s, <part>_cpu_us_per_entry, latency_…
	Floors   map[string]float64 `json:"floors"`   // what the ratios of the same name must reach
	Ceilings map[string]float64 `json:"ceilings"` // what the figures of the same name must not exceed
	Runs     map[string][]Run1  `json:"runs"`     // every measurement
	Setup    Setup              `json:"setup"`
}

// Setup is what the figures depend on.
type Setup struct {
	Seconds    int    `json:"seconds"`
	Rounds     int    `json:"rounds"`
	EntryBytes int    `json:"entry_bytes"`
	Sessions   int    `json:"sessions"`
	Batch      int    `json:"batch"`
	TCP        bool   `json:"tcp"`
	CPUs       int    `json:"cpus"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// versus names every ratio: Spool's part, the part that it is compared with, and the floor, 0 for none.
var versus = []struct {
	name, of, to string
	floor        float64
}{
	{"vs_naive", "spool", "naive", 15},
	{"vs_naive_parallel", "spool", "naive_parallel", 0},
	{"vs_null", "spool", "null", 0.6},
	{"vs_raw_publish", "spool", "raw_publish", 0},
	{"sync_always_vs_naive", "spool_sync_always", "naive_sync_always", 20},
	{"sync_always_vs_naive_parallel", "spool_sync_always", "naive_parallel_sync_always", 0},
}

var ceilings = map[string]float64{"latency_p50_ms": 5, "latency_p99_ms": 25}

func (b *bench) report() *Report {
	r := &Report{
		Ratios: map[string]float64{}, Figures: map[string]float64{}, Floors: map[string]float64{}, Ceilings: maps.Clone(ceilings),
		Runs: b.runs,
		Setup: Setup{
			Seconds: b.Seconds, Rounds: b.Rounds, EntryBytes: entryBytes, Sessions: sessions, Batch: b.Batch, TCP: b.TCP,
			CPUs: runtime.NumCPU(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		},
	}
	for name, runs := range b.runs {
		r.Figures[name+"_per_s"] = median(perSec(runs))
		r.Figures[name+"_cpu_us_per_entry"] = median(each(runs, func(x Run1) float64 { return x.CPUMicro }))
	}
	for _, v := range versus {
		if v.floor > 0 {
			r.Floors[v.name] = v.floor
		}
		of, to := b.runs[v.of], b.runs[v.to]
		if len(of) == 0 || len(of) != len(to) {
			continue
		}
		ratios := make([]float64, len(of))
		for i := range of {
			ratios[i] = of[i].PerSec / to[i].PerSec
		}
		r.Ratios[v.name] = median(ratios)
	}
	return r
}

func perSec(runs []Run1) []float64 { return each(runs, func(r Run1) float64 { return r.PerSec }) }

func each(runs []Run1, f func(Run1) float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = f(r)
	}
	return out
}

// median of the values; 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Missed lists every measured ratio below its floor and every figure above its ceiling.
func (r *Report) Missed() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Floors)) {
		if v, ok := r.Ratios[name]; ok && v < r.Floors[name] {
			out = append(out, fmt.Sprintf("%s is %.2f, must be at least %v", name, v, r.Floors[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ceilings)) {
		if v, ok := r.Figures[name]; ok && v > r.Ceilings[name] {
			out = append(out, fmt.Sprintf("%s is %.2f, must be at most %v", name, v, r.Ceilings[name]))
		}
	}
	return out
}

// rows are the parts in the order of the table.
var rows = []struct{ part, what string }{
	{"raw_publish", "publish alone"},
	{"null", "null pipeline: publish, consume, one item, ack"},
	{"naive", "naive pipeline: two objects, a key, an item, an ack each"},
	{"naive_parallel", "naive pipeline, 8 entries side by side"},
	{"spool", "Spool: publish to item and head durable"},
	{"naive_sync_always", "naive pipeline, sync always"},
	{"naive_parallel_sync_always", "naive pipeline, 8 side by side, sync always"},
	{"spool_sync_always", "Spool, sync always"},
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	t := text.NewTable(w)
	fmt.Fprintf(t, "Entries of %d bytes, %d sessions, %d a publish; medians of %d rounds of %d s; %d CPUs, %s, %s\n\n",
		r.Setup.EntryBytes, r.Setup.Sessions, r.Setup.Batch, r.Setup.Rounds, r.Setup.Seconds, r.Setup.CPUs, r.Setup.Platform, r.Setup.Go)
	fmt.Fprint(t, "\tentries/s\tCPU µs/entry\tlowest\thighest\n")
	for _, row := range rows {
		rate, ok := r.Figures[row.part+"_per_s"]
		if !ok {
			continue
		}
		all := perSec(r.Runs[row.part])
		fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%.0f\t%.0f\n", row.what, rate, r.Figures[row.part+"_cpu_us_per_entry"], slices.Min(all), slices.Max(all))
	}
	errs := []error{t.Flush()}
	fmt.Fprint(t, "\nSpool against\tratio\tfloor\n")
	for _, v := range versus {
		if ratio, ok := r.Ratios[v.name]; ok {
			fmt.Fprintf(t, "%s\t%.2f\t%s\n", v.name, ratio, floorText(v.floor))
		}
	}
	errs = append(errs, t.Flush())
	fmt.Fprint(t, "\nPublish to item seen, at 20 % load\tp50 ms\tp99 ms\tentries/s\n")
	for _, l := range []struct{ prefix, what string }{{"latency", "Spool"}, {"latency_sync_always", "Spool, sync always"}} {
		if p50, ok := r.Figures[l.prefix+"_p50_ms"]; ok {
			fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.0f\n", l.what, p50, r.Figures[l.prefix+"_p99_ms"], r.Figures[l.prefix+"_rate_per_s"])
		}
	}
	return errors.Join(append(errs, t.Flush())...)
}

func floorText(floor float64) string {
	if floor == 0 {
		return "-"
	}
	return fmt.Sprint(floor)
}

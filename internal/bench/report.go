package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"spool/internal/mapped"
	"spool/internal/text"
)

// Report is what a run found.
type Report struct {
	Findings
	Runs   map[string][]Run1 `json:"runs"`             // every measurement that counts
	Stalls []Stall           `json:"stalls,omitempty"` // and those that were repeated
	Setup  Setup             `json:"setup"`
}

// Findings are what programs read of a report.
type Findings struct {
	Ratios   map[string]float64 `json:"ratios"`   // medians of the rounds' ratios
	Figures  map[string]float64 `json:"figures"`  // medians of what depends on the machine
	Floors   map[string]float64 `json:"floors"`   // what a ratio or figure of the same name must reach
	Ceilings map[string]float64 `json:"ceilings"` // what it must not exceed
}

func newFindings() Findings {
	return Findings{Ratios: map[string]float64{}, Figures: map[string]float64{}, Floors: map[string]float64{}, Ceilings: map[string]float64{}}
}

// Missed lists everything measured that is below its floor or above its ceiling.
func (f Findings) Missed() []string {
	var out []string
	for _, side := range []struct {
		bounds map[string]float64
		misses func(v, bound float64) bool
		want   string
	}{
		{f.Floors, func(v, bound float64) bool { return v < bound }, "at least"},
		{f.Ceilings, func(v, bound float64) bool { return v > bound }, "at most"},
	} {
		for _, name := range slices.Sorted(maps.Keys(side.bounds)) {
			v, ok := f.Ratios[name]
			if !ok {
				v, ok = f.Figures[name]
			}
			if ok && side.misses(v, side.bounds[name]) {
				out = append(out, fmt.Sprintf("%s is %.2f, must be %s %v", name, v, side.want, side.bounds[name]))
			}
		}
	}
	return out
}

// Shaped is a report as programs read it: with ratios and figures. One that has its figures as fields has them in those too.
func Shaped(rep any) any {
	b, err := json.Marshal(rep)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(b, &fields) != nil || fields["figures"] != nil {
		return rep
	}
	ratios, figures := map[string]any{}, map[string]any{}
	for name, v := range fields {
		if _, number := v.(float64); !number {
			continue
		}
		if strings.Contains(name, "_vs_") || strings.HasSuffix(name, "_ratio") {
			ratios[name] = v
		} else {
			figures[name] = v
		}
	}
	fields["ratios"], fields["figures"] = ratios, figures
	return fields
}

// Setup is what the figures depend on.
type Setup struct {
	Seconds    int     `json:"seconds"`
	Rounds     int     `json:"rounds"`
	EntryBytes int     `json:"entry_bytes"`
	Sessions   int     `json:"sessions"`
	Batch      int     `json:"batch"`
	TCP        bool    `json:"tcp"`
	CPUs       int     `json:"cpus"`
	Load       float64 `json:"load_average"` // of the machine in the minute before; 0 = unknown too
	Go         string  `json:"go"`
	Platform   string  `json:"platform"`
}

// versus names every ratio: Spool's part, the part that it is compared with, and the floors of DESIGN 14 for entries a second and for
// processor time an entry, 0 for none. The second has _cpu behind its name.
var versus = []struct {
	name, of, to string
	floor, cpu   float64
}{
	{"vs_naive", "spool", "naive", 12, 0},
	{"vs_null", "spool", "null", 0, 0.6},
	{"vs_raw_publish", "spool", "raw_publish", 0, 0},
	{"sync_always_vs_naive", "spool_sync_always", "naive_sync_always", 25, 0},
}

const byCPU = "_cpu"

func (b *bench) report() *Report {
	r := &Report{Findings: newFindings(), Runs: b.runs, Stalls: b.stalls, Setup: b.setup()}
	r.Ceilings = map[string]float64{"latency_1000_p50_ms": 4, "latency_1000_p99_ms": 15}
	for name, runs := range b.runs {
		r.Figures[name+"_per_s"] = median(perSec(runs))
		r.Figures[name+"_cpu_us_per_entry"] = median(cpuMicro(runs))
	}
	for _, v := range versus {
		of, to := b.runs[v.of], b.runs[v.to]
		r.ratio(v.name, v.floor, perSec(of), perSec(to))
		r.ratio(v.name+byCPU, v.cpu, cpuMicro(to), cpuMicro(of))
	}
	return r
}

// ratio is the median of the rounds'; with a floor where there is one.
func (f Findings) ratio(name string, floor float64, of, to []float64) {
	if floor > 0 {
		f.Floors[name] = floor
	}
	if len(of) == 0 || len(of) != len(to) || slices.Min(to) <= 0 {
		return
	}
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	f.Ratios[name] = median(ratios)
}

func cpuMicro(runs []Run1) []float64 { return each(runs, func(r Run1) float64 { return r.CPUMicro }) }

func perSec(runs []Run1) []float64 { return each(runs, func(r Run1) float64 { return r.PerSec }) }

func each[T any](runs []T, f func(T) float64) []float64 {
	out := mapped.List(runs, f)
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

// rows are the parts in the order of the table.
var rows = []struct{ part, what string }{
	{"raw_publish", "publish alone, a message an entry"},
	{"null", "null pipeline, Spool's way in and out without the work"},
	{"naive", "naive pipeline: two objects, a key, an item, an ack each; 8 entries side by side"},
	{"spool", "Spool: publish to item and head durable"},
	{"naive_sync_always", "naive pipeline, 8 side by side, sync always"},
	{"spool_sync_always", "Spool, sync always"},
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	t := text.NewTable(w)
	fmt.Fprintf(t, "Entries of %d bytes, %d sessions, %d a publish; medians of %d rounds of %d s; %s\n\n",
		r.Setup.EntryBytes, r.Setup.Sessions, r.Setup.Batch, r.Setup.Rounds, r.Setup.Seconds, r.Setup.machine())
	fmt.Fprint(t, "\tentries/s\tCPU µs/entry\tlowest\thighest\tcores of others\n")
	for _, row := range rows {
		rate, ok := r.Figures[row.part+"_per_s"]
		if !ok {
			continue
		}
		all := perSec(r.Runs[row.part])
		fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\n", row.what, rate, r.Figures[row.part+"_cpu_us_per_entry"], slices.Min(all),
			slices.Max(all), median(each(r.Runs[row.part], func(x Run1) float64 { return x.Others })))
	}
	errs := []error{t.Flush()}
	fmt.Fprint(t, "\nSpool against\tby entries/s\tfloor\tby CPU\tfloor\n")
	for _, v := range versus {
		if ratio, ok := r.Ratios[v.name]; ok {
			fmt.Fprintf(t, "%s\t%.2f\t%s\t%.2f\t%s\n", v.name, ratio, floorText(v.floor), r.Ratios[v.name+byCPU], floorText(v.cpu))
		}
	}
	errs = append(errs, t.Flush())
	fmt.Fprint(t, "\nWhen due to be published, to item seen\tp50 ms\tp99 ms\tentries/s\n")
	for _, l := range latencyRows {
		if p50, ok := r.Figures[l.prefix+"_p50_ms"]; ok {
			fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.0f\n", l.what, p50, r.Figures[l.prefix+"_p99_ms"], r.Figures[l.prefix+"_rate_per_s"])
		}
	}
	errs = append(errs, t.Flush())
	for _, s := range r.Stalls {
		fmt.Fprintf(t, "\nrepeated: %s, which stood still for %.1f s", s.Part, s.Pause)
	}
	if len(r.Stalls) > 0 {
		fmt.Fprintln(t)
	}
	return errors.Join(append(errs, t.Flush())...)
}

// machine is what of a setup is the machine's.
func (s Setup) machine() string {
	return fmt.Sprintf("%d CPUs, load average %.1f before, %s, %s", s.CPUs, s.Load, s.Platform, s.Go)
}

func floorText(floor float64) string {
	if floor == 0 {
		return "-"
	}
	return fmt.Sprint(floor)
}

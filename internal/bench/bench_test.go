package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/pkg/dialect"
)

// Every part must finish and hold what it must, and the report must say all that readers of its JSON rely on.
func TestRun(t *testing.T) {
	rep := must.Get(Run(t.Context(), Config{Seconds: 1, Rounds: 1, Entries: 300, Dir: t.TempDir()}))(t)
	for _, v := range versus {
		for _, name := range []string{v.name, v.name + byCPU} {
			if rep.Ratios[name] <= 0 {
				t.Errorf("Ratios[%s] = %v, want more than 0", name, rep.Ratios[name])
			}
		}
	}
	for _, name := range []string{"raw_publish_per_s", "null_per_s", "naive_per_s", "spool_per_s",
		"naive_sync_always_per_s", "spool_sync_always_per_s", "latency_p50_ms", "latency_p99_ms", "latency_1000_p99_ms"} {
		if rep.Figures[name] <= 0 {
			t.Errorf("Figures[%s] = %v, want more than 0", name, rep.Figures[name])
		}
	}
	if got, want := slices.Sorted(maps.Keys(rep.Floors)), []string{"sync_always_vs_naive", "vs_naive", "vs_null_cpu"}; !slices.Equal(got, want) {
		t.Errorf("Floors has %v, want %v", got, want)
	}
	var table strings.Builder
	must.Do(t, rep.Write(&table))
	for _, row := range rows {
		if !strings.Contains(table.String(), row.what) {
			t.Errorf("the table has no row %q:\n%s", row.what, &table)
		}
	}
}

// Fleet measures every fleet, and says what it asks for when it cannot.
func TestFleet(t *testing.T) {
	rep := must.Get(Fleet(t.Context(), FleetConfig{Sessions: []int{4, 40}, Agents: 30, Readers: 8, Seconds: 1, Rounds: 1, Batch: 20, HeadBytes: 1,
		Dir: t.TempDir()}))(t)
	for i, r := range rep.Runs {
		if r.Sessions != []int{4, 40, 30, 30}[i] || r.Batch != []int{20, 20, 10, 1}[i] || r.Entries == 0 || r.CPUMicro <= 0 || r.Loads == 0 ||
			r.Stored <= 0 {
			t.Errorf("Runs[%d] = %+v, want entries, loads and bytes of 4 and 40 sessions and 30 agents", i, r)
		}
	}
	for _, name := range []string{"sessions_40_cpu", "sessions_40_own_cpu", "agents_30_cpu", "agents_30_stored_of_jsonl"} {
		if rep.Ratios[name] <= 0 {
			t.Errorf("Ratios[%s] = %v, want more than 0", name, rep.Ratios[name])
		}
	}
	if rep.Figures["nats_load80_p99_ms"] <= 0 {
		t.Errorf("Figures = %v, want those of readers", rep.Figures)
	}
	var table strings.Builder
	must.Do(t, rep.Write(&table))
	for _, what := range []string{"40 sessions", "30 agents, an entry at a time", "agents_30_cpu", "Live readers"} {
		if !strings.Contains(table.String(), what) {
			t.Errorf("the table does not have %q:\n%s", what, &table)
		}
	}
	must.Is(t, must.Err(Fleet(t.Context(), FleetConfig{Sessions: []int{1}})), ErrConfig, "Fleet of one session")
}

// What stood still is measured again, twice at most, and told.
func TestWhatStandsStillIsRepeated(t *testing.T) {
	for _, pauses := range [][]float64{{0.1}, {30, 0.1}, {30, 30, 30}} {
		b, n := newBench(Config{Note: func(string) {}}), 0
		r := must.Get(b.steady("null", func() (Run1, error) {
			n++
			return Run1{Pause: pauses[n-1]}, nil
		}))(t)
		if n != len(pauses) || len(b.stalls) != n-1 || r.Pause != pauses[n-1] {
			t.Errorf("pauses %v: %d runs, %d told, %+v counts; want all of them, all but the last, the last", pauses, n, len(b.stalls), r)
		}
	}
}

// A pause of a pipeline is seen, where it is.
func TestLongestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pausing{pause: 3 * time.Second}
		f := newFlowOver(p, newProse(), 1)
		b := newBench(Config{})
		r := must.Get(b.measure(f, func() (int64, error) { return f.push(t.Context(), time.Second, fastWindow, 100) }))(t)
		if r.Pause < 2.9 || r.Pause > 3.1 {
			t.Errorf("the longest pause is %.2f s, want 3", r.Pause)
		}
	})
}

// pausing is a pipeline that stands still once.
type pausing struct {
	pause time.Duration
	n     atomic.Int64
}

func (*pausing) publishers() int                     { return 1 }
func (*pausing) batch() int                          { return 1 }
func (p *pausing) done() int64                       { return p.n.Load() }
func (*pausing) verify(context.Context, int64) error { return nil }
func (*pausing) close()                              {}

func (p *pausing) publish(_ context.Context, _ int, _ []*session, n int) error {
	if p.n.Load() == 50 {
		time.Sleep(p.pause)
	}
	p.n.Add(int64(n))
	return nil
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := Run(t.Context(), Config{Seconds: 1000, Rounds: -1, Entries: -1, Batch: -1, Sync: "sometimes"})
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("Run = %v, want ErrConfig", err)
	}
	for _, what := range []string{"seconds", "rounds", "entries", "batch", "sync"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("Run = %q, which does not name %s", err, what)
		}
	}
}

// The parts count items against entries, so an entry must make one item, whatever its place in a turn.
func TestEntryMakesOneItem(t *testing.T) {
	d, _ := dialect.Lookup(dialectName)
	var m dialect.Memory
	s := newSession(3, newProse())
	for i := range 3 * turn {
		b := s.next()
		if len(b) != entryBytes || !json.Valid(b) {
			t.Fatalf("next() = %d bytes, valid: %v, want %d valid: %s", len(b), json.Valid(b), entryBytes, b)
		}
		e, err := d.Read(b, &m)
		if err != nil || !e.Known || len(e.Items) != 1 {
			t.Fatalf("entry %d has %d items, known: %v, %v, want 1: %s", i, len(e.Items), e.Known, err, b)
		}
	}
}

func TestMissedComparesWhatWasMeasured(t *testing.T) {
	f := Findings{
		Ratios:   map[string]float64{"vs_null_cpu": 0.5, "vs_naive": 15, "sessions_5000_cpu": 1.6},
		Floors:   map[string]float64{"vs_null_cpu": 0.6, "vs_naive": 15, "unmeasured": 1},
		Figures:  map[string]float64{"latency_1000_p50_ms": 5.1},
		Ceilings: map[string]float64{"latency_1000_p50_ms": 5, "sessions_5000_cpu": 1.5},
	}
	got := f.Missed()
	want := []string{"vs_null_cpu is 0.50, must be at least 0.6", "latency_1000_p50_ms is 5.10, must be at most 5",
		"sessions_5000_cpu is 1.60, must be at most 1.5"}
	if !slices.Equal(got, want) {
		t.Errorf("Missed() = %q, want %q", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}} {
		must.Same(t, median(c.in), c.want, "median(%v) = %v, want %v", c.in)
	}
}

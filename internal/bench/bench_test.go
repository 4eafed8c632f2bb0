package bench

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/dialect"
)

// Every part must finish and hold what it must, and the report must say all that readers of its JSON rely on.
func TestRun(t *testing.T) {
	rep := must.Get(Run(t.Context(), Config{Seconds: 1, Rounds: 1, Entries: 300, Dir: t.TempDir()}))(t)
	for _, v := range versus {
		if rep.Ratios[v.name] <= 0 {
			t.Errorf("Ratios[%s] = %v, want more than 0", v.name, rep.Ratios[v.name])
		}
	}
	for _, name := range []string{"raw_publish_per_s", "null_per_s", "naive_per_s", "spool_per_s", "naive_sync_always_per_s",
		"spool_sync_always_per_s", "latency_p50_ms", "latency_p99_ms"} {
		if rep.Figures[name] <= 0 {
			t.Errorf("Figures[%s] = %v, want more than 0", name, rep.Figures[name])
		}
	}
	if got, want := slices.Sorted(maps.Keys(rep.Floors)), []string{"sync_always_vs_naive", "vs_naive", "vs_null"}; !slices.Equal(got, want) {
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

// Fleet measures every size, and says what it asks for when it cannot.
func TestFleet(t *testing.T) {
	rep := must.Get(Fleet(t.Context(), FleetConfig{Sessions: []int{4, 40}, Seconds: 1, Rounds: 1, Batch: 20, HeadBytes: 1,
		Dir: t.TempDir()}))(t)
	var table strings.Builder
	must.Do(t, rep.Write(&table))
	for i, r := range rep.Runs {
		if r.Sessions != []int{4, 40}[i] || r.Entries == 0 || r.CPUMicro <= 0 || r.Loads == 0 {
			t.Errorf("Runs[%d] = %+v, want entries and loads of 4 and 40 sessions", i, r)
		}
	}
	must.Is(t, must.Err(Fleet(t.Context(), FleetConfig{Sessions: []int{1}})), ErrConfig, "Fleet of one session")
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
	r := &Report{
		Ratios: map[string]float64{"vs_null": 0.5, "vs_naive": 15}, Floors: map[string]float64{"vs_null": 0.6, "vs_naive": 15, "unmeasured": 1},
		Figures: map[string]float64{"latency_p50_ms": 5.1}, Ceilings: ceilings,
	}
	got := r.Missed()
	want := []string{"vs_null is 0.50, must be at least 0.6", "latency_p50_ms is 5.10, must be at most 5"}
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

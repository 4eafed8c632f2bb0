package bench

import (
	"spool/internal/must"
	"strings"
	"testing"
)

// Every reader must get every item, and the report must have what readers of its JSON rely on.
func TestSubscribe(t *testing.T) {
	rep := must.Get(Subscribe(t.Context(), SubscribeConfig{Readers: 40, Slow: 4, Seconds: 1, Behind: 6000, Dir: t.TempDir()}))(t)
	names := []string{"catch_up_items_per_s"}
	for _, kind := range []string{"nats", "sse"} {
		for _, name := range []string{"rate_per_s", "load20_p50_ms", "load20_p99_ms", "load80_p50_ms", "load80_p99_ms"} {
			names = append(names, kind+"_"+name)
		}
		// In so short a round a busy machine may deliver nothing.
		if got, there := rep.Ratios[kind+"_slow_readers_ratio"]; !there || got < 0 {
			t.Errorf("Ratios[%s_slow_readers_ratio] = %v, want one", kind, got)
		}
	}
	for _, name := range names {
		if got := rep.Figures[name]; got <= 0 {
			t.Errorf("Figures[%s] = %v, want more than 0", name, got)
		}
	}
	var table strings.Builder
	must.Do(t, rep.Write(&table))
	for _, row := range []string{"nats", "sse", "catching up with 6000 items"} {
		if !strings.Contains(table.String(), row) {
			t.Errorf("the table has no %q:\n%s", row, &table)
		}
	}
	must.Is(t, must.Err(Subscribe(t.Context(), SubscribeConfig{Readers: -1})), ErrConfig, "Subscribe of -1 readers")
}

package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Every reading must give what was written, and the report must have a figure for all of them.
func TestThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 11,000 entries")
	}
	rep, err := Threads(t.Context(), ThreadsConfig{Entries: 1_000, Objects: 60, Forks: 3, Rounds: 1, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var figures map[string]float64
	if err := json.Unmarshal(raw, &figures); err != nil {
		t.Fatal(err)
	}
	for name, v := range figures {
		if v <= 0 {
			t.Errorf("%s = %v, want more than 0", name, v)
		}
	}
	for _, name := range []string{"tail_vs_jsonl", "context_10k_seconds", "fork_bytes", "bytes_vs_jsonl"} {
		if figures[name] == 0 {
			t.Errorf("the report has no %s", name)
		}
	}
	if rep.TailPacks > 3 || rep.ForkNodes > 2 {
		t.Errorf("tail of %d packs, fork of %v nodes, want at most 3 and 2", rep.TailPacks, rep.ForkNodes)
	}
	var table strings.Builder
	if err := rep.Write(&table); err != nil || strings.Count(table.String(), "\n") != 7 {
		t.Errorf("table = %v\n%s, want 7 lines", err, &table)
	}
	if _, err := Threads(t.Context(), ThreadsConfig{Entries: 3}); !errors.Is(err, ErrConfig) {
		t.Errorf("Threads of 3 entries = %v, want ErrConfig", err)
	}
}

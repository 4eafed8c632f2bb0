package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
)

// Every reading must give what was written, and the report must have a figure for all of them.
func TestThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 11,000 entries")
	}
	rep := must.Get(Threads(t.Context(), ThreadsConfig{Entries: 1_000, Rounds: 1, Dir: t.TempDir()}))(t)
	raw := must.Get(json.Marshal(rep))(t)
	var figures map[string]float64
	must.Do(t, json.Unmarshal(raw, &figures))
	for name, v := range figures {
		if v <= 0 {
			t.Errorf("%s = %v, want more than 0", name, v)
		}
	}
	for _, name := range []string{"tail_vs_jsonl", "context_10k_seconds", "bytes_vs_jsonl"} {
		if figures[name] == 0 {
			t.Errorf("the report has no %s", name)
		}
	}
	if rep.TailPacks > 3 {
		t.Errorf("tail of %d packs, want at most 3", rep.TailPacks)
	}
	var table strings.Builder
	if err := rep.Write(&table); err != nil || strings.Count(table.String(), "\n") != 3 {
		t.Errorf("table = %v\n%s, want 3 lines", err, &table)
	}
	must.Is(t, must.Err(Threads(t.Context(), ThreadsConfig{Entries: 3})), ErrConfig, "Threads of 3 entries")
}

// BenchmarkContext10k reads the whole context of 10,000 entries with empty caches, from a server in this process.
func BenchmarkContext10k(b *testing.B) {
	t, done := must.Two(openThreads(b.Context(), ThreadsConfig{Entries: tailEntries, Dir: b.TempDir()}))(b)
	defer done()
	must.Do(b, t.write(b.Context()))
	head := must.Get(client.New(t.spool.conn).Thread(t.short.thread).Head(b.Context()))(b)
	for b.Loop() {
		must.Do(b, t.context(b.Context(), head))
	}
}

// A small store must give every figure of a large one, and be as bounded.
func TestStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 4,000 nodes and forks 60 threads")
	}
	rep := must.Get(Store(t.Context(), StoreConfig{Nodes: 4_000, Depth: 30, Forks: 30, Dir: t.TempDir()}))(t)
	if missed := rep.Missed(); len(missed) > 0 {
		t.Errorf("missed: %v", missed)
	}
	if rep.Nodes < 4_000 || rep.Entries != 2_000 || rep.RemovedThreads != sessions || rep.RepackedPacks == 0 ||
		rep.BytesAfter >= rep.PackBytes {
		t.Errorf("report = %+v", rep)
	}
	for what, r := range map[string]Reading{
		"tail": rep.Tail, "context": rep.Context, "page": rep.Page, "walk": rep.Walk, "verify": rep.Verify, "tail after": rep.TailAfter,
		"chain tail": rep.ChainTail, "chain walk": rep.ChainWalk, "chain verify": rep.ChainVerify, "chain tail after": rep.ChainTailAfter,
	} {
		if r.Seconds <= 0 || r.Packs == 0 {
			t.Errorf("%s = %+v, want figures", what, r)
		}
	}
	must.Is(t, must.Err(Store(t.Context(), StoreConfig{Nodes: 3})), ErrConfig, "Store of 3 nodes")
}

package gc

import (
	"os"
	"spool/internal/must"
	"strconv"
	"testing"
)

// Marking keeps its promises (DESIGN 14): a tenth of the aim here, because tests share the machine; `spool bench gc` measures.
func TestMeasure(t *testing.T) {
	nodes := 100_000
	if text := os.Getenv("SPOOL_GC_MARK_NODES"); text != "" {
		n := must.Get(strconv.Atoi(text))(t)
		nodes = n
	}
	for n := 10_000; n <= nodes; n *= 10 {
		m := must.Get(Measure(t.Context(), n))(t)
		t.Logf("%+v", m)
		if m.Nodes < n || m.PerSecond < 100_000 || m.PerMillion > 64 {
			t.Errorf("Measure(%d) = %+v, want at least 100,000 nodes a second, and at most 64 MiB for a million", n, m)
		}
	}
}

package artifacts_test

import (
	"testing"

	"spool/internal/must"
	"spool/pkg/artifacts"
)

// TestForkID: the row of a fork has the ID that the fork's items name, over any number of forks; other artifacts have one
// that follows from the session and the row.
func TestForkID(t *testing.T) {
	const node, at = "node:sha256:00", 1_790_000_000_123
	r := row(string(artifacts.ResultID("s", node, 41, at)), "s")
	r.Writer, r.Node = artifacts.FromResult, node
	for _, to := range []string{"t", "u"} {
		id := r.ForkID(to)
		must.Same(t, id, artifacts.ResultID(to, node, 41, at), "ForkID(%s) = %s, want %s", to)
		r = r.Fork(to, id, at+5_000)
	}
	other := row("art_1", "s")
	if a, b := other.ForkID("t"), other.ForkID("u"); a == b || a != other.ForkID("t") {
		t.Errorf("ForkID(t) = %s, ForkID(u) = %s, want two that stay", a, b)
	}
	if artifacts.ResultID("s", node, 1, at) == artifacts.ResultID("s", node, 2, at) {
		t.Error("two results of one state have one id")
	}
}

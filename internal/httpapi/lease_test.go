package httpapi_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"spool/pkg/events"
)

// TestLeases: a lease that is too long, also one that no time can hold, is refused with what and where, and nothing begins.
func TestLeases(t *testing.T) {
	ctx, cl, url := world(t)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	const at = "/v1/sessions/s/threads/main/"
	const week = 7 * 86_400_000
	for _, ms := range []int64{-1, week + 1, 9223372036854, 9223372036855, 18446744073710, 18446744673710, 1e18, math.MaxInt64} {
		status, _, body := do(t, url, request{path: at + "runs", kind: "application/json", body: fmt.Sprintf(`{"run":"r","lease_ms":%d}`, ms)})
		if status != 400 || !strings.Contains(body, "lease_ms") || !strings.Contains(body, "604800000") {
			t.Errorf("a run with a lease of %d ms = %d %s, want 400 with the bound of lease_ms", ms, status, body)
		}
		status, _, body = do(t, url, request{path: fmt.Sprintf("%soutputs?tool=t&id=o%d&lease_ms=%d", at, ms, ms),
			kind: "text/plain", body: "abc"})
		if status != 400 || !strings.Contains(body, "lease_ms") || ms > 0 && !strings.Contains(body, "604800000") {
			t.Errorf("an output with a lease of %d ms = %d %s, want 400 with the bound of lease_ms", ms, status, body)
		}
	}
	for name, q := range map[string]request{
		"a run's agent":   {path: at + "runs", kind: "application/json", body: fmt.Sprintf(`{"agent":%q}`, strings.Repeat("x", 300))},
		"a run's summary": {path: at + "runs", kind: "application/json", body: fmt.Sprintf(`{"summary":%q}`, strings.Repeat("x", 5000))},
		"an output's tool": {
			path: at + "outputs?tool=" + strings.Repeat("x", 2000), kind: "text/plain", body: "abc",
		},
	} {
		if status, _, body := do(t, url, q); status != 400 {
			t.Errorf("%s that is too long = %d %s, want 400", name, status, body)
		}
	}
	if runs, err := cl.Session("s").Runs(ctx); err != nil || len(runs) != 0 {
		t.Errorf("Runs = %+v, %v, want none", runs, err)
	}
	for _, q := range []request{
		{path: at + "runs", kind: "application/json", body: fmt.Sprintf(`{"run":"r","lease_ms":%d}`, int64(week))},
		{path: fmt.Sprintf("%soutputs?tool=t&id=o&lease_ms=%d", at, int64(week)), kind: "text/plain", body: "abc"},
	} {
		if status, _, body := do(t, url, q); status != 201 {
			t.Errorf("a lease of a week = %d %s, want 201", status, body)
		}
	}
}

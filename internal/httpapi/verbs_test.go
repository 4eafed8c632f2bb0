package httpapi_test

import (
	"testing"

	"spool/internal/httpapi"
)

// TestForce: a thread with a live run is removed by force alone, and force=false is none.
func TestForce(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const thread, js = "/v1/sessions/s/threads/main", "application/json"
	for _, step := range []struct {
		method, query, body string
		want                int
	}{
		{"POST", "/entries?dialect=item", `{"content":[]}`, 202},
		{"POST", "/runs", `{"run":"r","lease_ms":600000}`, 201},
		{"DELETE", "?force=false", "", 409},
		{"DELETE", "?force=0", "", 409},
		{"DELETE", "", "", 409},
		{"DELETE", "?force", "", 200},
	} {
		status, _, text := do(t, url, request{method: step.method, path: thread + step.query, kind: js, body: step.body})
		if status != step.want {
			t.Errorf("%s %s = %d %s, want %d", step.method, step.query, status, text, step.want)
		}
	}
}

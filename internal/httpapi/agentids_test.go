package httpapi_test

import (
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
)

// An agent's id is given once, whoever gives it: one that a program gave to an agent of its own, by whatever door Spool comes to hear of
// it, is not given out again (SPEC A9).
func TestAgentIDsAreGivenOnce(t *testing.T) {
	conn, ctx, _, url := worldOn(t, httpapi.Config{})
	const js = "application/json"
	const entry = `{"content":[{"type":"text","text":"hello"}]}`
	for door, q := range map[string]request{
		"start":     {path: "threads/main/start", body: `{"name":"0-Plan"}`},
		"run":       {path: "threads/main/runs", body: `{"agent":"0-Plan"}`},
		"entries":   {path: "threads/0-Plan/entries?dialect=item", body: entry},
		"fork":      {path: "threads/base/fork", body: `{"to":"0-Plan","index":1}`},
		"rename":    {path: "threads/base/rename", body: `{"to":"0-Plan"}`},
		"output":    {path: "threads/main/outputs?tool=make&agent=0-Plan", body: "built\n"},
		"output of": {path: "artifacts?agent=0-Plan", kind: "text/plain", body: "done"},
		"artifact":  {path: "artifacts?agent=0-Plan&tool=make", kind: "text/plain", body: "built"},
	} {
		at := "/v1/sessions/" + strings.ReplaceAll(door, " ", "-")
		post := func(q request) string {
			t.Helper()
			if q.kind == "" {
				q.kind = js
			}
			q.path = at + "/" + q.path
			status, _, text := do(t, url, q)
			if status >= 300 {
				t.Fatalf("%s: POST %s = %d %s", door, q.path, status, text)
			}
			must.Do(t, faulttest.Settle(ctx, conn))
			return text
		}
		post(request{path: "threads/base/entries?dialect=item", body: entry})
		post(q)
		if got := post(request{path: "agents", body: `{"name":"Plan"}`}); !strings.Contains(got, `"id":"1-Plan"`) {
			t.Errorf("%s: the next agent is %s, want 1-Plan", door, got)
		}
		if got := post(request{path: "agents", body: `{"name":"Look","parent":"1-Plan"}`}); !strings.Contains(got, `"id":"1-Plan.0-Look"`) {
			t.Errorf("%s: the first agent of that is %s, want 1-Plan.0-Look", door, got)
		}
	}
}

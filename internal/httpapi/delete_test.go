package httpapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A session and an artifact can be deleted, but not a session in which somebody works (SPEC A5, A6).
func TestDelete(t *testing.T) {
	ctx, cl, url := world(t)
	id := events.Thread{Session: "s", Name: "main"}
	run, err := cl.Thread(id).StartRun(ctx, client.RunConfig{ID: "r1", Lease: time.Hour})
	if err == nil {
		err = run.Wait(ctx)
	}
	must.Do(t, err)
	r, err := cl.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("text"))
	must.Do(t, err)
	remove := func(path string) (int, string) {
		t.Helper()
		status, _, body := do(t, url, request{method: "DELETE", path: path})
		return status, body
	}
	if status, body := remove("/v1/artifacts/" + string(r.ID)); status != 200 || !strings.Contains(body, string(r.ID)) {
		t.Errorf("DELETE of an artifact = %d %s", status, body)
	}
	if status, body := remove("/v1/artifacts/" + string(r.ID)); status != 404 {
		t.Errorf("DELETE of no artifact = %d %s, want 404", status, body)
	}
	if status, body := remove("/v1/sessions/s"); status != 409 || !strings.Contains(body, "session_active") || !strings.Contains(body, "r1") {
		t.Errorf("DELETE of an active session = %d %s, want 409, session_active and the run", status, body)
	}
	must.Do(t, errors.Join(run.End(ctx, artifacts.RunCompleted, ""), run.Wait(ctx)))
	status, body := remove("/v1/sessions/s?by=mira")
	var receipt client.Receipt
	if err := json.Unmarshal([]byte(body), &receipt); status != 200 || err != nil || !receipt.Deleted ||
		receipt.By != "mira" || receipt.Gone.Threads != 1 {
		t.Errorf("DELETE of a session = %d %s, %v", status, body, err)
	}
	for path, want := range map[string]int{"/v1/sessions/s": 404, "/v1/sessions/no.name": 400} {
		if status, body := remove(path); status != want {
			t.Errorf("DELETE %s = %d %s, want %d", path, status, body, want)
		}
	}
}

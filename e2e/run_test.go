package e2e_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// listedRun is a line of spool run ls --json.
type listedRun struct {
	Session, Thread, Run, Agent, State, Summary string
	Expired                                     bool
	Left                                        int64 `json:"lease_left_ms"`
}

// TestRuns lists runs that live, that were ended and whose agent died, also over kill -9 of the server (SPEC A6).
func TestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	conn := w.dial()
	c, ctx := client.New(conn), t.Context()
	begin := func(ctx context.Context, id string, state artifacts.RunStatus, lease time.Duration) *client.Run {
		t.Helper()
		r, err := c.Thread(events.Thread{Session: "s", Name: "main"}).StartRun(ctx, client.RunConfig{ID: id, Agent: "coder", State: state,
			Lease: lease})
		if err == nil {
			err = r.Wait(ctx)
		}
		must.Do(t, err)
		return r
	}
	begin(ctx, "lives", artifacts.RunRunning, time.Hour)
	begin(ctx, "waits", artifacts.RunQueued, 2*time.Hour)
	done := begin(ctx, "done", artifacts.RunRunning, 0)
	must.Do(t, done.End(ctx, artifacts.RunCompleted, "all of it"))
	must.Do(t, done.Wait(ctx))
	dying, dies := context.WithCancel(ctx)
	begin(dying, "died", artifacts.RunRunning, time.Second)
	dies()

	table := w.run("spool", "run", "ls")
	for _, want := range []string{`RUN +THREAD +AGENT +STATE +AGE +LEASE LEFT`,
		`lives +s/main +coder +running +now +(1h0m0s|59m\d+s)`, `waits +s/main +coder +queued`} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("run ls =\n%s\nwant %q", table, want)
		}
	}
	if strings.Contains(table, "done") {
		t.Errorf("run ls shows what has ended:\n%s", table)
	}
	up.Kill()
	up = w.up()
	w.run("spool", "run", "end", "s", "waits", "--summary", "not needed")
	if _, errw, code := w.try("", "spool", "run", "end", "s", "waits"); code != 1 || !strings.Contains(errw, "waits is cancelled") {
		t.Errorf("run end again: exit code %d, %q", code, errw)
	}
	if _, errw, code := w.try("", "spool", "run", "end", "s", "nothing"); code != 1 || !strings.Contains(errw, "no such run") {
		t.Errorf("run end nothing: exit code %d, %q", code, errw)
	}
	all := map[string]listedRun{}
	for deadline := time.Now().Add(time.Minute); !all["died"].Expired && time.Now().Before(deadline); {
		for _, r := range decode[listedRun](t, w.run("spool", "run", "ls", "s", "--all", "--json")) {
			all[r.Run] = r
		}
	}
	for id, want := range map[string]listedRun{
		"lives": {State: "running"}, "done": {State: "completed", Summary: "all of it"}, "waits": {State: "cancelled", Summary: "not needed"},
		"died": {State: "failed", Expired: true},
	} {
		got := all[id]
		if got.State != want.State || got.Expired != want.Expired || got.Summary != want.Summary || got.Session != "s" ||
			got.Thread != "main" || (got.Left > 0) != (id == "lives") {
			t.Errorf("run %s = %+v, want %+v", id, got, want)
		}
	}
	if text := w.run("spool", "run", "ls", "s", "--all"); !regexp.MustCompile(`died +s/main +coder +failed +\S+ +over`).MatchString(text) {
		t.Errorf("run ls --all =\n%s\nwant died over", text)
	}
	conn.Close()
	must.Same(t, up.Stop(), 0, "spool up: exit code %d, want %d")
}

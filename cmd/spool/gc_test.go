package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/service"
)

// TestRefusedPlans: a plan that is not begun deletes nothing, tells so, and is no alarm of the system's.
func TestRefusedPlans(t *testing.T) {
	url, cl := whole(t)
	must.Do(t, cl.Session("s").New(t.Context(), "/w", ""))
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	stale := filepath.Join(dir, "stale.json")
	for _, line := range [][]string{{"gc", "--plan", stale}, {"gc"}} { // the second one begins a cycle behind the plan
		if out, code := spool(t, append(line, "--nats", url)...); code != 0 {
			t.Fatalf("spool %v = %d %s", line, code, out)
		}
	}
	for _, x := range []struct {
		file, says string
		code       int
	}{
		{file("notplan.json", `{"content":"x"}`), "is no plan", service.ExitUsage},
		{file("list.json", `[]`), "is no plan", service.ExitUsage},
		{file("empty.json", ``), "is no plan", service.ExitUsage},
		{file("later.json", `{"version":7,"cycle":"c"}`), "version 7", service.ExitFailure},
		{stale, "the plan is out of date", service.ExitFailure},
	} {
		out, code := spool(t, "gc", "apply", x.file, "--nats", url)
		if code != x.code || !strings.Contains(out, x.says) || !strings.Contains(out, filepath.Base(x.file)) ||
			strings.Contains(out, "tombstones") {
			t.Errorf("gc apply %s = %d %q, want %d, %q with the file, and no report", filepath.Base(x.file), code, out, x.code, x.says)
		}
	}
	out, code := spool(t, "gc", "apply", "--json", stale, "--nats", url)
	var r gc.Report
	must.Do(t, json.NewDecoder(strings.NewReader(out)).Decode(&r))
	if code != service.ExitFailure || r.Applied || !strings.Contains(r.Refused, "out of date") {
		t.Errorf("gc apply --json of an old plan = %d %s, want it refused and not applied", code, out)
	}
	if out, code := spool(t, "check", "gc", "--nats", url); code != 0 {
		t.Errorf("check gc after refused plans = %d %q, want no alarm", code, out)
	}
}

// TestDryRunSaysWhatIsFreed: gc says beforehand what leaves the disk, and by which plan.
func TestDryRunSaysWhatIsFreed(t *testing.T) {
	url, cl := whole(t)
	must.Do(t, cl.Session("keep").New(t.Context(), "/w", ""))
	publish(t, cl, "gone", `{"content":[{"type":"text","text":"`+strings.Repeat("some text ", 2000)+`"}]}`)
	if out, code := spool(t, "session", "rm", "gone", "--yes", "--nats", url); code != 0 {
		t.Fatalf("session rm = %d %s", code, out)
	}
	report := func(args ...string) (r gc.Report) {
		out, code := spool(t, append(args, "--json", "--nats", url)...)
		if code != 0 {
			t.Fatalf("spool %v = %d %s", args, code, out)
		}
		must.Do(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	kept := report("gc", "--quarantine", "24h")
	plan := filepath.Join(t.TempDir(), "plan.json")
	dry := report("gc", "--plan", plan)
	done := report("gc", "apply", plan)
	if kept.Planned.Reclaim >= dry.Planned.Reclaim || dry.Planned.Reclaim != done.Done.Reclaimed ||
		dry.Planned.ReclaimBytes != done.Done.Bytes ||
		done.Planned != dry.Planned || done.Done.Bytes == 0 {
		t.Errorf("with a quarantine gc plans %+v, without one %+v, and then frees %d objects of %d bytes; want the same, but for the quarantine",
			kept.Planned, dry.Planned, done.Done.Reclaimed, done.Done.Bytes)
	}
}

package artifacts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/artifacts"
)

// The recorded behaviour of the program behind seed 001. What Spool promises otherwise stands as ✗ in SPEC A3 to A10.

type result struct {
	DryRun     bool     `json:"dry_run"`
	Candidates [][]any  `json:"candidates"` // file name, reason, size or null
	Deleted    []string `json:"deleted"`
}

func golden(t *testing.T, section string, into any) {
	t.Helper()
	b := must.Get(os.ReadFile("../../testdata/golden/soong/10_soong_artifacts.json"))(t)
	var all map[string]json.RawMessage
	must.Do(t, errors.Join(json.Unmarshal(b, &all), json.Unmarshal(all[section], into)))
}

// registry is records in memory.
type registry struct {
	rows   []artifacts.Record
	broken artifacts.ID // cannot be removed
}

func (g *registry) Records(_ context.Context, session string, id artifacts.ID) ([]artifacts.Record, error) {
	var out []artifacts.Record
	for _, r := range g.rows {
		if (session == "" || r.Session == session) && (id == "" || r.ID == id) {
			out = append(out, r)
		}
	}
	slices.Reverse(out) // no order is promised
	return out, nil
}

func (g *registry) Remove(_ context.Context, r artifacts.Record) error {
	if r.ID == g.broken {
		return errors.New("disk on fire")
	}
	g.rows = slices.DeleteFunc(g.rows, func(o artifacts.Record) bool { return o.ID == r.ID })
	return nil
}

var created = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// recorded is the registry that the cleanups of the recording began with.
func recorded() *registry {
	g := &registry{}
	for i, r := range []artifacts.Record{
		{Filename: "plain.txt", Size: 10, Category: artifacts.Normal, Session: "s1"},
		{Filename: "debug.txt", Size: 20, Category: artifacts.Debug, Session: "s1"},
		{Filename: "raw.json", Size: 30, Category: artifacts.ProviderRaw, Session: "s2"},
		{Filename: "nosize.txt", Size: artifacts.UnknownSize, Category: artifacts.Normal, Session: "s2"},
		{Filename: "strdebug.txt", Size: 1, Category: artifacts.Normal, Session: "s1"},
	} {
		r.ID, r.Created, r.Writer = artifacts.ID(fmt.Sprintf("art_%d", i)), created.UnixMilli(), artifacts.FromPayload
		g.rows = append(g.rows, r)
	}
	return g
}

var maxBytes = regexp.MustCompile(`max_bytes=(\d+)`)

// cleanup reads what a recorded case asked for out of its name.
func cleanup(name string) artifacts.Cleanup {
	c := artifacts.Cleanup{EverySession: true, IncludeAll: strings.Contains(name, "include_all"), Apply: strings.HasPrefix(name, "execute")}
	if m := maxBytes.FindStringSubmatch(name); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		c.MaxBytes = &n
	}
	if s, ok := strings.CutPrefix(name, "session "); ok {
		c.Session, c.EverySession = s, false
	}
	if name == "unknown session" {
		c.Session, c.EverySession = "nobody", false
	}
	if when, ok := strings.CutPrefix(name, "older_than "); ok {
		c.IncludeAll = true
		switch {
		case strings.HasPrefix(when, "future"):
			c.OlderThan = created.Add(time.Hour)
		case strings.HasPrefix(when, "past"):
			c.OlderThan = created.Add(-time.Hour)
		case strings.HasPrefix(when, "== created_at"):
			c.OlderThan = created
		case strings.HasPrefix(when, "1us later"):
			c.OlderThan = created.Add(time.Microsecond)
		}
	}
	return c
}

func TestCleanAsRecorded(t *testing.T) {
	var cases map[string]json.RawMessage
	golden(t, "cleanup_artifacts", &cases)
	ran := 0
	for name, raw := range cases {
		var want result
		if json.Unmarshal(raw, &want) != nil || strings.HasPrefix(name, "session_id=''") || name == "second run idempotent" {
			continue // facts about files; a time without zone; what is tested below
		}
		ran++
		g := recorded()
		before := len(g.rows)
		report, err := artifacts.Clean(context.Background(), g, cleanup(name))
		if got := asResult(report); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Clean = %v, %v, want %v", name, got, err, want)
		}
		must.Same(t, len(g.rows), before-len(want.Deleted), "%s: %d records are left, want %d", name)
		if again, err := artifacts.Clean(context.Background(), g, cleanup(name)); err != nil || !report.DryRun && len(again.Candidates) != 0 {
			t.Errorf("%s: a second Clean = %v, %v, want no candidates", name, again, err)
		}
	}
	if ran < 12 {
		t.Errorf("ran %d cases, want at least 12", ran)
	}
}

func asResult(r artifacts.Report) result {
	out := result{DryRun: r.DryRun, Candidates: [][]any{}, Deleted: []string{}}
	files := map[artifacts.ID]string{}
	for _, c := range r.Candidates {
		var size any
		if c.Record.Size != artifacts.UnknownSize {
			size = float64(c.Record.Size)
		}
		out.Candidates = append(out.Candidates, []any{c.Record.Filename, c.Reason, size})
		files[c.Record.ID] = c.Record.Filename
	}
	for _, id := range r.Deleted {
		out.Deleted = append(out.Deleted, files[id])
	}
	return out
}

// TestCleanPromises has what the recording has not, or has otherwise (SPEC A5).
func TestCleanPromises(t *testing.T) {
	ctx, limit := context.Background(), int64(5)
	must.Is(t, must.Err(artifacts.Clean(ctx, recorded(), artifacts.Cleanup{Apply: true, IncludeAll: true})), artifacts.ErrNoSession,
		"Clean of session \"\"")
	g := recorded()
	g.rows[0].Created++ // the newest now
	g.rows[1].Category, g.rows[4].Category = artifacts.HookLog, artifacts.Traceback
	g.broken = g.rows[1].ID
	c := artifacts.Cleanup{EverySession: true, IncludeAll: true, MaxBytes: &limit}
	dry := must.Get(artifacts.Clean(ctx, g, c))(t)
	want := [][]any{{"debug.txt", artifacts.ReasonDebug, 20.0}, {"raw.json", artifacts.ReasonRaw, 30.0},
		{"plain.txt", artifacts.ReasonSize, 10.0}}
	if got := asResult(dry).Candidates; !reflect.DeepEqual(got, want) {
		t.Errorf("candidates = %v, want %v", got, want)
	}
	c.Apply = true
	done, err := artifacts.Clean(ctx, g, c)
	if err != nil || !reflect.DeepEqual(done.Candidates, dry.Candidates) {
		t.Errorf("Clean = %v, %v, want the candidates of the dry run", done.Candidates, err)
	}
	if len(done.Deleted) != 2 || len(done.Failures) != 1 || done.Failures[0].ID != g.broken || len(g.rows) != 3 {
		t.Errorf("Clean with a failure = %+v, %d records left; want 2 deleted, 1 failure, 3 left", done, len(g.rows))
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := artifacts.Clean(stopped, g, c); !errors.Is(err, context.Canceled) || len(g.rows) != 3 {
		t.Errorf("Clean after cancel = %v with %d records left, want Canceled with 3", err, len(g.rows))
	}
}

func TestDelete(t *testing.T) {
	var cases map[string]json.RawMessage
	golden(t, "delete_artifact", &cases)
	var unknown struct {
		Errors []struct{ Message string }
	}
	must.Do(t, json.Unmarshal(cases["unknown id"], &unknown))
	g := recorded()
	err := artifacts.Delete(context.Background(), g, "art_none")
	if !errors.Is(err, artifacts.ErrNotFound) || err.Error() != unknown.Errors[0].Message {
		t.Errorf("Delete(art_none) = %v, want %q", err, unknown.Errors[0].Message)
	}
	if err := artifacts.Delete(context.Background(), g, ""); !errors.Is(err, artifacts.ErrNotFound) || len(g.rows) != 5 {
		t.Errorf("Delete(\"\") = %v, %d records left, want ErrNotFound, 5", err, len(g.rows))
	}
	if err := artifacts.Delete(context.Background(), g, "art_1"); err != nil || len(g.rows) != 4 {
		t.Errorf("Delete(art_1) = %v, %d records left, want 4", err, len(g.rows))
	}
	if err := artifacts.Delete(context.Background(), g, "art_1"); err == nil || err.Error() != "artifact not found: art_1" {
		t.Errorf("second Delete(art_1) = %v", err)
	}
}

// TestDeletableAsRecorded: each status decides as recorded while the lease is live (SPEC A6).
func TestDeletableAsRecorded(t *testing.T) {
	var cases map[string]json.RawMessage
	golden(t, "delete_session", &cases)
	ran := 0
	for name, raw := range cases {
		status, ok := strings.CutPrefix(name, "run status ")
		if !ok {
			continue
		}
		ran++
		var want struct {
			Deleted bool
			Error   *struct{ Message string }
		}
		must.Do(t, json.Unmarshal(raw, &want))
		a := artifacts.Activity{Runs: []artifacts.Run{{ID: "r", Status: artifacts.RunStatus(status), Lease: created.Add(time.Second)}}}
		err := a.Deletable(created)
		if (err == nil) != want.Deleted || err != nil && (err.Error() != want.Error.Message || !errors.Is(err, artifacts.ErrSessionActive)) {
			t.Errorf("Deletable with a %s run = %v, want deleted %v", status, err, want.Deleted)
		}
		must.Is(t, a.Deletable(created.Add(time.Second)), nil, "Deletable with a %s run whose lease has passed", status)
	}
	if ran < 7 {
		t.Errorf("ran %d statuses, want at least 7", ran)
	}
	a := artifacts.Activity{
		Runs: []artifacts.Run{
			{ID: "waiting", Status: artifacts.RunQueued}, {ID: "stale", Status: artifacts.RunRunning},
			{ID: "new kind", Status: "paused", Lease: created.Add(1)}, {ID: "over", Status: artifacts.RunFailed, Lease: created.Add(1)},
		},
		Outputs: []artifacts.Open{{ID: "open", Lease: created.Add(1)}, {ID: "aborted", Lease: created}},
	}
	var active *artifacts.ActiveError
	err := a.Deletable(created)
	if !errors.As(err, &active) || !slices.Equal(active.Runs, []string{"waiting", "new kind"}) ||
		!slices.Equal(active.Outputs, []string{"open"}) {
		t.Errorf("Deletable = %+v, want runs waiting, new kind and output open", err)
	}
	if artifacts.ErrSessionNotFound.Error() != "session not found" {
		t.Errorf("ErrSessionNotFound = %v", artifacts.ErrSessionNotFound)
	}
}

// taskLogs are logs as the recording's, by what happens in them.
var taskLogs = map[string][]string{
	"sess/active.wal.jsonl": {`task_created`, `task_running`},
	"sess/active_mentions_in_payload.wal.jsonl": {`task_created`,
		`task_step_updated","payload":{"result_summary":"task_completed task_failed task_cancelled"},"x":"`,
		`task_running`},
	"sess/cancelled.wal.jsonl":        {`task_created`, `task_cancelled`},
	"sess/completed.wal.jsonl":        {`task_created`, `task_running`, `task_step_failed`, `task_completed`},
	"sess/failed.wal.jsonl":           {`task_created`, `task_failed`},
	"sess/failed_step_only.wal.jsonl": {`task_created`, `task_step_failed`},
	"sess/nested/completed.wal.jsonl": {`task_completed`},
}

func replay(t *testing.T, events ...string) map[string]artifacts.TaskStatus {
	t.Helper()
	var lines [][]byte
	for _, e := range events {
		lines = append(lines, []byte(`{"event_type":"`+e+`","task_id":"t"}`))
	}
	return must.Get(artifacts.ReplayTasks(slices.Values(lines)))(t)
}

// TestTaskCleanupAsRecorded: the same candidates, but for the log of an active task that only mentions an end: the
// recorded program deletes it (SPEC A10).
func TestTaskCleanupAsRecorded(t *testing.T) {
	var cases map[string]json.RawMessage
	golden(t, "cleanup_project_tasks", &cases)
	var logs []artifacts.TaskLog
	for path, events := range taskLogs {
		logs = append(logs, artifacts.TaskLog{Path: path, Modified: created, Tasks: replay(t, events...)})
	}
	for name, c := range map[string]artifacts.TaskCleanup{
		"default": {}, "include_failed": {IncludeFailed: true}, "include_cancelled": {IncludeCancelled: true},
		"both": {IncludeFailed: true, IncludeCancelled: true}, "execute default": {OlderThan: created.Add(1)},
	} {
		var want struct{ Candidates []string }
		must.Do(t, json.Unmarshal(cases[name], &want))
		kept := slices.DeleteFunc(want.Candidates, func(s string) bool { return strings.Contains(s, "active_mentions") })
		if len(kept) == len(want.Candidates) {
			t.Errorf("%s: the recording does not delete the active log any more: %v", name, want.Candidates)
		}
		must.SameAll(t, c.Plan(logs), kept, "%s: Plan = %v, want %v", name)
	}
	if got := (artifacts.TaskCleanup{OlderThan: created}).Plan(logs); got != nil {
		t.Errorf("Plan of what is older than itself = %v, want none", got)
	}
}

func TestReplayTasks(t *testing.T) {
	update := func(payload string) string { return `task_updated","payload":` + payload + `,"x":"` }
	for _, c := range []struct {
		events []string
		want   artifacts.TaskStatus
	}{
		{[]string{"task_completed", "task_reopened"}, artifacts.TaskPending},
		{[]string{"task_completed", "task_running", "task_failed"}, artifacts.TaskFailed},
		{[]string{"task_running", "something_new"}, artifacts.TaskRunning},
		{[]string{"task_running", update(`{"operations":[{"op":"update_task","status":"blocked"}]}`)}, artifacts.TaskBlocked},
		{[]string{update(`{"operations":[{"op":"update_task","status":"blocked"},{"op":"update_task","status":"pending"}]}`)},
			artifacts.TaskPending},
		{[]string{"task_completed", update(`{"operations":[{"op":"update_task","status":"pending"},{"op":"add_step"}]}`)},
			artifacts.TaskCompleted},
		{[]string{"task_running", update(`{"operations":[{"op":"update_task","status":"completed"}]}`)}, artifacts.TaskRunning},
		{[]string{"task_running", update(`{"task_summary":{"status":"cancelled"}}`)}, artifacts.TaskCancelled},
		{[]string{"task_running", update(`{"task_summary":{"status":"odd"}}`)}, artifacts.TaskRunning},
		{[]string{"task_running", update(`null`)}, artifacts.TaskRunning},
	} {
		if got := replay(t, c.events...); got["t"] != c.want || len(got) != 1 {
			t.Errorf("ReplayTasks(%v) = %v, want %s", c.events, got, c.want)
		}
	}
	for _, bad := range []string{``, `{"event_type":"task_comp`, `[]`, `{"task_id":"t"}`, `{"event_type":1}`} {
		lines := [][]byte{[]byte(`{"event_type":"task_completed","task_id":"t"}`), []byte(bad)}
		if _, err := artifacts.ReplayTasks(slices.Values(lines)); !errors.Is(err, artifacts.ErrTaskLog) ||
			!strings.Contains(err.Error(), "event 2") {
			t.Errorf("ReplayTasks(%s) = %v, want ErrTaskLog at event 2", bad, err)
		}
	}
	several := []artifacts.TaskLog{
		{Path: "half", Tasks: map[string]artifacts.TaskStatus{"a": artifacts.TaskCompleted, "b": artifacts.TaskRunning}},
		{Path: "empty"}, {Path: "done", Tasks: map[string]artifacts.TaskStatus{"a": artifacts.TaskCompleted, "b": artifacts.TaskCompleted}},
	}
	if got := (artifacts.TaskCleanup{}).Plan(several); !slices.Equal(got, []string{"done"}) {
		t.Errorf("Plan = %v, want only done", got)
	}
}

// TestThresholdsAsRecorded: token estimates and cuts; a cut never leaves half a character (SPEC U2 ✗).
func TestThresholdsAsRecorded(t *testing.T) {
	var cases map[string]json.RawMessage
	golden(t, "thresholds", &cases)
	var tokens map[string]int
	if err := json.Unmarshal(cases["estimate_tokens"], &tokens); err != nil || len(tokens) < 6 {
		t.Fatalf("estimate_tokens: %d, %v", len(tokens), err)
	}
	for name, want := range tokens {
		text := name[1:strings.LastIndex(name, "'(len")]
		must.Same(t, artifacts.Tokens([]byte(text)), want, "Tokens(%q) = %d, want %d", text)
	}
	cut := regexp.MustCompile(`^limit=(\d+) input='(.*)'$`)
	ran := 0
	for name, raw := range cases {
		m := cut.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		ran++
		var want struct{ Text string }
		must.Do(t, json.Unmarshal(raw, &want))
		limit, _ := strconv.Atoi(m[1])
		text := strings.TrimSuffix(want.Text, "\uFFFD") // the recorded program leaves half a character there
		if got := artifacts.Head([]byte(m[2]), limit); string(got) != text {
			t.Errorf("Head(%q, %d) = %q, want %q", m[2], limit, got, text)
		}
	}
	if ran < 4 {
		t.Errorf("ran %d cuts, want at least 4", ran)
	}
	must.Same(t, len(artifacts.Head([]byte("\x80\x80\x80\x80\x80\x80"), 5)), 5, "Head of no UTF-8 has %d bytes, want %d")
}

// TestThresholds: strictly over either of the two (SPEC A4, U3).
func TestThresholds(t *testing.T) {
	x := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	line := []byte(strings.Repeat("線", 21_845)) // 65,535 bytes, 5,461 tokens
	for _, c := range []struct {
		of   artifacts.Thresholds
		text []byte
		want bool
	}{
		{artifacts.Thresholds{}, x(64_003), false}, {artifacts.Thresholds{}, x(64_004), true}, // 16,000 and 16,001 tokens
		{artifacts.Thresholds{}, append(slices.Clone(line), 'x'), false}, {artifacts.Thresholds{}, append(slices.Clone(line), "xx"...), true},
		{artifacts.Thresholds{Tokens: 1 << 30}, x(65_536), false}, {artifacts.Thresholds{Tokens: 1 << 30}, x(65_537), true},
		{artifacts.Thresholds{Bytes: 3}, x(3), false}, {artifacts.Thresholds{Bytes: 3}, x(4), true}, {artifacts.Thresholds{}, nil, false},
	} {
		must.Same(t, c.of.Exceeded(c.text), c.want, "%v.Exceeded(%d bytes) = %v, want %v", c.of, len(c.text))
	}
}

// TestFilenamesAsRecorded (SPEC A1): one path segment, whatever it is made of.
func TestFilenamesAsRecorded(t *testing.T) {
	var manager struct{ Filename map[string]string }
	golden(t, "artifact_manager", &manager)
	if len(manager.Filename) < 8 {
		t.Fatalf("%d file names", len(manager.Filename))
	}
	for name, said := range manager.Filename {
		err := artifacts.CheckFilename(name)
		if accepted := strings.HasPrefix(said, "accepted:"); (err == nil) != accepted {
			t.Errorf("CheckFilename(%q) = %v; recorded: %s", name, err, said)
		}
		if err != nil && !strings.Contains(err.Error(), "artifact filename must be a single path segment") {
			t.Errorf("CheckFilename(%q) = %v", name, err)
		}
	}
	must.Is(t, artifacts.CheckFilename(strings.Repeat("x", 256)), artifacts.ErrRecord, "CheckFilename of 256 bytes")
}

package persist_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/project"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// largeResult is what a tool gave.
func largeResult(bytes int) string { return strings.Repeat("all is well\n", bytes/12+1)[:bytes] }

// resultLines are entries with a tool's result, by dialect.
var resultLines = map[string]string{
	"claude": `{"type":"user","uuid":"u-%[1]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"tu_%[1]d","content":%[2]q}]}}`,
	"codex":  `{"timestamp":"2026-11-20T10:00:00.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"tu_%[1]d","output":%[2]q}}`,
	"omp":    `{"type":"message","id":"e%[1]d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"toolResult","toolCallId":"tu_%[1]d","toolName":"bash","content":[{"type":"text","text":%[2]q}]}}`,
	"item":   `{"content":[{"type":"text","text":"→ all is well"}],"metadata":{"type":"tool_result","tool":{"invocation_id":"tu_%[1]d","is_error":false,"output":%[2]q}}}`,
}

func resultLine(dialect string, i, bytes int) string {
	return fmt.Sprintf(resultLines[dialect], i, largeResult(bytes))
}

// lastResult waits for the last item of a thread, which must be the same as it is rebuilt from the nodes.
func (r *rig) lastResult(t events.Thread) result {
	r.t.Helper()
	n := r.head(t).N
	sent := r.raw(t, n)
	past, err := r.Past(r.t.Context(), t, n, n)
	if err != nil || len(past) != 1 || string(past[0].Raw) != sent {
		r.t.Errorf("%s: item %d is rebuilt as %d items, %v, want the one that was sent", t, n, len(past), err)
	}
	return r.result(t, int(n))
}

// raw waits for the n-th item of a thread and gives its JSON.
func (r *rig) raw(t events.Thread, n int64) string {
	r.t.Helper()
	ctx := brief(r.t)
	for it := range must.All(r.t,
		r.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		if it.N == n {
			return string(it.Raw)
		}
	}
	r.t.Fatalf("%s has no item %d", t, n)
	return ""
}

// TestLargeResultIsAnArtifact: in every dialect a result over the threshold becomes an artifact with the session's next
// number, but for omp's sessions, whose numbers are omp's; its item has its ends and refers to it and to the log, which
// has all of it, and is rebuilt the same; what is exactly at the threshold stays as it is (SPEC A4, U3).
func TestLargeResultIsAnArtifact(t *testing.T) {
	for dialect := range resultLines {
		t.Run(dialect, func(t *testing.T) {
			r := newRig(t)
			r.start(nil)
			r.say(thread(0), dialect, resultLine(dialect, 0, 64_003))
			if res := r.lastResult(thread(0)); res.Metadata.Artifact != nil {
				t.Fatalf("a result of 16,000 tokens refers to artifact %s", res.Metadata.Artifact.ID)
			}
			for i, bytes := range []int{64_004, 200_000, 450_000, 700_000} {
				r.say(thread(0), dialect, resultLine(dialect, 1+i, bytes))
				res := r.lastResult(thread(0))
				if res.Metadata.Artifact == nil {
					t.Fatalf("a result of %d bytes refers to no artifact", bytes)
				}
				rec := r.artifact(res.Metadata.Artifact.ID, []byte(largeResult(bytes)))
				r.excerpt(thread(0), largeResult(bytes))
				seq := fmt.Sprint(i)
				if dialect == "omp" {
					seq = ""
				}
				if string(rec.Seq) != seq || rec.ToolCall != fmt.Sprint("tu_", 1+i) || rec.MIME != "text/plain" ||
					!strings.Contains(rec.Summary, "all is well") {
					t.Errorf("record of %s: number %s, tool call %s, %s, %q, want number %q, tool call tu_%d and a summary", rec.ID,
						rec.Seq, rec.ToolCall, rec.MIME, rec.Summary, seq, 1+i)
				}
			}
			r.verify(thread(0))
		})
	}
}

// excerpt looks at the last item of a thread, of which an artifact has all: it has head and tail, and says where the
// rest is; the whole item has what the tool gave.
func (r *rig) excerpt(t events.Thread, whole string) {
	r.t.Helper()
	head := r.head(t)
	raw := []byte(r.raw(t, head.N))
	shown, _ := jsonscan.Text(jsonscan.Get(raw, "metadata", "tool", "output"))
	left := "; see " + project.LocalLog(t) + "]…"
	if len(raw) > 8_000 || !strings.HasPrefix(shown, whole[:4_000]+"…[truncated ") || !strings.Contains(shown, left) ||
		len(whole) <= 500_000 && !strings.Contains(shown, fmt.Sprintf("…[truncated %d bytes", len(whole)-6_000)) ||
		len(whole) <= 500_000 && !strings.HasSuffix(shown, left+whole[len(whole)-2_000:]) {
		r.t.Errorf("item of %d bytes of a result of %d shows %.300q … %.300q", len(raw), len(whole), shown, shown[max(0,
			len(shown)-2_300):])
	}
	if f := jsonscan.Get(raw, "metadata", "truncated_fields"); string(f) != `["tool.output"]` || jsonscan.Get(raw,
		"metadata", "node") == nil {
		r.t.Errorf("the item says that %s is cut, and names the state %s", f, jsonscan.Get(raw, "metadata", "node"))
	}
	full := must.Get(r.Thread(t).FullItem(r.t.Context(), head, head.N))(r.t)
	if got, _ := jsonscan.Text(jsonscan.Get(full, "metadata", "tool", "output")); got != whole {
		r.t.Errorf("the whole item has %d bytes of a result of %d", len(got), len(whole))
	}
}

// TestEqualResultsOfTwoSessions: equal entries are one state in two sessions, and two artifacts; in two threads of one session
// they are one artifact. A fork of the session has rows of its own, which its items name (SPEC A1, A7).
func TestEqualResultsOfTwoSessions(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	line := resultLine("claude", 0, 70_000)
	ids := map[string]int{}
	for _, th := range []events.Thread{thread(0), thread(1), {Session: "s1", Name: "a"}, {Session: "s1", Name: "b"}} {
		r.say(th, "claude", line)
		res := r.lastResult(th)
		r.artifact(res.Metadata.Artifact.ID, []byte(largeResult(70_000)))
		ids[res.Metadata.Artifact.ID]++
	}
	if len(ids) != 3 {
		t.Errorf("ids = %v, want three: that of s0, and in s1 that of main and of its two equal threads", ids)
	}
	for session, want := range map[string]int{"s0": 1, "s1": 2} {
		rows, err := r.Session(session).Artifacts(t.Context())
		if err != nil || len(rows) != want {
			t.Fatalf("Artifacts(%s) = %d, %v, want %d", session, len(rows), err, want)
		}
		for _, row := range rows {
			delete(ids, string(row.ID))
		}
	}
	if len(ids) != 0 {
		t.Errorf("items name artifacts that their sessions do not have: %v", ids)
	}

	must.Do(t, r.Session("s0").Fork(t.Context(), "fork", client.SessionFork{}))
	fork := events.Thread{Session: "fork", Name: "main"}
	past, err := r.Past(t.Context(), fork, 1, 1)
	if err != nil || len(past) != 1 {
		t.Fatalf("Past(%s) = %d items, %v, want 1", fork, len(past), err)
	}
	rows, err := r.Session("fork").Artifacts(t.Context())
	if err != nil || len(rows) == 0 {
		t.Fatalf("Artifacts(fork) = %d, %v, want some", len(rows), err)
	}
	named := 0
	for _, row := range rows {
		if strings.Contains(string(past[0].Raw), string(row.ID)) {
			named++
			if row.ForkedFrom == "" || row.Session != "fork" {
				t.Errorf("row of the fork = %+v, want it forked from s0's", row)
			}
		}
	}
	if named != 1 {
		t.Errorf("the item of the fork names %d of its artifacts, want 1: %s", named, past[0].Raw[len(past[0].Raw)-300:])
	}
}

// TestLargeResultsOverFaults: persisters die at every step, answers of commits are lost, and each large result has one
// artifact that its item names, with a number of its own.
func TestLargeResultsOverFaults(t *testing.T) {
	const entries = 6
	for _, step := range []persist.Step{persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			r := newRig(t)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			for i := range entries {
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "claude",
					Body: []byte(resultLine("claude", i, 70_000+i))}))(t)
			}
			p := r.start(func(d *persist.Deps, c *persist.Config) {
				c.BatchEvents = 2
				d.At = dieAt(step, 2)
			})
			p.killed(t)
			u := &unsure{bucket: r.conn.Records(), lose: func(n int64) bool { return n%2 == 1 }, done: func(n int64) bool { return n%4 == 1 }}
			r.start(func(d *persist.Deps, c *persist.Config) { d.Records, c.BatchEvents = u, 2 })
			r.await(thread(0), "p", entries)
			seqs := map[string]bool{}
			for i, res := range r.results(thread(0), entries) {
				if res.Metadata.Artifact == nil {
					t.Fatalf("item %d names no artifact", i+1)
				}
				rec := r.artifact(res.Metadata.Artifact.ID, []byte(largeResult(70_000+i)))
				seqs[string(rec.Seq)] = true
			}
			rows, err := r.Session("s0").Artifacts(t.Context())
			if err != nil || len(rows) != entries || len(seqs) != entries {
				t.Errorf("%d artifacts with %d numbers, %v, want %d", len(rows), len(seqs), err, entries)
			}
			r.verify(thread(0))
		})
	}
}

// TestLargeResultsOfTwoPersisters: both think that they own the partition, and the artifacts are those of one.
func TestLargeResultsOfTwoPersisters(t *testing.T) {
	r := newRig(t)
	const entries = 8
	a, b := r.deaf(), r.deaf()
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i := range entries {
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: []byte(resultLine("omp", i, 70_000+i))}))(t)
	}
	r.feed(a, b)
	r.await(thread(0), "p", entries)
	for i, res := range r.results(thread(0), entries) {
		if res.Metadata.Artifact == nil {
			t.Fatalf("item %d names no artifact", i+1)
		}
		rec := must.Get(r.Artifacts().Record(t.Context(), artifacts.ID(res.Metadata.Artifact.ID)))(t)
		body, _ := must.Two(r.Artifacts().Open(t.Context(), rec))(t)
		if text, err := io.ReadAll(body); err != nil || string(text) != largeResult(70_000+i) {
			t.Errorf("artifact %s: %d bytes, %v, want %d", rec.ID, len(text), err, 70_000+i)
		}
	}
	if rows, err := r.Session("s0").Artifacts(t.Context()); err != nil || len(rows) != entries {
		t.Errorf("%d artifacts, %v, want %d", len(rows), err, entries)
	}
}

// TestResultThresholds: what is an artifact is for the operator to say, each persister's own; each item is made again as it was
// sent, whatever is configured then, and entries that no limit touches are the same nodes under any (SPEC A4).
func TestResultThresholds(t *testing.T) {
	r := newRig(t)
	said := 0
	say := func(limit artifacts.Thresholds, bytes int, want bool) {
		t.Helper()
		p := r.start(func(_ *persist.Deps, c *persist.Config) { c.Artifacts = limit })
		r.say(thread(0), "claude", resultLine("claude", said, bytes))
		said++
		if got := r.lastResult(thread(0)).Metadata.Artifact; (got != nil) != want {
			t.Errorf("thresholds %v: a result of %d bytes refers to %v, want an artifact: %v", limit, bytes, got, want)
		} else if want {
			r.artifact(got.ID, []byte(largeResult(bytes)))
		}
		must.Do(t, p.stop())
	}
	say(artifacts.Thresholds{Bytes: 2000}, 2000, false)
	say(artifacts.Thresholds{Bytes: 2000}, 2001, true)
	say(artifacts.Thresholds{Tokens: 500}, 2003, false)
	say(artifacts.Thresholds{Tokens: 500}, 2004, true)
	say(artifacts.Thresholds{}, 2004, false)
	say(artifacts.Thresholds{Bytes: 499_998, Tokens: 1 << 30}, 70_000, false)
	say(artifacts.Thresholds{Bytes: 499_998, Tokens: 1 << 30}, 700_000, true)

	n := r.head(thread(0)).N
	past, err := r.Past(t.Context(), thread(0), 1, n)
	if err != nil || int64(len(past)) != n {
		t.Fatalf("Past = %d items, %v, want %d", len(past), err, n)
	}
	for i, it := range past {
		if sent := r.raw(thread(0), int64(i+1)); string(it.Raw) != sent {
			t.Errorf("item %d is rebuilt with other bytes than were sent", i+1)
		}
	}
	r.verify(thread(0))
}

// TestResultWithoutTime: the artifact of a result that says no time, or none that can be, is named by when the server
// stored it, and so is the one that a fork gets; items that are made again name the same.
func TestResultWithoutTime(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	line := fmt.Sprintf(resultLines["item"], 1, largeResult(70_000))
	dated := strings.Replace(line, `{"content"`, `{"created_at":"1980-01-01T00:00:00Z","content"`, 1)
	for i, body := range []string{line, dated} {
		at := thread(i)
		e := events.Event{
			Producer: "p", Seq: 1, Kind: events.KindEntry, Thread: at, Dialect: "item", Body: []byte(body),
		}
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{&e}))
		r.await(at, "p", 1)
		res := r.lastResult(at)
		if res.Metadata.Artifact == nil {
			t.Fatal("the result refers to no artifact")
		}
		rec := r.artifact(res.Metadata.Artifact.ID, []byte(largeResult(70_000)))
		today := time.Now().UTC().Format("20060102")
		if !strings.HasPrefix(string(rec.ID), "art_"+today) || time.Since(time.UnixMilli(rec.Created)) > time.Hour {
			t.Errorf("artifact %s of %d, want one of today, %s", rec.ID, rec.Created, today)
		}
		fork := events.Thread{Session: fmt.Sprint("f", i), Name: events.MainThread}
		from := events.Fork{Session: at.Session, Thread: at.Name, Whole: true}
		must.Do(t, r.Thread(fork).Fork(t.Context(), from))
		head := r.head(fork)
		item := must.Get(r.Thread(fork).FullItem(t.Context(), head, 1))(t)
		id, _ := jsonscan.Text(jsonscan.Get(item, "metadata", "artifact", "artifact_id"))
		if rows := must.Get(r.Session(fork.Session).Artifacts(t.Context()))(t); len(rows) != 1 || string(rows[0].ID) != id {
			t.Errorf("the fork has the artifacts %v, its item names %s", rows, id)
		}
		must.Do(t, threads.Verify(t.Context(), r.Reader(), head))
	}
}

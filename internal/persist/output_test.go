package persist_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/truncate/output"
)

var giant = os.Getenv("SPOOL_TEST_GIANT") != ""

// lines is a text of n numbered lines that needs sanitizing, and the same sanitized.
func lines(n int) (raw, clean []byte) {
	var r, c bytes.Buffer
	for i := range n {
		fmt.Fprintf(&r, "\x1b[32mline %06d\x1b[0m of 漢字 and more\r\n", i)
		fmt.Fprintf(&c, "line %06d of 漢字 and more\n", i)
	}
	return r.Bytes(), c.Bytes()
}

// result is the tool_result of an output.
type result struct {
	Content []struct{ Text string }

	Metadata struct {
		Type string
		Tool struct {
			InvocationID string `json:"invocation_id"`
			IsError      bool   `json:"is_error"`
			Output       string
		}
		Output struct {
			ID            string
			Truncated     bool
			TotalLines    int64  `json:"total_lines"`
			TotalBytes    int64  `json:"total_bytes"`
			ExitCode      int    `json:"exit_code"`
			Aborted       string `json:"aborted"`
			ArtifactError string `json:"artifact_error"`
		}
		Artifact *struct {
			ID string `json:"artifact_id"`
		}
	}
}

// result waits for the n-th item of a thread.
func (r *rig) result(t events.Thread, n int) result {
	r.t.Helper()
	all := r.results(t, n)
	return all[n-1]
}

// results waits for the first n items of a thread.
func (r *rig) results(t events.Thread, n int) (all []result) {
	r.t.Helper()
	ctx := brief(r.t)
	for it := range must.All(r.t,
		r.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		var res result
		must.Do(r.t, json.Unmarshal(it.Raw, &res))
		if all = append(all, res); len(all) == n {
			return all
		}
	}
	r.t.Fatalf("%s: %d items, want %d", t, len(all), n)
	return nil
}

// reason waits for the n-th dead letter and gives its reason.
func (r *rig) reason(n int) string {
	r.t.Helper()
	ctx := brief(r.t)
	s := must.Get(r.conn.JetStream().Stream(ctx, events.DeadStream))(r.t)
	for {
		m, err := s.GetMsg(ctx, uint64(n))
		if err == nil {
			return m.Header.Get(natsio.HeaderReason)
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			r.t.Fatalf("dead letter %d: %v", n, err)
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("no dead letter %d", n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// begin opens an output.
func (r *rig) begin(t events.Thread, cfg client.OutputConfig) *client.Output {
	r.t.Helper()
	o := must.Get(r.Thread(t).Output(r.t.Context(), cfg))(r.t)
	return o
}

func (r *rig) finish(o *client.Output, end client.OutputEnd) {
	r.t.Helper()
	ctx := brief(r.t)
	must.Do(r.t, o.Close(end))
	must.Do(r.t, o.Wait(ctx))
}

// artifact reads an artifact twice: as Spool does, and as any client of the object store does. Both must be whole.
func (r *rig) artifact(id string, want []byte) artifacts.Record {
	r.t.Helper()
	rec := must.Get(r.Artifacts().Record(r.t.Context(), artifacts.ID(id)))(r.t)
	body, size := must.Two(r.Artifacts().Open(r.t.Context(), rec))(r.t)
	got, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(got, want) || size != int64(len(want)) || rec.Size != size {
		r.t.Errorf("artifact %s: %d bytes of %d, %v, want %d", id, len(got), size, err, len(want))
	}
	store := must.Get(r.conn.JetStream().ObjectStore(r.t.Context(), events.ArtifactsBucket))(r.t)
	got, err = store.GetBytes(r.t.Context(), rec.Object)
	if err != nil || !bytes.Equal(got, want) {
		r.t.Errorf("object %s: %d bytes, %v, want %d", rec.Object, len(got), err, len(want))
	}
	return rec
}

// TestOutput: a short output is a result, and nothing more (SPEC O1, O5).
func TestOutput(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	o := r.begin(thread(0), client.OutputConfig{ID: "o1", Tool: "Bash", Invocation: "tu_1",
		Input: []byte(`{"command":"npm test"}`), User: "u1"})
	_, _ = o.Write([]byte("\x1b[1mone\x1b[0m\r\n\xe6\xbc"))
	_, _ = o.Stderr().Write([]byte("two\n"))
	_, _ = o.Write([]byte("\xa2\n"))
	r.finish(o, client.OutputEnd{ExitCode: 3, IsError: true, DurationMS: 17})
	res := r.result(thread(0), 2)
	m := res.Metadata
	if m.Type != "tool_result" || m.Tool.InvocationID != "tu_1" || !m.Tool.IsError || m.Tool.Output != "one\ntwo\n漢\n" {
		t.Errorf("result = %+v", m)
	}
	if m.Output.ID != "o1" || m.Output.Truncated || m.Output.TotalLines != 4 || m.Output.TotalBytes != 12 ||
		m.Output.ExitCode != 3 || m.Artifact != nil {
		t.Errorf("result = %+v", m)
	}
	r.verify(thread(0))
	if open, err := r.Session("s0").Outputs(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("Outputs = %v, %v, want none", open, err)
	}
	must.Do(t, p.stop())
	if s := p.Stats(); s.Dead != 0 || s.Outputs != 1 || s.OutputBytes != 21 {
		t.Errorf("Stats = %+v", s)
	}
}

// TestCommandEnds: a command in a session in which nobody asked for anything ends it, well or not; where somebody asked, the
// agent is to answer.
func TestCommandEnds(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	call := client.OutputConfig{Tool: "make", Input: []byte(`{"command":"make"}`)}
	status := func(th events.Thread) sessions.Status { return sessions.Status(r.head(th).Standing) }
	for _, end := range []client.OutputEnd{{}, {ExitCode: 3, IsError: true}, {}} {
		want := sessions.StatusComplete
		if end.IsError {
			want = sessions.StatusError
		}
		r.finish(r.begin(thread(0), call), end)
		must.Same(t, status(thread(0)), want, "after the command the session is %v, want %v")
	}
	must.Get(r.Publisher(client.PublisherConfig{}).Publish(t.Context(), client.Entry{Thread: thread(1), Dialect: "item",
		Body: []byte(`{"content":[{"type":"text","text":"Build it"}]}`)}))(t)
	r.finish(r.begin(thread(1), call), client.OutputEnd{})
	must.Same(t, status(thread(1)), sessions.StatusInterrupted, "before the answer the session is %v, want %v")
	o := r.begin(thread(2), call)
	must.Do(t, o.Abort("its agent died"))
	must.Do(t, o.Wait(t.Context()))
	must.Same(t, status(thread(2)), sessions.StatusInterrupted, "after an abort the session is %v, want %v")
	must.Do(t, p.stop())
}

// TestOutputSpills: a long output becomes an artifact with every byte of it, numbered in its session, and its result shows
// what a Sink shows (SPEC O2, O3, O5, A1).
func TestOutputSpills(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	raw, clean := lines(20_000)
	for n, cfg := range []client.OutputConfig{{Tool: "npm test"}, {Head: 5000, Columns: 20}} {
		o := r.begin(thread(0), cfg)
		for rest := raw; len(rest) > 0; {
			k := min(len(rest), 7001)
			must.Get(o.Write(rest[:k]))(t)
			rest = rest[k:]
		}
		r.finish(o, client.OutputEnd{})
		res := r.result(thread(0), n+1)
		m := res.Metadata
		if brief := res.Content[0].Text; !strings.HasSuffix(brief, "(20000 lines)") {
			t.Errorf("brief of result %d = %q, want it to count all 20000 lines", n, brief)
		}
		sink := output.NewSink(output.Config{Head: cfg.Head})
		sink.Write(raw)
		if sum, _ := sink.Close(); m.Output.TotalBytes != sum.TotalBytes || m.Output.TotalLines != sum.TotalLines || n == 0 &&
			m.Tool.Output != sum.Output {
			t.Errorf("result %d = %+v, want %d bytes in %d lines", n, m.Output, sum.TotalBytes, sum.TotalLines)
		}
		if !m.Output.Truncated || m.Artifact == nil {
			t.Fatalf("result %d = %+v, want it truncated, with an artifact", n, m)
		}
		rec := r.artifact(m.Artifact.ID, clean)
		if want := []string{"0.npm_test.log", "1.tool.log"}[n]; rec.Filename != want || string(rec.Seq) != fmt.Sprint(n) ||
			rec.Session != "s0" || rec.Node == "" {
			t.Errorf("record = %+v, want the file %s", rec, want)
		}
	}
	r.verify(thread(0))
}

// TestOutputKept: a tool may ask for an artifact of what is shown whole; of nothing there is none (SPEC A4).
func TestOutputKept(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	for n, text := range []string{"one\ntwo\n", ""} {
		o := r.begin(thread(0), client.OutputConfig{Tool: "t", Keep: true})
		_, _ = o.Write([]byte(text))
		r.finish(o, client.OutputEnd{})
		m := r.result(thread(0), n+1).Metadata
		if m.Tool.Output != text || m.Output.Truncated || (m.Artifact != nil) != (text != "") || m.Output.ArtifactError != "" {
			t.Errorf("result = %+v with the artifact %v, want it whole, and an artifact of %q", m.Output, m.Artifact, text)
		} else if m.Artifact != nil {
			r.artifact(m.Artifact.ID, []byte(text))
		}
	}
	r.verify(thread(0))
}

// TestOutputThresholds: what makes a result an artifact makes an output one, however it comes, exactly from the
// threshold on; all of it is shown as long as it may be (SPEC A4, O2).
func TestOutputThresholds(t *testing.T) {
	r := newRig(t)
	n := 0
	for _, limit := range []artifacts.Thresholds{{Bytes: 2000}, {Tokens: 500}} {
		p := r.start(func(_ *persist.Deps, c *persist.Config) { c.Artifacts = limit })
		least := limit.Least()
		for _, c := range []struct{ bytes, piece int }{{least - 1, 100}, {least, 100}, {least, least}, {18_893, 5_000}} {
			o := r.begin(thread(0), client.OutputConfig{Tool: "t"})
			text := strings.Repeat("0123456789\n", c.bytes)[:c.bytes]
			for rest := []byte(text); len(rest) > 0; rest = rest[min(c.piece, len(rest)):] {
				must.Get(o.Write(rest[:min(c.piece, len(rest))]))(t)
			}
			r.finish(o, client.OutputEnd{})
			n++
			m := r.result(thread(0), n).Metadata
			if m.Tool.Output != text || m.Output.Truncated || (m.Artifact != nil) != (c.bytes >= least) {
				t.Errorf("thresholds %v: %d bytes by %d: artifact %v, %d bytes are shown", limit, c.bytes, c.piece, m.Artifact,
					len(m.Tool.Output))
			} else if m.Artifact != nil {
				r.artifact(m.Artifact.ID, []byte(text))
			}
		}
		must.Do(t, p.stop())
	}
	r.verify(thread(0))
}

// TestOutputWhateverDies kills the persister again and again, at each durable step, while long outputs stream: each is in
// its artifact to the byte (SPEC O7).
func TestOutputWhateverDies(t *testing.T) {
	for _, step := range []persist.Step{persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			raw, clean := lines(12_000)
			const outputs = 3
			open := make([]*client.Output, outputs)
			for i := range open {
				open[i] = r.begin(thread(i%2), client.OutputConfig{ID: fmt.Sprintf("o%d", i), Window: 4096})
			}
			for kill := range 4 {
				r.writePart(open, raw, kill, 5)
				p := r.start(func(d *persist.Deps, c *persist.Config) {
					c.BatchEvents = 5 + 3*kill
					c.OutputBytes = 1 + kill%2*100_000 // states are read from their records
					d.At = dieAt(step, kill+2)
				})
				p.killed(t)
			}
			p := r.start(nil)
			r.writePart(open, raw, 4, 5)
			for _, o := range open {
				r.finish(o, client.OutputEnd{})
			}
			got := map[string]bool{}
			for _, at := range []struct {
				thread, n int
			}{{0, 1}, {0, 2}, {1, 1}} {
				m := r.result(thread(at.thread), at.n).Metadata
				if m.Artifact == nil || got[m.Output.ID] || m.Output.TotalBytes != int64(len(clean)) {
					t.Fatalf("result = %+v, want an artifact of %d bytes", m, len(clean))
				}
				got[m.Output.ID] = true
				r.artifact(m.Artifact.ID, clean)
			}
			r.verify(thread(0))
			if s := p.Stats(); s.Dead != 0 {
				t.Errorf("Stats = %+v, want no dead letters", s)
			}
		})
	}
}

// writePart writes a part of a text to each output; when it returns all is durable but for the window.
func (r *rig) writePart(open []*client.Output, text []byte, part, parts int) {
	r.t.Helper()
	for i, o := range open {
		for rest := text[len(text)*part/parts : len(text)*(part+1)/parts]; len(rest) > 0; {
			k := min(len(rest), 3000+i)
			must.Get(o.Write(rest[:k]))(r.t)
			rest = rest[k:]
		}
	}
}

// TestOutputTwoPersisters: both think that they own the output; neither spoils what the other uploads.
func TestOutputTwoPersisters(t *testing.T) {
	r := newRig(t)
	raw, clean := lines(15_000)
	for i := range 3 {
		o := r.begin(thread(i), client.OutputConfig{ID: "o"})
		must.Get(o.Write(raw))(t)
		must.Do(t, o.Close(client.OutputEnd{}))
	}
	a, b := r.deaf(), r.deaf()
	r.feed(a, b)
	for i := range 3 {
		m := r.result(thread(i), 1).Metadata
		if m.Artifact == nil {
			t.Fatalf("result = %+v, want an artifact", m)
		}
		r.artifact(m.Artifact.ID, clean)
	}
	if a.Stats().Refused+b.Stats().Refused+a.Stats().Repeated+b.Stats().Repeated == 0 {
		t.Error("the persisters never met")
	}
}

// TestOutputCommitsWithLostAnswers: an answer that never comes means done or not done.
func TestOutputCommitsWithLostAnswers(t *testing.T) {
	r := newRig(t)
	u := &unsure{bucket: r.conn.Records(), lose: func(n int64) bool { return n%2 == 0 }, done: func(n int64) bool { return n%4 == 0 }}
	p := r.start(func(d *persist.Deps, c *persist.Config) { d.Records, c.BatchEvents = u, 5 })
	raw, clean := lines(12_000)
	o := r.begin(thread(0), client.OutputConfig{Window: 20_000})
	must.Get(o.Write(raw))(t)
	r.finish(o, client.OutputEnd{})
	m := r.result(thread(0), 1).Metadata
	if m.Artifact == nil {
		t.Fatalf("result = %+v", m)
	}
	r.artifact(m.Artifact.ID, clean)
	if s := p.Stats(); s.Dead != 0 {
		t.Errorf("Stats = %+v, want no dead letters", s)
	}
}

// full is a bucket that takes so many parts.
type full struct {
	persist.Parts
	left atomic.Int64
	err  error
}

func (f *full) PutPart(ctx context.Context, token string, after uint64, part []byte) (uint64, error) {
	if f.left.Add(-1) < 0 {
		return 0, f.err
	}
	return f.Parts.PutPart(ctx, token, after, part)
}

// TestOutputWithoutRoom: an output whose artifact can not be stored is bounded, and says why (SPEC O5).
func TestOutputWithoutRoom(t *testing.T) {
	r := newRig(t)
	f := &full{Parts: r.conn.Outputs(), err: fmt.Errorf("put: %w: disk", record.ErrFull)}
	f.left.Store(1)
	r.start(func(d *persist.Deps, c *persist.Config) { d.Parts, c.BatchBytes = f, 100_000 })
	raw, _ := lines(12_000)
	o := r.begin(thread(0), client.OutputConfig{})
	_, _ = o.Write(raw)
	r.finish(o, client.OutputEnd{})
	m := r.result(thread(0), 1).Metadata
	if m.Artifact != nil || !strings.Contains(m.Output.ArtifactError, "disk") || !m.Output.Truncated ||
		!strings.HasSuffix(m.Tool.Output, "line 011999 of 漢字 and more\n") {
		t.Errorf("result = %+v, want it bounded, with the reason", m.Output)
	}
	if rs, err := r.Session("s0").Artifacts(t.Context()); err != nil || len(rs) != 0 {
		t.Errorf("Artifacts = %v, %v, want none", rs, err)
	}
}

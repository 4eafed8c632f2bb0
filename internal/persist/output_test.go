package persist_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
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
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	for it, err := range r.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true}) {
		if err != nil {
			r.t.Fatal(err)
		}
		var res result
		if err := json.Unmarshal(it.Raw, &res); err != nil {
			r.t.Fatal(err)
		}
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
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	s, err := r.conn.JetStream().Stream(ctx, events.DeadStream)
	if err != nil {
		r.t.Fatal(err)
	}
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
	o, err := r.Output(r.t.Context(), t, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// finish ends an output and waits for its result.
func (r *rig) finish(o *client.Output, end client.OutputEnd) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 40*time.Second)
	defer cancel()
	if err := o.Close(end); err != nil {
		r.t.Fatal(err)
	}
	if err := o.Wait(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// artifact reads an artifact twice: as Spool does, and as any client of the object store does. Both must be whole.
func (r *rig) artifact(id string, want []byte) artifacts.Record {
	r.t.Helper()
	rec, err := r.Artifact(r.t.Context(), artifacts.ID(id))
	if err != nil {
		r.t.Fatal(err)
	}
	body, size, err := r.OpenArtifact(r.t.Context(), rec)
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(got, want) || size != int64(len(want)) || rec.Size != size {
		r.t.Errorf("artifact %s: %d bytes of %d, %v, want %d", id, len(got), size, err, len(want))
	}
	store, err := r.conn.JetStream().ObjectStore(r.t.Context(), events.ArtifactsBucket)
	if err != nil {
		r.t.Fatal(err)
	}
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
	o := r.begin(thread(0), client.OutputConfig{ID: "o1", Tool: "Bash", Invocation: "tu_1", Input: []byte(`{"command":"npm test"}`), User: "u1"})
	_, _ = o.Write([]byte("\x1b[1mone\x1b[0m\r\n\xe6\xbc"))
	_, _ = o.Stderr().Write([]byte("two\n"))
	_, _ = o.Write([]byte("\xa2\n"))
	r.finish(o, client.OutputEnd{ExitCode: 3, IsError: true, DurationMS: 17})
	res := r.result(thread(0), 2)
	m := res.Metadata
	if m.Type != "tool_result" || m.Tool.InvocationID != "tu_1" || !m.Tool.IsError || m.Tool.Output != "one\ntwo\n漢\n" {
		t.Errorf("result = %+v", m)
	}
	if m.Output.ID != "o1" || m.Output.Truncated || m.Output.TotalLines != 4 || m.Output.TotalBytes != 12 || m.Output.ExitCode != 3 || m.Artifact != nil {
		t.Errorf("result = %+v", m)
	}
	r.verify(thread(0))
	if open, err := r.Outputs(t.Context(), "s0"); err != nil || len(open) != 0 {
		t.Errorf("Outputs = %v, %v, want none", open, err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Dead != 0 || s.Outputs != 1 || s.OutputBytes != 21 {
		t.Errorf("Stats = %+v", s)
	}
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
			if _, err := o.Write(rest[:k]); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		r.finish(o, client.OutputEnd{})
		m := r.result(thread(0), n+1).Metadata
		sink := output.NewSink(output.Config{Head: cfg.Head})
		sink.Write(time.Time{}, raw)
		if sum, _ := sink.Close(); m.Output.TotalBytes != sum.TotalBytes || m.Output.TotalLines != sum.TotalLines || n == 0 && m.Tool.Output != sum.Output {
			t.Errorf("result %d = %+v, want %d bytes in %d lines", n, m.Output, sum.TotalBytes, sum.TotalLines)
		}
		if !m.Output.Truncated || m.Artifact == nil {
			t.Fatalf("result %d = %+v, want it truncated, with an artifact", n, m)
		}
		rec := r.artifact(m.Artifact.ID, clean)
		if want := []string{"0.npm_test.log", "1.tool.log"}[n]; rec.Filename != want || string(rec.Seq) != fmt.Sprint(n) || rec.Session != "s0" || rec.Node == "" {
			t.Errorf("record = %+v, want the file %s", rec, want)
		}
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
			write := func(part, parts int) { // and it is durable, but for the window
				for i, o := range open {
					for rest := raw[len(raw)*part/parts : len(raw)*(part+1)/parts]; len(rest) > 0; {
						k := min(len(rest), 3000+i)
						if _, err := o.Write(rest[:k]); err != nil {
							t.Fatal(err)
						}
						rest = rest[k:]
					}
				}
			}
			for kill := range 4 {
				write(kill, 5)
				var hits atomic.Int64
				p := r.start(func(d *persist.Deps, c *persist.Config) {
					c.BatchEvents = 5 + 3*kill
					c.OutputBytes = 1 + kill%2*100_000 // states are read from their records
					d.At = func(s persist.Step) error {
						if s == step && hits.Add(1) > int64(kill+1) {
							return errKilled
						}
						return nil
					}
				})
				select {
				case err := <-p.died:
					if !errors.Is(err, errKilled) {
						t.Fatalf("Run() = %v, want it killed at %s", err, step)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("not killed at %s", step)
				}
				p.died <- nil
				_ = p.stop()
			}
			p := r.start(nil)
			write(4, 5)
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

// TestOutputTwoPersisters: both think that they own the output; neither spoils what the other uploads.
func TestOutputTwoPersisters(t *testing.T) {
	r := newRig(t)
	raw, clean := lines(15_000)
	for i := range 3 {
		o := r.begin(thread(i), client.OutputConfig{ID: "o"})
		if _, err := o.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(client.OutputEnd{}); err != nil {
			t.Fatal(err)
		}
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
	u := &unsure{bucket: r.conn, lose: func(n int64) bool { return n%2 == 0 }, done: func(n int64) bool { return n%4 == 0 }}
	p := r.start(func(d *persist.Deps, c *persist.Config) { d.Records, c.BatchEvents = u, 5 })
	raw, clean := lines(12_000)
	o := r.begin(thread(0), client.OutputConfig{Window: 20_000})
	if _, err := o.Write(raw); err != nil {
		t.Fatal(err)
	}
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
	f := &full{Parts: r.conn, err: fmt.Errorf("put: %w: disk", record.ErrFull)}
	f.left.Store(1)
	r.start(func(d *persist.Deps, c *persist.Config) { d.Parts, c.BatchBytes = f, 100_000 })
	raw, _ := lines(12_000)
	o := r.begin(thread(0), client.OutputConfig{})
	_, _ = o.Write(raw)
	r.finish(o, client.OutputEnd{})
	m := r.result(thread(0), 1).Metadata
	if m.Artifact != nil || !strings.Contains(m.Output.ArtifactError, "disk") || !m.Output.Truncated || !strings.HasSuffix(m.Tool.Output, "line 011999 of 漢字 and more\n") {
		t.Errorf("result = %+v, want it bounded, with the reason", m.Output)
	}
	if rs, err := r.Artifacts(t.Context(), "s0"); err != nil || len(rs) != 0 {
		t.Errorf("Artifacts = %v, %v, want none", rs, err)
	}
}

// TestOutputAborted: an output without its end is closed after its lease with what arrived; what comes later goes to the
// dead letters with the reason, and the thread goes on (SPEC O8).
func TestOutputAborted(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = 400 * time.Millisecond })
	r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = 400 * time.Millisecond }) // looks too
	raw, clean := lines(3_000)
	long := r.begin(thread(0), client.OutputConfig{ID: "long"})
	_, _ = long.Write(raw)
	patient := r.begin(thread(0), client.OutputConfig{ID: "patient", Lease: time.Hour})
	m := r.result(thread(0), 1).Metadata
	if m.Output.ID != "long" || m.Output.Aborted == "" || !m.Tool.IsError || m.Artifact == nil || m.Output.TotalBytes != int64(len(clean)) {
		t.Fatalf("result = %+v, want it aborted, with what arrived", m)
	}
	r.artifact(m.Artifact.ID, clean)

	_, _ = long.Write([]byte("late"))
	r.finish(long, client.OutputEnd{})
	if reason := r.reason(1); !strings.Contains(reason, "aborted after its lease") {
		t.Errorf("reason = %q", reason)
	}
	_, _ = patient.Write([]byte("still here\n"))
	r.finish(patient, client.OutputEnd{})
	if m := r.result(thread(0), 2).Metadata; m.Output.ID != "patient" || m.Output.Aborted != "" || m.Tool.Output != "still here\n" {
		t.Errorf("result = %+v", m)
	}
}

// TestOutputOfAnEndedThread: its lease closes it without a result, and the artifact is there.
func TestOutputOfAnEndedThread(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = 300 * time.Millisecond })
	raw, clean := lines(3_000)
	o := r.begin(thread(0), client.OutputConfig{ID: "o"})
	_, _ = o.Write(raw)
	for open, err := r.Outputs(t.Context(), "s0"); err != nil || len(open) == 0 || open[0].Bytes == 0; open, err = r.Outputs(t.Context(), "s0") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.End(t.Context(), thread(0), events.End{}); err != nil {
		t.Fatal(err)
	}
	frames, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for f, err := range r.Follow(frames, thread(0), "o") {
		if err != nil || f.Missed != 0 {
			t.Fatalf("Follow = %+v, %v", f, err)
		}
	}
	rs, err := r.Artifacts(t.Context(), "s0")
	if err != nil || len(rs) != 1 {
		t.Fatalf("Artifacts = %v, %v, want one", rs, err)
	}
	r.artifact(string(rs[0].ID), clean)
}

// TestFollowOutput: subscribers that come before, in the middle and after get every byte, whatever frames are lost, and then
// the item (SPEC O6).
func TestFollowOutput(t *testing.T) {
	r := newRig(t)
	r.start(func(d *persist.Deps, c *persist.Config) { d.Live, c.BatchEvents = &lossy{Live: r.conn}, 4 })
	raw, clean := lines(12_000)
	follow := func(text *bytes.Buffer) (end *events.LiveEnd) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for f, err := range r.Follow(ctx, thread(0), "o") {
			if err != nil || f.Missed != 0 || f.Offset != int64(text.Len()) {
				t.Errorf("frame at %d after %d bytes, %d missed, %v", f.Offset, text.Len(), f.Missed, err)
				return nil
			}
			text.Write(f.Text)
			end = f.End
		}
		return end
	}
	var early, midway, late bytes.Buffer
	ends := make(chan *events.LiveEnd, 2)
	go func() { ends <- follow(&early) }()
	o := r.begin(thread(0), client.OutputConfig{ID: "o", Window: 30_000})
	_, _ = o.Write(raw[:len(raw)/2])
	go func() { ends <- follow(&midway) }()
	_, _ = o.Write(raw[len(raw)/2:])
	r.finish(o, client.OutputEnd{})
	for _, end := range []*events.LiveEnd{<-ends, <-ends, follow(&late)} {
		if end == nil || end.Item != 1 || end.Artifact == "" {
			t.Errorf("end = %+v, want the item 1 with its artifact", end)
		}
	}
	for name, got := range map[string]*bytes.Buffer{"early": &early, "midway": &midway, "late": &late} {
		if !bytes.Equal(got.Bytes(), clean) {
			t.Errorf("%s follower got %d bytes, want %d", name, got.Len(), len(clean))
		}
	}
}

// lossy loses every third frame.
type lossy struct {
	persist.Live
	n atomic.Int64
}

func (l *lossy) PublishLive(t events.Thread, output string, f events.Live) error {
	if l.n.Add(1)%3 == 0 {
		return nil
	}
	return l.Live.PublishLive(t, output, f)
}

// TestManyOutputs: many are open at once, 10,000 with SPOOL_TEST_GIANT=1, and their states do not stay in memory.
func TestManyOutputs(t *testing.T) {
	r := newRig(t)
	p := r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputBytes = 64 << 10 })
	n := 400
	if giant {
		n = 10_000
	}
	open := make([]*client.Output, n)
	for i := range open {
		open[i] = r.begin(thread(i%7), client.OutputConfig{ID: fmt.Sprintf("o%d", i)})
		fmt.Fprintf(open[i], "I am %d\n", i)
	}
	for _, o := range open {
		fmt.Fprintf(o, "still %s\n", o.ID())
	}
	for i, o := range open {
		if err := o.Close(client.OutputEnd{ExitCode: i % 3}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for i := range 7 {
		for _, res := range r.results(thread(i), (n-i+6)/7) {
			m := res.Metadata
			if want := fmt.Sprintf("I am %s\nstill %s\n", m.Output.ID[1:], m.Output.ID); m.Tool.Output != want || seen[m.Output.ID] {
				t.Fatalf("result = %+v, want %q", m, want)
			}
			seen[m.Output.ID] = true
		}
	}
	if s := p.Stats(); s.Dead != 0 || len(seen) != n {
		t.Errorf("%d results, Stats = %+v", len(seen), s)
	}
}

// witness sees to it that no part is stored before a record names its artifact: a collector takes what none names.
type witness struct {
	persist.Parts
	r *rig
	n atomic.Int64
}

func (w *witness) PutPart(ctx context.Context, token string, after uint64, part []byte) (uint64, error) {
	open, err := w.r.conn.List(ctx, events.OutputKeys(""))
	named := err == nil && slices.ContainsFunc(open, func(r record.Record) bool {
		o, err := record.DecodeOutput(r.Value)
		return err == nil && o.NUID == token
	})
	if !named {
		w.r.t.Errorf("a part of %s is stored, and none of %d records names it: %v", token, len(open), err)
	}
	w.n.Add(1)
	return w.Parts.PutPart(ctx, token, after, part)
}

// TestOutputIsNamedBeforeItsParts, also when all of it comes in one batch.
func TestOutputIsNamedBeforeItsParts(t *testing.T) {
	r := newRig(t)
	raw, clean := lines(2_000)
	big := r.begin(thread(0), client.OutputConfig{})
	_, _ = big.Write(raw)
	small := r.begin(thread(0), client.OutputConfig{Columns: 10})
	_, _ = small.Write(raw[:1000])
	for _, o := range []*client.Output{small, big} {
		if err := o.Close(client.OutputEnd{}); err != nil {
			t.Fatal(err)
		}
	}
	w := &witness{Parts: r.conn, r: r}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Parts = w })
	all := r.results(thread(0), 2)
	if w.n.Load() < 2 || all[0].Metadata.Artifact == nil || all[1].Metadata.Artifact == nil {
		t.Fatalf("%d parts, results %+v, want an artifact each", w.n.Load(), all)
	}
	r.artifact(all[1].Metadata.Artifact.ID, clean)
}

// TestOutputPieces: a piece is taken once, whoever publishes it, and in its turn; an abort counts only when it has seen
// everything; what can not be taken goes to the dead letters with the reason (SPEC O8, B1).
func TestOutputPieces(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	seq := uint64(0)
	send := func(t events.Thread, c events.Chunk) {
		seq++
		e := events.Event{Producer: fmt.Sprintf("p%d", seq%3), Seq: seq, Kind: events.KindChunk, Thread: t, Time: 1_000 + int64(seq), Body: c.Encode()}
		if err := r.conn.PublishEvents(r.t.Context(), []*events.Event{&e}); err != nil {
			r.t.Fatal(err)
		}
	}
	piece := func(n uint64, text string) events.Chunk {
		return events.Chunk{Op: events.ChunkData, Output: "o", Seq: n, Stream: events.Stdout, Data: []byte(text)}
	}
	start := events.Chunk{Op: events.ChunkStart, Output: "o"}
	abort := func(n uint64) events.Chunk {
		return events.Chunk{Op: events.ChunkAbort, Output: "o", Seq: n, Reason: "lease"}
	}
	wrong := []string{"is not open", "begun before", "piece 3 after 1", "belongs to the thread main", "has ended", "begun before"}
	send(thread(0), piece(1, "early")) // is not open
	send(thread(0), start)
	send(thread(0), start)            // begun before
	send(thread(0), piece(1, "one ")) // taken
	send(thread(0), piece(1, "uno ")) // a repetition
	send(thread(0), piece(3, "x"))    // a gap
	send(events.Thread{Session: "s0", Name: "other"}, piece(2, "x"))
	send(thread(0), abort(1)) // has not seen the first piece
	send(thread(0), piece(2, "two"))
	send(thread(0), abort(2)) // has not seen the second
	send(thread(0), events.Chunk{Op: events.ChunkEnd, Output: "o", Seq: 3})
	send(thread(0), abort(4))
	send(thread(0), piece(4, "late"))
	send(thread(0), start)
	if m := r.result(thread(0), 1).Metadata; m.Tool.Output != "one two" || m.Output.Aborted != "" {
		t.Errorf("result = %+v", m)
	}
	for i, want := range wrong {
		if reason := r.reason(i + 1); !strings.Contains(reason, want) {
			t.Errorf("letter %d: %q, want %q", i+1, reason, want)
		}
	}
}

package persist_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

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

// oneRound waits until that many outputs are silent, and lets their ends be published once.
type oneRound struct {
	persist.Leases
	outputs int
	lease   time.Duration
	done    atomic.Bool
}

func (o *oneRound) SilentOutputs(ctx context.Context, least time.Duration) ([]record.Silent, error) {
	all, err := o.Leases.SilentOutputs(ctx, least)
	all = slices.DeleteFunc(all, func(s record.Silent) bool { return s.For < o.lease })
	if o.done.Load() || len(all) < o.outputs {
		return nil, err
	}
	return all, err
}

func (o *oneRound) PublishEvents(ctx context.Context, evs []*events.Event) error {
	o.done.Store(true)
	return o.Leases.PublishEvents(ctx, evs)
}

// TestOutputsAbortedTogether: the leases of several outputs of a thread are over at once, and one round closes them all.
func TestOutputsAbortedTogether(t *testing.T) {
	r := newRig(t)
	r.start(func(d *persist.Deps, c *persist.Config) {
		c.OutputLease = 400 * time.Millisecond
		d.Leases = &oneRound{Leases: d.Leases, outputs: 4, lease: c.OutputLease}
	})
	for i := range 4 {
		_, _ = r.begin(thread(0), client.OutputConfig{ID: fmt.Sprint("o", i)}).Write([]byte("begun\n"))
	}
	closed := map[string]bool{}
	for n := range 4 {
		m := r.result(thread(0), n+1).Metadata
		if m.Output.Aborted == "" {
			t.Errorf("result %d = %+v, want it aborted", n+1, m)
		}
		closed[m.Output.ID] = true
	}
	if len(closed) != 4 {
		t.Errorf("closed %v, want four outputs", closed)
	}
}

// arrived waits until an output has that many bytes.
func (r *rig) arrived(id string, least int64) {
	r.t.Helper()
	ctx := brief(r.t)
	for {
		open := must.Get(r.Session("s0").Outputs(ctx))(r.t)
		if slices.ContainsFunc(open, func(o client.OpenOutput) bool { return o.ID == id && o.Bytes >= least }) {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("output %s has not %d bytes: %+v", id, least, open)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestOutputOfAnEndedThread: what arrived of outputs when their thread ended, by an operation or its agent's last step,
// is in results behind the end, once their leases are over, whatever died meanwhile. The thread stays as it ended, and what
// came later is a dead letter (SPEC O8, P1).
func TestOutputOfAnEndedThread(t *testing.T) {
	ends := map[string]func(r *rig){
		"operation": func(r *rig) { must.Do(r.t, r.Thread(thread(0)).End(r.t.Context(), events.End{ReturnCode: 3})) },
		"step": func(r *rig) {
			p := r.Publisher(client.PublisherConfig{Producer: "p"})
			last := client.Entry{
				Thread: thread(0), Dialect: "step", Seq: 1, Body: []byte(`{"role":"__end__","meta":{"returnCode":3,"summary":""}}`),
			}
			must.Get(p.Publish(r.t.Context(), last))(r.t)
			r.await(thread(0), "p", 1)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.start(nil)
			raw, clean := lines(3_000)
			long, short := r.begin(thread(0), client.OutputConfig{ID: "long"}), r.begin(thread(0), client.OutputConfig{ID: "short"})
			_, _ = long.Write(raw)
			_, _ = short.Write([]byte("precious\n"))
			r.arrived("long", int64(len(clean)))
			r.arrived("short", 9)
			end(r)
			was := r.head(thread(0))
			_, _ = short.Write([]byte("late"))
			if reason := r.reason(1); !strings.Contains(reason, "has ended") {
				t.Errorf("reason = %q, want that the thread has ended", reason)
			}
			_ = p.stop()

			p = r.start(func(d *persist.Deps, c *persist.Config) { // dies over the first result
				c.OutputLease = 300 * time.Millisecond
				d.At = dieAt(persist.StepCommit, 1)
			})
			p.killed(t)
			r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = 300 * time.Millisecond })
			for _, res := range r.results(thread(0), 3)[1:] {
				switch m := res.Metadata; {
				case m.Output.Aborted == "":
					t.Errorf("result = %+v, want it aborted", m)
				case m.Output.ID == "short" && m.Tool.Output != "precious\n":
					t.Errorf("result = %+v, want what arrived", m)
				case m.Output.ID == "long" && m.Artifact == nil:
					t.Errorf("result = %+v, want an artifact", m)
				case m.Output.ID == "long":
					r.artifact(m.Artifact.ID, clean)
				}
			}
			now := r.head(thread(0))
			if now.Status != threads.StatusCompleted || now.Ended() != was.Ended() || now.Updated != was.Updated || now.N != was.N+2 {
				t.Errorf("head = %v with %d items, updated %d, want it completed with %d, updated %d",
					now.Status, now.N, now.Updated, was.N+2, was.Updated)
			}
			rs := must.Get(r.conn.Records().Records(t.Context(), events.HeadKey(thread(0)), events.HistoryKey(was.Ended(), thread(0))))(t)
			if rs[0].Exists() || !rs[1].Exists() {
				t.Errorf("records = %+v, want one in the history alone", rs)
			}
			if open := must.Get(r.Session("s0").Outputs(t.Context()))(t); len(open) > 0 {
				t.Errorf("open outputs = %+v, want none", open)
			}
			r.verify(thread(0))
		})
	}
}

// TestOutputOfARenamedThread: outputs go with a thread that is renamed by force. What arrived under its old name, and what
// comes under its new one, is in their results (SPEC O8, P1).
func TestOutputOfARenamedThread(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	raw, clean := lines(3_000)
	long, short := r.begin(thread(0), client.OutputConfig{ID: "long"}), r.begin(thread(0), client.OutputConfig{ID: "short"})
	_, _ = long.Write(raw)
	_, _ = short.Write([]byte("precious\n"))
	r.arrived("long", int64(len(clean)))
	r.arrived("short", 9)
	other := events.Thread{Session: "s0", Name: "other"}
	must.Do(t, r.Thread(thread(0)).Rename(t.Context(), other.Name, client.Force(true)))
	_, _ = short.Write([]byte("late"))
	if reason := r.reason(1); !strings.Contains(reason, "is s0/other now") {
		t.Errorf("reason = %q, want where the thread is", reason)
	}
	more := events.Chunk{Op: events.ChunkEnd, Output: "short", Seq: 2}
	more.Attempt = must.Get(r.openOutput("short"))(t).Start.Attempt
	e := events.Event{Producer: "q", Seq: 1, Kind: events.KindChunk, Thread: other, Time: 1_000, Body: more.Encode()}
	must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{&e}))
	if m := r.result(other, 1).Metadata; m.Output.ID != "short" || m.Tool.Output != "precious\n" || m.Output.Aborted != "" {
		t.Errorf("result = %+v, want what arrived, and its end", m)
	}
	_ = p.stop()
	r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = 300 * time.Millisecond })
	m := r.result(other, 2).Metadata
	if m.Output.ID != "long" || m.Output.Aborted == "" || m.Artifact == nil {
		t.Fatalf("result = %+v, want it aborted, with an artifact", m)
	}
	r.artifact(m.Artifact.ID, clean)
	r.verify(other)
}

// TestAbortBehindARemoval: who aborts an output whose thread was removed meanwhile hears so, and begins no thread of its name.
func TestAbortBehindARemoval(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	o := r.begin(thread(0), client.OutputConfig{ID: "o"})
	_, _ = o.Write([]byte("begun\n"))
	r.arrived("o", 6)
	must.Do(t, r.Thread(thread(0)).Remove(t.Context(), client.Force(true)))
	must.Do(t, o.Abort("it is gone"))
	must.Is(t, o.Wait(t.Context()), client.ErrRefused, "Wait behind the removal")
	if reason := r.reason(1); !strings.Contains(reason, "output o has ended") {
		t.Errorf("reason = %q, want that the output has ended", reason)
	}
	if head, err := r.Thread(thread(0)).Head(t.Context()); !errors.Is(err, threads.ErrNoThread) {
		t.Errorf("Thread = %v %+v, want none", err, head)
	}
}

// openOutput is what is stored of an open output.
func (r *rig) openOutput(id string) (record.Output, error) {
	rs, err := r.conn.Records().Records(r.t.Context(), events.OutputKey("s0", id))
	if err != nil {
		return record.Output{}, err
	}
	return record.DecodeOutput(rs[0].Value)
}

// TestFollowOutput: subscribers that come before, in the middle and after get every byte, whatever frames are lost, and then
// the item (SPEC O6).
func TestFollowOutput(t *testing.T) {
	r := newRig(t)
	r.start(func(d *persist.Deps, c *persist.Config) { d.Live, c.BatchEvents = &lossy{Live: r.conn.Outputs()}, 4 })
	raw, clean := lines(12_000)
	follow := func(text *bytes.Buffer) (end *events.LiveEnd) {
		ctx := brief(t)
		for f, err := range r.Thread(thread(0)).Follow(ctx, "o") {
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
		must.Do(t, o.Close(client.OutputEnd{ExitCode: i % 3}))
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
	open, err := w.r.conn.Records().List(ctx, events.OutputKeys(""))
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
		must.Do(t, o.Close(client.OutputEnd{}))
	}
	w := &witness{Parts: r.conn.Outputs(), r: r}
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
		e := events.Event{Producer: fmt.Sprintf("p%d", seq%3), Seq: seq, Kind: events.KindChunk, Thread: t,
			Time: 1_000 + int64(seq), Body: c.Encode()}
		must.Do(r.t, r.conn.Events().PublishEvents(r.t.Context(), []*events.Event{&e}))
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

// leastAsked notes how long the outputs are silent that are looked for.
type leastAsked struct {
	persist.Leases
	most atomic.Int64
}

func (l *leastAsked) SilentOutputs(ctx context.Context, least time.Duration) ([]record.Silent, error) {
	l.most.Store(max(l.most.Load(), int64(least)))
	return l.Leases.SilentOutputs(ctx, least)
}

// TestShortLease: a lease that is shorter than the persisters' is the output's.
func TestShortLease(t *testing.T) {
	r, asked := newRig(t), new(leastAsked)
	r.start(func(d *persist.Deps, c *persist.Config) {
		c.OutputLease = 8 * time.Second
		asked.Leases, d.Leases = d.Leases, asked
	})
	ctx, die := context.WithCancel(t.Context())
	o := must.Get(r.Thread(thread(0)).Output(ctx, client.OutputConfig{ID: "short", Lease: time.Second}))(t)
	_, _ = o.Write([]byte("begun\n"))
	must.Do(t, o.Begun(t.Context()))
	die()
	if m := r.result(thread(0), 1).Metadata; m.Output.Aborted == "" {
		t.Errorf("result = %+v, want it aborted", m)
	}
	if least := time.Duration(asked.most.Load()); least > time.Second {
		t.Errorf("outputs are looked for that are silent for %v, want those of the shortest lease, too", least)
	}
}

package persist_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// flaky fails every k-th read for a passing reason.
type flaky struct {
	bucket
	n     atomic.Int64
	every int64
}

func (f *flaky) fails() error {
	if n := f.n.Add(1); f.every > 0 && n%f.every == 0 {
		return fmt.Errorf("%w: read %d", record.ErrBusy, n)
	}
	return nil
}

func (f *flaky) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.bucket.Records(ctx, keys...)
}

func (f *flaky) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	if err := f.fails(); err != nil {
		return record.FoundPack{}, err
	}
	return f.bucket.FindPack(ctx, id)
}

// everyKind publishes events of every kind and operation to two sessions, one message each, refused ones among them.
func (r *rig) everyKind() {
	r.t.Helper()
	seq := uint64(0)
	a, b := events.Thread{Session: "a", Name: "main"}, events.Thread{Session: "b", Name: "main"}
	side := events.Thread{Session: "a", Name: "side"}
	publish := func(e events.Event) {
		r.t.Helper()
		seq++
		e.Producer, e.Seq, e.Time = "p", seq, 1795000000000+int64(seq)
		must.Do(r.t, r.conn.Events().PublishEvents(r.t.Context(), []*events.Event{&e}))
	}
	entry := func(t events.Thread, id string) {
		r.t.Helper()
		publish(events.Event{Kind: events.KindEntry, Dialect: "omp", Thread: t, Body: message(id, "user", 50)})
	}
	control := func(t events.Thread, c events.Control) {
		r.t.Helper()
		publish(events.Event{Kind: events.KindControl, Thread: t, Body: c.Encode()})
	}
	chunk := func(t events.Thread, c events.Chunk) {
		r.t.Helper()
		publish(events.Event{Kind: events.KindChunk, Thread: t, Body: c.Encode()})
	}
	run := func(state string) events.Control {
		return events.Control{Op: events.OpRun, Run: &events.Run{ID: "r1", State: state, Lease: 60_000}}
	}
	entry(a, "e1")
	entry(a, "e2")
	control(a, events.Control{Op: events.OpLabel, Label: &events.Label{Target: "e1", Label: "here"}})
	control(a, events.Control{Op: events.OpLabel, Label: &events.Label{Target: "nowhere", Label: "there"}}) // refused
	control(a, events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: "e1"}})
	entry(a, "e3")
	control(a, events.Control{Op: events.OpSummary, Summary: &events.Summary{Entry: "e1", Summary: "what was"}})
	control(a, events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "all", FirstKept: "e1"}})
	control(side, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "a", Thread: "main"}})
	entry(side, "e4")
	control(side, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "aside"}})
	entry(side, "e5") // refused
	chunk(a, events.Chunk{Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{Tool: "bash"}})
	chunk(a, events.Chunk{Op: events.ChunkData, Output: "o1", Seq: 1, Stream: events.Stdout, Data: []byte("one\n")})
	chunk(a, events.Chunk{Op: events.ChunkData, Output: "o1", Seq: 3, Stream: events.Stdout, Data: []byte("three\n")}) // refused
	chunk(a, events.Chunk{Op: events.ChunkEnd, Output: "o1", Seq: 2})
	control(b, run("running"))
	control(b, run("completed"))
	control(b, run("running")) // refused
	entry(b, "e6")
	control(b, events.Control{Op: events.OpReset, Reset: &events.Reset{}})
	control(b, events.Control{Op: events.OpEnd, End: &events.End{}})
	entry(b, "e7") // refused
	control(b, events.Control{Op: events.OpRemove, Remove: &events.Remove{}})
	entry(b, "e8")
	control(b, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "a", Thread: "side"}}) // refused: it was renamed
	control(events.Thread{Session: "c", Name: "main"}, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "a", Thread: "side"}})
	entry(events.Thread{Session: "d", Name: "main"}, "e9")
	control(events.Thread{Session: "d", Name: "main"}, events.Control{Op: events.OpDelete, Delete: &events.Delete{}})
	entry(events.Thread{Session: "d", Name: "main"}, "e10")
}

// outcome is what events of every kind leave: threads, dead letters and what the persister counts.
func (r *rig) outcome(p *persist.Persister) string {
	r.t.Helper()
	var out strings.Builder
	for _, t := range []events.Thread{
		{Session: "a", Name: "main"}, {Session: "a", Name: "side"}, {Session: "a", Name: "aside"},
		{Session: "b", Name: "main"}, {Session: "c", Name: "main"}, {Session: "d", Name: "main"},
	} {
		h, err := r.Thread(t).Head(r.t.Context())
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", t, err)
			continue
		}
		fmt.Fprintf(&out, "%s: %s, %d entries, %d items, applied %d\n%s", t, h.Head().Ref, h.Entries, h.N, h.Applied, r.export(t))
	}
	why := r.whyDead()
	slices.Sort(why)
	s := p.Stats()
	fmt.Fprintf(&out, "dead %d: %s\nrepeated %d, superseded %d\n", s.Dead, strings.Join(why, "\n"), s.Repeated, s.Superseded)
	return out.String()
}

// A store that does not answer a read changes nothing but the time that it takes: no event of any kind is refused over it.
func TestEveryKthReadFails(t *testing.T) {
	run := func(t *testing.T, every int64) string {
		r := newRig(t)
		f := &flaky{bucket: r.conn.Records(), every: every}
		p := r.deaf(func(d *persist.Deps, c *persist.Config) {
			d.Records, c.BatchEvents = f, 3
			d.Nodes = r.conn.Store(0)
		})
		r.everyKind()
		n := r.lastSeq(events.EventsStream)
		r.give(p, 1, n)
		r.through(p, int64(n))
		return r.outcome(p)
	}
	want := run(t, 0)
	if n := strings.Count(want, "\n"); n < 20 || !strings.Contains(want, "dead 7") {
		t.Fatalf("the run without faults is not what this test is about: %s", want)
	}
	for _, every := range []int64{2, 3, 5, 7} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			t.Parallel()
			must.Same(t, run(t, every), want, "with every %d-th read failing:\n%s\nwant:\n%s", every)
		})
	}
}

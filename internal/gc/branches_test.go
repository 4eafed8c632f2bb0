package gc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// under is an omp entry that names its parent; "" is none.
func under(id, parent string) []byte {
	if parent = fmt.Sprintf("%q", parent); parent == `""` {
		parent = "null"
	}
	return fmt.Appendf(nil, `{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-11-20T10:00:00.000Z",`+
		`"message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`, id, parent)
}

// A session of very many branches works as any other: all its entries are applied, its head stays small, old branches
// can be read and gone on with, forks share them; also when its persister starts anew and garbage is collected on the
// way.
func TestSessionOfManyBranches(t *testing.T) {
	branches := 22_000
	if testing.Short() {
		branches = 3_000
	}
	r := newRig(t)
	th, fork := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "other", Name: "main"}
	grow := func(from, to int) {
		t.Helper()
		var bodies [][]byte
		for i := from; i < to; i++ {
			bodies = append(bodies, under(fmt.Sprint("n", i), ""))
		}
		r.publish(said{th, bodies})
	}
	stop := r.persister(300)
	grow(0, branches/3)
	r.await(th)
	stop()
	stop = r.persister(500)
	grow(branches/3, 2*branches/3)
	r.await(th)
	r.collect(brave())
	grow(2*branches/3, branches)
	r.await(th)
	small := func(th events.Thread, entries, least int) threads.Head {
		t.Helper()
		rs, err := r.conn.Records().Records(t.Context(), events.HeadKey(th))
		if err != nil || len(rs[0].Value) > 16<<10 {
			t.Errorf("the head of %s has %d bytes, %v, want at most 16 KiB", th, len(rs[0].Value), err)
		}
		h, err := r.Thread(th).Head(t.Context())
		if err != nil || int(h.Entries) != entries || h.Branches() < least {
			t.Errorf("%s has %d entries and %d branches, %v, want %d and %d", th, h.Entries, h.Branches(), err, entries, least)
		}
		return h
	}
	small(th, branches, branches-1)
	r.say(th, under("a", "n1"), under("b", "a"), under("c", fmt.Sprint("n", branches/2)), under("d", "a"))
	h := small(th, branches+4, branches-1)
	point := must.Get(r.Reader().At(t.Context(), h, threads.Point{Source: "b"}))(t)
	ctx, err := r.Reader().Context(t.Context(), point.At)
	if err != nil || len(ctx.Steps) != 3 || ctx.Steps[0].Entry.ID != "n1" {
		t.Errorf("the context of an old branch has %d steps, %v, want n1, a and b", len(ctx.Steps), err)
	}
	op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: th.Session, Thread: th.Name, Whole: true}}
	e := &events.Event{
		Producer: "f", Seq: 1, Kind: events.KindControl, Thread: fork, Time: 1795000000000, Body: op.Encode(),
	}
	must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
	must.Do(t, r.Thread(fork).Await(t.Context(), "f", 0, 1))
	f := small(fork, branches+5, branches-1)
	must.Same(t, f.Older, h.Older, "the fork's older tips are at %s, want those of its source at %s")
	r.remove(th) // what the fork shares stays
	r.collect(brave())
	r.collect(brave())
	whole, err := r.Thread(fork).Head(t.Context())
	if err == nil {
		err = threads.Verify(t.Context(), client.New(r.conn).Reader(), whole)
	}
	must.Is(t, err, nil, "verify the fork")
	stop()
	r.persister(500)
	r.publish(said{fork, [][]byte{under("e", "n2")}})
	r.await(fork)
	small(fork, branches+6, branches)
	var out bytes.Buffer
	if n, err := r.Thread(fork).Export(t.Context(), &out); err != nil || n != branches+5 {
		t.Errorf("Export() = %d entries, %v, want %d", n, err, branches+5)
	}
	if lines := strings.Count(out.String(), "\n"); lines < branches+5 {
		t.Errorf("the export has %d lines, want %d", lines, branches+5)
	}
}

package persist_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A thread that ends is moved to the history of its UTC date, in one batch with its last state (SPEC C4): by an operation
// or by the step of role __end__. It takes nothing more, can be read and forked, and its producer is still known.
func TestEndMovesToHistory(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 5)
	r.await(thread(0), "p", 5)
	must.Do(t, r.Thread(thread(0)).End(t.Context(), events.End{ReturnCode: 3, Summary: "gave up"}))

	head := r.head(thread(0))
	if head.Status != threads.StatusCompleted || head.N != 6 {
		t.Fatalf("head = %v with %d items, want completed with 6", head.Status, head.N)
	}
	step, err := r.Reader().Last(t.Context(), head.Head(), 1)
	if err != nil || step[0].State.Role != threads.RoleEnd {
		t.Fatalf("last state = %+v, %v, want %s", step, err, threads.RoleEnd)
	}
	list, err := r.Session("s0").Threads(t.Context())
	if err != nil || len(list) != 1 || list[0].Ended == "" {
		t.Fatalf("Threads = %+v, %v, want one that ended", list, err)
	}
	rs, err := r.conn.Records().Records(t.Context(), events.HeadKey(thread(0)), events.HistoryKey(list[0].Ended, thread(0)))
	if err != nil || !rs[0].Removed() || !rs[1].Exists() {
		t.Fatalf("records = %+v, %v, want the active one removed and one in the history", rs, err)
	}
	r.check5(thread(0))

	must.Is(t, r.Thread(thread(0)).End(t.Context(), events.End{}), client.ErrEnded, "second End")
	// What comes later is refused with its bytes kept, also by a persister that reads the head from the history.
	for i := range 2 {
		_, err := pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: message("late", "user", 10), Seq: uint64(6 + i)})
		must.Do(t, err)
		r.await(thread(0), "p", uint64(6+i))
		_ = p.stop()                           // after what is committed is published
		if dead := p.Stats().Dead; dead != 1 { // each persister counts its own
			t.Fatalf("%d dead letters, want 1: the thread has ended", dead)
		}
		p = r.start(nil)
	}
	if h := r.head(thread(0)); h.Status != threads.StatusCompleted || h.Head() != head.Head() {
		t.Errorf("head after late entries = %v at %s, want completed at %s", h.Status, h.Head().Ref, head.Head().Ref)
	}

	fork := events.Thread{Session: "s0", Name: "again"}
	must.Do(t, r.Thread(fork).Fork(t.Context(), events.Fork{Session: "s0", Thread: "main"}))
	if h := r.head(fork); h.Status != threads.StatusActive {
		t.Errorf("fork = %v, want active", h.Status)
	}
}

// check5 holds five entries and their items, and the item of the end, against what was published.
func (r *rig) check5(t events.Thread) {
	r.t.Helper()
	var out strings.Builder
	if n, err := r.Thread(t).Export(r.t.Context(), &out); err != nil || n != 5 || strings.Contains(out.String(), "__end__") {
		r.t.Errorf("Export = %d entries, %v, want 5, without the operation", n, err)
	}
	must.Same(r.t, r.items(t, 6), 6, "%d items, want %d")
	items, err := r.Past(r.t.Context(), t, 6, 6)
	if err != nil || len(items) != 1 || items[0].Text() != "Ended: gave up" {
		r.t.Errorf("item 6 made again = %+v, %v, want the end", items, err)
	}
}

// The answer to the commit that ends a thread gets lost, or it dies before or after: the thread is completed once.
func TestEndSurvivesLostAnswers(t *testing.T) {
	for _, stored := range []bool{false, true} {
		r := newRig(t)
		u := &unsure{bucket: r.conn.Records(), lose: func(n int64) bool { return n == 1 }, done: func(int64) bool { return stored }}
		r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = u })
		pub := r.Publisher(client.PublisherConfig{Producer: "p"})
		body := []byte(`{"role":"__end__","meta":{"returnCode":0},"timestamp":1795176001000}`)
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "step", Body: body}))(t)
		if h := r.await(thread(0), "p", 1); h.Status != threads.StatusCompleted || h.Entries != 1 {
			t.Errorf("stored %v: head = %v with %d entries, want completed with 1", stored, h.Status, h.Entries)
		}
		list, err := r.EverySession().Threads(t.Context())
		if err != nil || len(list) != 1 || list[0].Ended != "2026-11-20" {
			t.Errorf("stored %v: Threads = %+v, %v, want one that ended on 2026-11-20", stored, list, err)
		}
	}
}

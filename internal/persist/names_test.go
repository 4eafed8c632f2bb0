package persist_test

import (
	"slices"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

// again has every event of SPOOL_EVENTS come again, as when the consumers of the partitions are deleted and made again.
func (r *rig) again() {
	r.t.Helper()
	for part := range events.Partitions {
		must.Do(r.t, r.conn.JetStream().DeleteConsumer(r.t.Context(), events.EventsStream, events.PartitionConsumer(part)))
	}
	must.Do(r.t, r.conn.Ensure(r.t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
}

// applies runs a persister over that many events, until they are acknowledged.
func (r *rig) applies(n int64) persist.Stats {
	r.t.Helper()
	run := r.start(nil)
	r.through(run.Persister, n)
	must.Do(r.t, run.stop())
	return run.Stats()
}

func (r *rig) itemTexts(t events.Thread) (all []string) {
	r.t.Helper()
	for it := range must.All(r.t,
		r.Subscribe(r.t.Context(), client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		if all = append(all, it.Text()); it.More == 0 {
			break
		}
	}
	return all
}

// A name was removed twice and is used a third time. What comes again must not be applied again.
func TestEventsOfANameRemovedTwiceComeAgain(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	b := events.Thread{Session: "s", Name: "b"}
	pub := func(name string) *client.Publisher { return r.Publisher(client.PublisherConfig{Producer: name}) }
	remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
	must.Get(pub("q").Publish(ctx, stepEntry(b, 1, "one")))(t)
	must.Do(t, pub("q2").Control(ctx, b, 1, remove))
	must.Get(pub("x").Publish(ctx, stepEntry(b, 1, "two")))(t)
	must.Do(t, pub("y").Control(ctx, b, 1, remove))
	must.Get(pub("z").Publish(ctx, stepEntry(b, 1, "three")))(t)
	r.applies(5)
	want := []string{"one", "two", "three"}
	if got := r.itemTexts(b); !slices.Equal(got, want) {
		t.Fatalf("before: items %v", got)
	}
	r.again()
	st := r.applies(5)
	if got := r.itemTexts(b); !slices.Equal(got, want) || st.Repeated != 5 {
		t.Errorf("items %v, %+v; want %v, and all repeated", got, st, want)
	}
}

// renamedToARemovedName publishes five events: two entries of a thread that is then renamed, and before that one of the thread that had
// the name, which is removed. It gives the thread's publisher, with what it was called first and then.
func (r *rig) renamedToARemovedName() (p *client.Publisher, a, b events.Thread) {
	r.t.Helper()
	ctx := r.t.Context()
	a, b = events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	p = r.Publisher(client.PublisherConfig{Producer: "p"})
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	must.Get(p.Publish(ctx, stepEntry(a, 1, "kept1"), stepEntry(a, 2, "kept2")))(r.t)
	must.Get(q.Publish(ctx, stepEntry(b, 1, "old")))(r.t)
	must.Do(r.t, q.Control(ctx, b, 2, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	must.Do(r.t, p.Control(ctx, a, 3, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "b"}}))
	return p, a, b
}

// The same of a removed name that another thread has now.
func TestEventsOfARemovedNameComeAgainUnderARenamedThread(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	_, _, b := r.renamedToARemovedName()
	r.applies(5)
	if h := r.head(b); h.Entries != 2 {
		t.Fatalf("before: %d entries", h.Entries)
	}
	r.again()
	st := r.applies(5)
	if h, err := r.Thread(b).Head(ctx); err != nil || h.Entries != 2 {
		t.Errorf("Thread(b) = %d entries, %v; want the 2 that were acknowledged; %+v", h.Entries, err, st)
	}
}

// A name is removed, and another thread renamed to it; the persister dies before it acknowledges any of that. What comes again must
// not change the renamed thread.
func TestRenameToARemovedNameSurvivesDeath(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	p, _, b := r.renamedToARemovedName()
	first := r.deaf() // the server hears of none of its acks
	r.give(first, 1, 5)
	r.through(first, 5)
	if h := r.head(b); h.Entries != 2 {
		t.Fatalf("before: %d entries, want 2", h.Entries)
	}
	second := r.start(nil)
	must.Get(p.Publish(ctx, stepEntry(b, 4, "kept3")))(t)
	r.await(b, "p", 4)
	_ = second.stop()
	h, err := r.Thread(b).Head(ctx)
	if err != nil || h.Entries != 3 {
		t.Errorf("Thread(b) = %d entries, %v, want the 3 of the renamed thread", h.Entries, err)
	}
}

// A name was removed, its next thread was renamed away and has the name again: what comes again of any of them is known.
func TestEventsOfARemovedNameComeAgainAfterRenamesThereAndBack(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	pub := func(name string) *client.Publisher { return r.Publisher(client.PublisherConfig{Producer: name}) }
	rename := func(to string) events.Control {
		return events.Control{Op: events.OpRename, Rename: &events.Rename{To: to}}
	}
	must.Get(pub("q").Publish(ctx, stepEntry(b, 1, "old")))(t)
	must.Do(t, pub("q").Control(ctx, b, 2, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	must.Get(pub("x").Publish(ctx, stepEntry(b, 1, "kept1"), stepEntry(b, 2, "kept2")))(t)
	must.Do(t, pub("y").Control(ctx, b, 1, rename("a")))
	r.applies(5)
	r.again()
	if st, h := r.applies(5), r.head(a); st.Repeated != 5 || h.Entries != 2 {
		t.Fatalf("renamed away: %d entries, want 2; %+v", h.Entries, st)
	}
	must.Do(t, pub("y").Control(ctx, a, 2, rename("b")))
	r.applies(1)
	r.again()
	if st, h := r.applies(6), r.head(b); st.Repeated != 6 || h.Entries != 2 {
		t.Errorf("renamed back: %d entries, want 2; %+v", h.Entries, st)
	}
}

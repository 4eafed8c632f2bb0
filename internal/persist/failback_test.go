package persist_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

// giveTerm delivers the stored events from one sequence up to another to one persister, in a term of the partition.
func (r *rig) giveTerm(term uint64, p *persist.Persister, from, to uint64) {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.EventsStream))(r.t)
	for seq := from; seq <= to; seq++ {
		m, err := s.GetMsg(r.t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // of a session that was deleted
			continue
		}
		must.Do(r.t, err)
		p.Deliver(r.t.Context(), persist.Message{
			Subject: m.Subject, Data: m.Data, Seq: seq, Stored: m.Time.UnixNano(), Term: term, Ack: func() error { return nil },
		})
	}
}

// give delivers stored events to a persister that does not notice when another one owns the partition in between.
func (r *rig) give(p *persist.Persister, from, to uint64) {
	r.t.Helper()
	r.giveTerm(0, p, from, to)
}

// giveAll gives a persister all that EVENTS has, and waits until it is through.
func (r *rig) giveAll(p *persist.Persister) {
	r.t.Helper()
	last := r.lastSeq(events.EventsStream)
	r.give(p, 1, last)
	r.through(p, int64(last))
}

// lastSeq is the sequence of a stream's newest message.
func (r *rig) lastSeq(stream string) uint64 {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), stream))(r.t)
	return s.CachedInfo().State.LastSeq
}

// through waits until a persister is done with that many events.
func (r *rig) through(p *persist.Persister, n int64) {
	r.t.Helper()
	must.Until(r.t, fmt.Sprintf("%d events are applied", n), func() bool { return p.Stats().Applied >= n })
}

// whyDead lists why events are among the dead letters.
func (r *rig) whyDead() (out []string) {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.DeadStream))(r.t)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		if m, err := s.GetMsg(r.t.Context(), seq); err == nil {
			out = append(out, m.Header.Get("Spool-Reason"))
		}
	}
	return out
}

// noDead fails when an event is among the dead letters.
func (r *rig) noDead() {
	r.t.Helper()
	if why := r.whyDead(); len(why) > 0 {
		r.t.Errorf("dead letters: %q, want none", why)
	}
}

// knows reports whether a thread has seen an event.
func (r *rig) knows(id events.Thread, producer string, seq uint64) bool {
	r.t.Helper()
	h := r.head(id)
	return h.Duplicate(producer, 0, seq)
}

// large is an entry that shares its message with no other.
func large(id events.Thread, i int) client.Entry {
	return client.Entry{Thread: id, Dialect: "omp", Body: message(fmt.Sprintf("e%05d", i), "user", 70_000)}
}

// wantEntries holds the ids of a thread's entries against e00000, e00001, …
func (r *rig) wantEntries(id events.Thread, n int) {
	r.t.Helper()
	var got []string
	for _, line := range strings.Split(r.export(id), "\n") {
		if at := strings.Index(line, `"id":"e`); at >= 0 {
			got = append(got, line[at+6:at+12])
		}
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("e%05d", i))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s has the entries %v, want %v", id, got, want)
	}
}

// A persister that gets a partition back in the middle of a linked batch applies the rest of it, on the head as the other
// one left it. It is told of the change (another term), or is not.
func TestLinkedBatchOverFailback(t *testing.T) {
	for _, back := range []uint64{0, 7} {
		t.Run(fmt.Sprint("term ", back), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, b := r.deaf(), r.deaf()
			id := thread(0)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			must.Get(pub.Publish(t.Context(), large(id, 0)))(t)
			r.give(a, 1, 1)
			r.await(id, "p", 1)
			must.Get(pub.Publish(t.Context(), large(id, 1), large(id, 2), large(id, 3), large(id, 4)))(t)
			r.give(b, 1, 2)
			r.await(id, "p", 2)
			r.giveTerm(back, a, 3, 5)
			r.through(a, 4)
			must.Get(pub.Publish(t.Context(), large(id, 5)))(t)
			r.giveTerm(back, a, 6, 6)
			r.await(id, "p", 6)
			r.wantEntries(id, 6)
			r.noDead()
			must.Same(t, a.Stats().Superseded, 0, "%d events are superseded, want %d")
		})
	}
}

// An operation that a persister refused over an old head is judged again over the new one.
func TestRefusalOnOldHead(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	id := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, id, 0, 1)
	r.give(a, 1, 1)
	r.await(id, "p", 1)
	r.publish(pub, id, 1, 2)
	r.give(b, 1, 2)
	r.await(id, "p", 2)
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	label := events.Control{Op: events.OpLabel, Label: &events.Label{Target: "e00001", Label: "here"}}
	must.Do(t, q.Control(t.Context(), id, 1, label))
	r.give(a, 3, 3)
	r.through(a, 2)
	r.noDead()
}

// Entries for a thread that ended, was removed and was begun again are not held against the one that ended.
func TestEndedOnOldHead(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	id := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, id, 0, 1)
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	must.Do(t, q.Control(t.Context(), id, 1, events.Control{Op: events.OpEnd, End: &events.End{}}))
	r.give(a, 1, 2)
	r.await(id, "q", 1)
	must.Do(t, q.Control(t.Context(), id, 2, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	r.publish(pub, id, 1, 2)
	r.give(b, 1, 4)
	r.await(id, "p", 2)
	r.publish(pub, id, 2, 5)
	r.give(a, 5, r.lastSeq(events.EventsStream))
	r.through(a, 5)
	r.noDead()
	must.Same(t, r.head(id).Entries, 4, "%d entries, want %d")
}

// The pieces of an output that a persister gets back go on where the other one stopped.
func TestOutputOverFailback(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	id := thread(0)
	o := r.begin(id, client.OutputConfig{ID: "o1", Tool: "bash"})
	stored := func(n uint64) { must.Until(r.t, "stored", func() bool { return r.lastSeq(events.EventsStream) >= n }) }
	stored(1)
	write := func(s string, seq uint64) {
		t.Helper()
		must.Get(o.Write([]byte(s)))(t)
		stored(seq)
	}
	write("one\n", 2)
	r.give(a, 1, 2)
	r.through(a, 2)
	write("two\n", 3)
	r.give(b, 1, 3)
	r.through(b, 3)
	write("three\n", 4)
	write("four\n", 5)
	closed := make(chan error, 1)
	go func() { closed <- o.Close(client.OutputEnd{}) }()
	stored(6)
	r.give(a, 4, 6)
	r.through(a, 5)
	r.noDead()
	if n := r.head(id).N; n != 1 {
		t.Errorf("%d items, want the result", n)
	}
	must.Is(t, <-closed, nil, "Close()")
}

// What is in memory of a session ends with the term in which it was read: its head is read once in each.
func TestHeadsEndWithTheirTerm(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	id := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i, want := range []struct {
		term   uint64
		misses int64
	}{{1, 1}, {1, 1}, {2, 2}, {2, 2}, {3, 3}} {
		r.publish(pub, id, i, i+1)
		r.giveTerm(want.term, p, uint64(i+1), uint64(i+1))
		r.await(id, "p", uint64(i+1))
		if got := p.Stats().HeadMisses; got != want.misses {
			t.Errorf("event %d, of term %d: heads were read %d times, want %d", i+1, want.term, got, want.misses)
		}
	}
}

// An answer that another persister took over is told to who asked, and counts; one that comes behind it settles nothing, whatever the
// persister that has the partition back remembers of the prompt.
func TestAnswerOverFailback(t *testing.T) {
	for _, back := range []uint64{0, 7} { // it is told of the change, or is not
		r, ctx := newRig(t), brief(t)
		a, b := r.deaf(), r.deaf()
		id := thread(0)
		done := r.ask(ctx, id, events.Prompt{ID: "q", Kind: events.PromptText, Text: "?"})
		must.Until(r.t, "the question is stored", func() bool { return r.lastSeq(events.EventsStream) == 1 })
		r.give(a, 1, 1)
		r.open(ctx, id.Session, 1)
		for _, user := range []string{"mira", "theo"} {
			op := events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q", Answer: json.RawMessage(`"` + user + `"`)}}
			must.Do(t, r.Publisher(client.PublisherConfig{Producer: user, User: user}).Control(ctx, id, 1, op))
		}
		r.give(b, 1, 2)
		if got := <-done; got.err != nil || got.By != "mira" {
			t.Errorf("back in term %d: Ask = %+v, want the answer of mira", back, got)
		}
		r.giveTerm(back, a, 3, 3)
		r.through(a, 2)
		if p := must.Get(r.Thread(id).Prompt(ctx, "q"))(t); p.Resolution.By != "mira" {
			t.Errorf("back in term %d: settled by %s, want mira", back, p.Resolution.By)
		}
		if n := r.head(id).N; n != 2 {
			t.Errorf("back in term %d: %d items, want the question and its answer", back, n)
		}
	}
}

// A persister whose old head builds on a pack that a collector has taken since does not refuse the thread: its newest head
// builds on another one.
func TestOldHeadIsNotLatched(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	id := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, id, 0, 1)
	r.give(a, 1, 1)
	r.await(id, "p", 1)
	r.publish(pub, id, 1, 2)
	r.give(a, 2, 2)
	r.await(id, "p", 2)
	r.give(b, 1, 2)
	for i := 2; i < 30; i++ {
		r.publish(pub, id, i, i+1)
		r.give(b, uint64(i+1), uint64(i+1))
		r.await(id, "p", uint64(i+1))
	}
	cfg := gc.Config{Lane: events.Lanes - 1, Allow: []gc.Brake{gc.BrakeShare}}
	for range 4 {
		c := must.Get(gc.New(gcnats.Deps(r.conn, cfg.Lane), cfg))(t)
		p := must.Get(c.Plan(t.Context()))(t)
		must.Get(c.Apply(t.Context(), p))(t)
	}
	r.publish(pub, id, 30, 34)
	r.give(a, 31, r.lastSeq(events.EventsStream))
	r.through(a, 6)
	r.noDead()
	r.check(id, 34)
}

// What is linked behind dead letters of a latched thread is applied once the latch is lifted.
func TestLatchIsLiftedInsideABatch(t *testing.T) {
	r := newRig(t)
	a := r.deaf()
	id := thread(0)
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), id, 0, 1)
	r.give(a, 1, 1)
	r.await(id, "p", 1)
	must.Get(r.conn.Records().Fences(t.Context()))(t)
	head := r.head(id)
	pack := r.record(events.PackKey(head.Head().Pack.String()))
	r.put(pack.Key, nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p2"})
	must.Get(pub.Publish(t.Context(), large(id, 1), large(id, 2), large(id, 3), large(id, 4)))(t)
	r.give(a, 2, 3)
	must.Until(r.t, "two dead letters", func() bool { return a.Stats().Dead >= 2 })
	r.put(pack.Key, pack.Value)
	a.LatchesAreDue()
	for _, p := range []*persist.Persister{a, r.deaf()} { // one that has seen the first two, and one that has not
		r.give(p, 4, 4)
		must.Until(r.t, "the third", func() bool { return r.knows(id, "p2", 3) })
	}
	r.give(a, 5, 5)
	must.Until(r.t, "the fourth", func() bool { return r.knows(id, "p2", 4) })
	if n := len(r.whyDead()); n != 2 {
		t.Errorf("%d dead letters, want 2: %q", n, r.whyDead())
	}
	must.Same(t, r.head(id).Entries, 3, "%d entries, want %d")
}

// What a latched thread has is no dead letter when it comes again, as it does once a server was started again.
func TestRepeatsOfALatchedThread(t *testing.T) {
	r := newRig(t)
	a := r.deaf()
	id := thread(0)
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	r.give(a, 1, 2)
	r.await(id, "p", 2)
	must.Get(r.conn.Records().Fences(t.Context()))(t)
	head := r.head(id)
	r.put(events.PackKey(head.Head().Pack.String()), nil)
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p2"}).Publish(t.Context(), large(id, 1)))(t)
	r.give(a, 3, 3)
	must.Until(r.t, "a dead letter", func() bool { return a.Stats().Dead == 1 })
	r.give(a, 1, 2)
	r.through(a, 5)
	if why := r.whyDead(); len(why) != 1 {
		t.Errorf("dead letters %q, want that of the third event", why)
	}
}

// What is linked behind an operation that a name refused, which stays free, begins the thread.
func TestLinkedToRefused(t *testing.T) {
	for _, forget := range []bool{false, true} { // the persister has seen the operation, or another one has
		t.Run(fmt.Sprint("forgets ", forget), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.deaf()
			id := thread(0)
			label := events.Control{Op: events.OpLabel, Label: &events.Label{Target: "zz", Label: "l"}}
			evs := []*events.Event{
				{Producer: "x", Seq: 1, Kind: events.KindControl, Thread: id, Time: 1, Body: label.Encode()},
				{Producer: "x", Seq: 2, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1, Body: message("e00000", "user", 10)},
				{Producer: "x", Seq: 3, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1, Body: message("e00001", "user", 10)},
			}
			must.Do(t, r.conn.Events().PublishEvents(t.Context(), evs))
			r.give(p, 1, 1)
			must.Until(r.t, "a dead letter", func() bool { return p.Stats().Dead == 1 })
			if forget {
				p = r.deaf()
			}
			r.give(p, 2, r.lastSeq(events.EventsStream))
			r.await(id, "x", 3)
			r.wantEntries(id, 2)
		})
	}
}

// A piece of an output that a forced removal has dropped in the same batch is refused, also on another thread.
func TestPieceOfADroppedOutput(t *testing.T) {
	r := newRig(t)
	a, b := thread(0), events.Thread{Session: "s0", Name: "b"}
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	armed := false
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepCommit && armed {
				armed = false
				held <- struct{}{}
				<-hold
			}
			return nil
		}
	})
	publish := func(evs ...*events.Event) {
		t.Helper()
		for _, e := range evs {
			e.Time = 1
			must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
		}
	}
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), b, 0, 1)
	start := events.Chunk{Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{Tool: "bash"}}
	publish(&events.Event{Producer: "o", Seq: 1, Kind: events.KindChunk, Thread: a, Body: start.Encode()})
	r.give(p, 1, 2)
	r.through(p, 2)
	armed = true
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(9), 0, 1)
	r.give(p, 3, 3)
	<-held // what comes now is one batch
	remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: true}}
	piece := events.Chunk{Op: events.ChunkData, Output: "o1", Seq: 1, Stream: events.Stdout, Data: []byte("x")}
	publish(
		&events.Event{Producer: "q", Seq: 1, Kind: events.KindControl, Thread: a, Body: remove.Encode()},
		&events.Event{Producer: "r", Seq: 1, Kind: events.KindChunk, Thread: b, Body: piece.Encode()},
	)
	r.give(p, 4, 5)
	close(hold)
	r.through(p, 5)
	if why := r.whyDead(); len(why) != 1 || !strings.Contains(why[0], "o1") {
		t.Errorf("dead letters %q, want one for the piece of o1", why)
	}
}

// What waits in the queue when a later term of its partition begins is not applied: what of it nobody acknowledged comes again in that
// term, in its place.
func TestQueuedEventsOfAnEarlierTerm(t *testing.T) {
	r := newRig(t)
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	armed := true
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepCommit && armed {
				armed = false
				held <- struct{}{}
				<-hold
			}
			return nil
		}
	})
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	id := thread(0)
	for i := range 4 { // not linked to each other
		r.publish(pub, id, i, i+1)
	}
	r.giveTerm(1, p, 1, 1)
	<-held
	r.giveTerm(1, p, 2, 3)
	r.giveTerm(2, p, 4, 4) // as if another process had acknowledged the two before
	close(hold)
	r.await(id, "p", 4)
	if n := r.head(id).Entries; n != 2 {
		t.Errorf("%d entries, want the first and the last", n)
	}
	if n := p.Stats().Applied; n > 2 {
		t.Errorf("%d events are through, want 2", n)
	}
}

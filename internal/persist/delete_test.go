package persist_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/apply"
	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// furnish gives a session a bit of everything: two threads, one of them ended, an artifact, a prompt, a run that ended.
func (r *rig) furnish(session string) {
	r.t.Helper()
	ctx := r.t.Context()
	main, sub := events.Thread{Session: session, Name: "main"}, events.Thread{Session: session, Name: "0-sub"}
	r.steps(main, r.Publisher(client.PublisherConfig{Producer: "p"}), 1, 6)
	r.steps(sub, r.Publisher(client.PublisherConfig{Producer: "q"}), 1, 3)
	must.Do(r.t, r.Thread(sub).End(ctx, events.End{}))
	must.Get(r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: session}},
		strings.NewReader("the whole output of "+session)))(r.t)
	pub := r.Publisher(client.PublisherConfig{Producer: "asker"})
	ask := []byte(`{"content":[{"type":"text","text":"ok?"}],"metadata":{"type":"pending_prompt","prompt":{"id":"q1","kind":"text"}}}`)
	must.Get(pub.Publish(ctx, client.Entry{Thread: main, Dialect: "item", Body: ask, Seq: 1}))(r.t)
	r.await(main, pub.Producer(), 1)
	run := must.Get(r.Thread(main).StartRun(ctx, client.RunConfig{ID: "r1"}))(r.t)
	must.Do(r.t, errors.Join(run.End(ctx, artifacts.RunCompleted, ""), run.Wait(ctx)))
}

// applied returns when all that was published to a session is applied: an entry behind it is.
func (r *rig) applied(session string) {
	r.t.Helper()
	r.steps(events.Thread{Session: session, Name: "last"}, r.Publisher(client.PublisherConfig{}), 1, 2)
}

func (r *rig) records(session string) (keys []string) {
	r.t.Helper()
	for _, filter := range events.OfSession(session) {
		rs := must.Get(r.conn.Records().List(r.t.Context(), filter))(r.t)
		for _, one := range rs {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// stored counts the messages of a stream that match a filter.
func (r *rig) stored(stream, filter string) (n int) {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), stream))(r.t)
	info := must.Get(s.Info(r.t.Context(), jetstream.WithSubjectFilter(filter)))(r.t)
	for _, count := range info.State.Subjects {
		n += int(count)
	}
	return n
}

// gone checks that nothing is left of a session, but for the event that deleted it.
func (r *rig) gone(session string) {
	r.t.Helper()
	if keys := r.records(session); len(keys) > 0 {
		r.t.Errorf("records of %s are left: %v", session, keys)
	}
	for stream, filter := range map[string]string{events.ItemsStream: events.ItemsOfSession(session),
		events.DeadStream: events.DeadFilter(events.Thread{Session: session})} {
		if n := r.stored(stream, filter); n != 0 {
			r.t.Errorf("%s holds %d messages of %s", stream, n, session)
		}
	}
	must.Eventually(r.t, "its events are removed", func() error {
		if n := r.stored(events.EventsStream, events.StoredOfSession(session)); n > 1 {
			return fmt.Errorf("SPOOL_EVENTS holds %d messages of %s, want the deletion alone", n, session)
		}
		return nil
	})
	if list, err := r.Sessions(r.t.Context(), session); err != nil || len(list) != 0 {
		r.t.Errorf("Sessions(%s) = %v, %v, want none", session, list, err)
	}
}

// A deleted session leaves nothing but its forks, with what they share; its name begins anew.
func TestDeleteSession(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := t.Context()
	r.furnish("s")
	r.furnish("other")
	must.Do(t, r.Session("s").Fork(ctx, "child", client.SessionFork{}))
	rows, err := r.Session("s").Artifacts(ctx)
	if err != nil || len(rows) != 1 {
		t.Fatalf("Artifacts = %v, %v", rows, err)
	}
	got := must.Get(r.Session("s").Delete(ctx, client.Deletion{By: "mira"}))(t)
	g := got.Gone
	if !got.Deleted || got.By != "mira" || g.Threads != 2 || g.Artifacts != 1 || g.Runs != 1 || g.Prompts != 1 ||
		g.Entries == 0 || g.Items == 0 {
		t.Errorf("receipt = %+v", got)
	}
	if len(got.Kept) != 3 || fmt.Sprint(got.Kept[0].Sessions) != "[child]" || got.Kept[1].Count != 1 {
		t.Errorf("kept = %+v, want the entries and the artifact of the fork", got.Kept)
	}
	r.gone("s")
	must.Is(t, must.Err(r.Thread(events.Thread{Session: "s", Name: "main"}).Head(ctx)), threads.ErrNoThread, "Thread")
	if a, err := r.Artifacts().Record(ctx, rows[0].ID); err != nil || a.Session != "child" { // entries of the fork name it so
		t.Errorf("Artifact = %+v, %v, want the fork's", a, err)
	}
	must.Is(t, must.Err(r.Session("s").Delete(ctx, client.Deletion{})), client.ErrSessionNotFound, "second DeleteSession")
	child := events.Thread{Session: "child", Name: "main"}
	r.intact(child)
	forked, err := r.Session("child").Artifacts(ctx)
	if err != nil || len(forked) != 1 {
		t.Fatalf("artifacts of the fork = %v, %v, want one", forked, err)
	}
	body, _ := must.Two(r.Artifacts().Open(ctx, forked[0]))(t)
	var text bytes.Buffer
	if _, err := text.ReadFrom(body); err != nil || text.String() != "the whole output of s" {
		t.Errorf("artifact of the fork = %q, %v", &text, err)
	}
	r.intact(events.Thread{Session: "other", Name: "main"})
	if n := r.stored(events.ItemsStream, events.ItemsOfSession("other")); n == 0 {
		t.Error("the other session's items are gone")
	}

	if h := r.steps(events.Thread{Session: "s", Name: "main"}, r.Publisher(client.PublisherConfig{Producer: "p"}), 1,
		3); h.Entries != 2 || h.N != 2 {
		t.Errorf("the name begins anew with %d entries, %d items, want 2 of each", h.Entries, h.N)
	}
	r.items(events.Thread{Session: "s", Name: "main"}, 2)
	must.Get(r.Session("child").Delete(ctx, client.Deletion{}))(t)
	if n := r.stored(events.ObjectStream(events.ArtifactsBucket), "$O.spool_artifacts.>"); n != 2 { // the chunk and the name of "other"
		t.Errorf("the bucket of artifacts holds %d messages, want the 2 of the session that is left", n)
	}
}

// A session in which somebody works is refused with what keeps it; a lease that is over does not keep it (SPEC A6).
func TestDeleteActiveSession(t *testing.T) {
	r := newRig(t)
	p := r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputLease = time.Hour })
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	run, err := r.Thread(id).StartRun(ctx, client.RunConfig{ID: "r1"})
	if err == nil {
		err = run.Wait(ctx)
	}
	must.Do(t, err)
	out := must.Get(r.Thread(id).Output(ctx, client.OutputConfig{ID: "o1", Tool: "Bash"}))(t)
	r.applied("s")
	var active *artifacts.ActiveError
	if _, err := r.Session("s").Delete(ctx, client.Deletion{}); !errors.As(err, &active) || !errors.Is(err, artifacts.ErrSessionActive) {
		t.Fatalf("DeleteSession = %v, want ErrSessionActive", err)
	}
	if fmt.Sprint(active.Runs, active.Outputs) != "[r1] [o1]" {
		t.Errorf("what is live: %v %v, want r1 and o1", active.Runs, active.Outputs)
	}
	// Whoever does not ask first is refused by the persister, and can tell why.
	pub := r.Publisher(client.PublisherConfig{Producer: "rude"})
	must.Do(t, pub.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	r.await(id, "rude", 1)
	must.Do(t, run.End(ctx, artifacts.RunCancelled, ""))
	must.Do(t, errors.Join(run.Wait(ctx), out.Close(client.OutputEnd{}), out.Wait(ctx)))
	_ = p.stop()
	if n := p.Stats().Dead; n != 1 {
		t.Errorf("%d dead letters, want the refused deletion", n)
	}
	r.start(nil)
	must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
	r.gone("s")

	// Forced, whatever is live goes.
	must.Get(r.Thread(id).StartRun(ctx, client.RunConfig{ID: "r2", Lease: time.Hour}))(t)
	r.applied("s")
	must.Get(r.Session("s").Delete(ctx, client.Deletion{Force: true}))(t)
	r.gone("s")
}

// Wherever a persister dies, and however often, the session is deleted once, with all that came before it; what came behind
// the deletion is there, once.
func TestDeletionSurvivesDeath(t *testing.T) {
	for _, step := range []persist.Step{persist.StepRemove, persist.StepFree, persist.StepPurge, persist.StepDone,
		persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.start(nil)
			r.furnish("s")
			_ = first.stop()
			id := events.Thread{Session: "s", Name: "main"}
			pub := r.Publisher(client.PublisherConfig{Producer: "late"})
			ctx := t.Context()
			say := func(seq uint64) {
				t.Helper()
				body := fmt.Appendf(nil, `{"role":"coder","content":"late %d","timestamp":1795176000000}`, seq)
				must.Get(pub.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: body, Seq: seq}))(t)
			}
			say(1)
			del := r.Publisher(client.PublisherConfig{Producer: "eraser"})
			must.Do(t, del.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
			say(2)
			for range 2 { // the step was not taken: the next persister comes to it again
				r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(step, 1) }).killed(t)
			}
			p := r.start(nil)
			h := r.await(id, "late", 2)
			if h.Entries != 1 || h.N != 1 {
				t.Errorf("%d entries, %d items, want the one behind the deletion", h.Entries, h.N)
			}
			r.items(id, 1)
			r.intact(id)
			say(3)
			r.await(id, "late", 3)
			_ = p.stop()
			must.Same(t, p.Stats().Dead, 0, "%d dead letters, want %d")
			if n := r.stored(events.ItemsStream, events.ItemsOfSession("s")); n != 2 {
				t.Errorf("%d items are stored, want the 2 behind the deletion", n)
			}
			d := must.Get(r.conn.Records().Records(ctx, events.DeletedKey("s")))(t)
			if rec, err := record.DecodeDeleted(d[0].Value); err != nil || rec.State != record.Done || rec.Gone.Threads != 2 ||
				rec.Gone.Artifacts != 1 {
				t.Errorf("the deletion's record = %+v, %v, want it done, with 2 threads and an artifact", rec, err)
			}
			if n := r.stored(events.ObjectStream(events.ArtifactsBucket), "$O.spool_artifacts.>"); n != 0 {
				t.Errorf("the bucket of artifacts holds %d messages, want none", n)
			}
		})
	}
}

// A session with more records than a batch takes is gone for readers with the first batch, whatever dies, and for good in the
// end.
func TestDeleteLargeSession(t *testing.T) {
	r := newRig(t)
	first := r.start(nil)
	ctx := t.Context()
	const many = 1900
	var es []client.Entry
	for i := range many {
		es = append(es, client.Entry{Thread: events.Thread{Session: "s", Name: fmt.Sprint("t", i)}, Dialect: "step",
			Body: []byte(`{"role":"coder","content":"x","timestamp":1795176000000}`), Seq: uint64(i + 1)})
	}
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(ctx, es...))(t)
	r.await(es[many-1].Thread, "p", many)
	_ = first.stop()
	if n := len(r.records("s")); n != many+1 {
		t.Fatalf("%d records, want %d", n, many+1)
	}
	p := r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(persist.StepRemove, 3) })
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan error, 1)
	go func() {
		_, err := r.Session("s").Delete(ctx, client.Deletion{})
		asked <- err
	}()
	p.killed(t)
	if n := r.stored(events.RecordsStream, events.RecordSubject(events.HeadKeys("s"))); n != many {
		t.Fatalf("%d subjects of heads, want %d: markers and records", n, many)
	}
	if list, err := r.EverySession().Threads(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a reader sees %d threads of a session that is being deleted, %v", len(list), err)
	}
	must.Is(t, must.Err(r.Thread(es[many-1].Thread).Head(t.Context())), threads.ErrNoThread, "Thread")
	r.start(nil)
	must.Do(t, <-asked)
	cancel()
	r.gone("s")
	if h := r.steps(es[0].Thread, r.Publisher(client.PublisherConfig{Producer: "again"}), 1, 2); h.Entries != 1 {
		t.Errorf("%d entries under the free name, want 1", h.Entries)
	}
	if list, err := r.Session("s").Threads(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d threads of the new life, %v, want 1", len(list), err)
	}
}

// Two persisters that both apply everything delete the session once, and neither takes the new life for the old one.
func TestTwoPersistersDelete(t *testing.T) {
	r := newRig(t)
	late := func(_ *persist.Deps, c *persist.Config) { c.Late = time.Nanosecond } // each has the partition while the other one stands still
	a, b := r.deaf(late), r.deaf(late)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	say := func(p *client.Publisher, from, to uint64) {
		t.Helper()
		for seq := from; seq < to; seq++ {
			body := fmt.Appendf(nil, `{"role":"coder","content":"%d","timestamp":1795176000000}`, seq)
			must.Get(p.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: body, Seq: seq}))(t)
		}
	}
	old, next := r.Publisher(client.PublisherConfig{Producer: "old"}), r.Publisher(client.PublisherConfig{Producer: "new"})
	for round := range 3 {
		say(old, uint64(20*round+1), uint64(20*round+21))
		del := r.Publisher(client.PublisherConfig{Producer: fmt.Sprint("del", round)})
		must.Do(t, del.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	}
	say(next, 1, 31)
	r.feed(a, b)
	h := r.await(id, "new", 30)
	if h.Entries != 30 || h.N != 30 {
		t.Errorf("%d entries, %d items, want the 30 behind the last deletion", h.Entries, h.N)
	}
	r.intact(id)
	must.Until(r.t, "what came late of the deleted lives is gone", func() bool {
		nodes := map[string]bool{} // an item may be there twice
		must.Do(t, natsadmin.New(r.conn).Messages(ctx, events.ItemsStream, 1, func(_ uint64, _ string, data []byte) error {
			nodes[string(jsonscan.Get(data, "node"))] = true
			return nil
		}))
		return len(nodes) == 30
	})
	r.items(id, 30)
}

// A thread in which a run or an output is live is not renamed or removed, unless that is forced.
func TestLeavingWhileLive(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := t.Context()
	id, to := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	run, err := r.Thread(id).StartRun(ctx, client.RunConfig{ID: "r1", Lease: time.Hour})
	if err == nil {
		err = run.Wait(ctx)
	}
	must.Do(t, err)
	if err := r.Thread(id).Rename(ctx, "b"); !errors.Is(err, client.ErrBusyThread) || !strings.Contains(err.Error(), "r1") {
		t.Errorf("Rename = %v, want ErrBusyThread: r1", err)
	}
	rude := r.Publisher(client.PublisherConfig{Producer: "rude"})
	must.Do(t, rude.Control(ctx, id, 1, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	r.await(id, "rude", 1)
	must.Do(t, r.Thread(id).Rename(ctx, "b", client.Force(true)))
	out := must.Get(r.Thread(to).Output(ctx, client.OutputConfig{ID: "o1"}))(t)
	must.Get(out.Write([]byte("so far")))(t)
	r.applied("s")
	if err := r.Thread(to).Remove(ctx); !errors.Is(err, client.ErrBusyThread) || !strings.Contains(err.Error(), "o1") {
		t.Errorf("Remove = %v, want ErrBusyThread: o1", err)
	}
	must.Do(t, r.Thread(to).Remove(ctx, client.Force(true)))
	if open, err := r.Session("s").Outputs(ctx); err != nil || len(open) != 0 {
		t.Errorf("open outputs = %v, %v, want none", open, err)
	}
	must.Is(t, must.Err(r.Thread(to).Head(ctx)), threads.ErrNoThread, "Thread")
}

// An answer that never comes means done or not done: the deletion goes on from what the store says.
func TestDeletionWithLostAnswers(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done=", done), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.start(nil)
			r.furnish("s")
			_ = first.stop()
			lose := func(n int64) bool { return n <= 2 } // the records, and that all is done
			if !done {
				lose = func(n int64) bool { return n%2 == 1 }
			}
			u := &unsure{bucket: r.conn.Records(), lose: lose, done: func(int64) bool { return done }}
			p := r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = u })
			got, err := r.Session("s").Delete(t.Context(), client.Deletion{})
			if err != nil || got.Gone.Threads != 2 {
				t.Fatalf("DeleteSession = %+v, %v", got, err)
			}
			_ = p.stop()
			r.gone("s")
			if n := u.n.Load(); n < 2 {
				t.Errorf("%d commits, want at least two", n)
			}
		})
	}
}

// A persister that stalls in the middle of a deletion, while another one finishes it and the session begins anew, takes nothing
// of the new life away when it goes on.
func TestStalledDeletion(t *testing.T) {
	for _, step := range []persist.Step{persist.StepRemove, persist.StepFree, persist.StepPurge, persist.StepDone} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.start(nil)
			r.furnish("s")
			_ = first.stop()
			id := events.Thread{Session: "s", Name: "main"}
			del := r.Publisher(client.PublisherConfig{Producer: "eraser"})
			must.Do(t, del.Control(t.Context(), id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
			stalled, goOn := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			a, b := r.deaf(func(d *persist.Deps, _ *persist.Config) {
				d.At = func(s persist.Step) error {
					if s == step && !once.Swap(true) {
						close(stalled)
						<-goOn
					}
					return nil
				}
			}), r.deaf()
			say := func(producer string) {
				t.Helper()
				body := []byte(`{"role":"coder","content":"late","timestamp":1795176000000}`)
				e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: 1}
				must.Get(r.Publisher(client.PublisherConfig{Producer: producer}).Publish(t.Context(), e))(t)
			}
			r.feed(a)
			<-stalled
			say("next")
			r.feed(b)
			r.await(id, "next", 1)
			close(goOn)
			say("last")
			r.feed(a)
			h := r.await(id, "last", 1)
			if h.Entries != 2 || h.N != 2 {
				t.Errorf("%d entries, %d items, want the 2 behind the deletion", h.Entries, h.N)
			}
			r.intact(id)
			r.items(id, 2)
		})
	}
}

// Whoever lists a session while it is deleted sees all of it or nothing.
func TestDeletionIsAtomicForReaders(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, stop := context.WithCancel(t.Context())
	const rounds, each = 15, 40
	seen := make(chan map[int]bool, 1)
	var whole atomic.Int64 // the round in which all threads are there, or going; else 0
	go func() {
		counts := map[int]bool{}
		for ctx.Err() == nil {
			round := whole.Load()
			list, err := r.EverySession().Threads(ctx)
			if err == nil && round != 0 && round == whole.Load() {
				counts[len(list)] = true
			}
		}
		seen <- counts
	}()
	for round := range rounds {
		var es []client.Entry
		for i := range each {
			es = append(es, client.Entry{Thread: events.Thread{Session: fmt.Sprint("s", round), Name: fmt.Sprint("t", i)},
				Dialect: "step", Body: []byte(`{"role":"coder","content":"x","timestamp":1795176000000}`), Seq: uint64(round*each + i + 1)})
		}
		pub := r.Publisher(client.PublisherConfig{Producer: "p"})
		must.Get(pub.Publish(t.Context(), es...))(t)
		for _, e := range es {
			r.await(e.Thread, "p", e.Seq)
		}
		whole.Store(int64(round + 1))
		must.Get(r.Session(es[0].Thread.Session).Delete(t.Context(), client.Deletion{Plain: true}))(t)
		whole.Store(0)
	}
	stop()
	counts := <-seen
	if !counts[each] {
		t.Error("nobody looked while the threads were there")
	}
	for n := range counts {
		if n != 0 && n != each {
			t.Errorf("a listing had %d threads of %d", n, each)
		}
	}
}

// A deletion that is sent again is done once: also when the session was deleted by another one since, and is there anew. Another deletion
// under its sequence is a dead letter.
func TestDeletionThatComesAgain(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, id := t.Context(), events.Thread{Session: "s", Name: "main"}
	op := func(producer string, how events.Delete) {
		t.Helper()
		pub := r.Publisher(client.PublisherConfig{Producer: producer})
		must.Do(t, pub.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &how}))
	}
	life := func(producer string) {
		t.Helper()
		r.steps(id, r.Publisher(client.PublisherConfig{Producer: producer}), 1, 3)
	}
	life("first")
	op("alice", events.Delete{})
	life("second")
	op("alice", events.Delete{})
	op("bob", events.Delete{})
	life("third")
	op("alice", events.Delete{})
	op("bob", events.Delete{})
	op("bob", events.Delete{Erase: true})
	op("alice", events.Delete{Erase: true})
	r.applied("s")
	h := must.Get(r.Thread(id).Head(ctx))(t)
	if _, there := h.Last("third"); !there || h.Entries != 2 {
		t.Errorf("the thread has %d entries, want the 2 of its third life", h.Entries)
	}
	var letters []client.DeadLetter
	must.Until(r.t, "the two erasures under the sequences of deletions are dead letters", func() bool {
		letters = must.Get(r.Session("s").DeadLetters(ctx))(t)
		return len(letters) == 2
	})
	if !strings.Contains(letters[0].Reason, apply.ErrReused.Error()) {
		t.Errorf("dead letters %+v, want why", letters)
	}
}

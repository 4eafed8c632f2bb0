package persist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// steps publishes steps of a workflow, s1, s2, …, and returns the thread's head after the last.
func (r *rig) steps(t events.Thread, p *client.Publisher, from, to int) threads.Head {
	r.t.Helper()
	for i := from; i < to; i++ {
		body := fmt.Appendf(nil, `{"id":"s%d","role":"coder","content":"step %d","timestamp":%d}`, i, i, 1795176000000+int64(i))
		must.Get(p.Publish(r.t.Context(), client.Entry{Thread: t, Dialect: "step", Body: body, Seq: uint64(i)}))(r.t)
	}
	return r.await(t, p.Producer(), uint64(to-1))
}

func (r *rig) texts(steps []threads.Step) (list []string) {
	r.t.Helper()
	for _, s := range steps {
		c := must.Get(s.ReadContent(r.t.Context()))(r.t)
		list = append(list, string(c.Text))
	}
	return list
}

// A summary stands for what came before it in the context, and is among the refs of the state's content (SPEC C6). What is
// kept beside it stays; history stays reachable.
func TestCompact(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	id := thread(0)
	head := r.steps(id, p, 1, 6)
	ctx := t.Context()
	for _, bad := range []string{"s9", head.Start.Ref.String()} {
		must.Is(t, r.Thread(id).Compact(ctx, "sum", bad), sessions.ErrNotFound, "Compact keeping %s", bad)
	}
	must.Do(t, r.Thread(id).Compact(ctx, "sum one", ""))
	r.steps(id, p, 6, 8)
	r.wantContext(id, "sum one", "", "step 6,step 7")
	must.Do(t, r.Thread(id).Compact(ctx, "sum two", "s4"))
	head = r.steps(id, p, 8, 9)
	r.wantContext(id, "sum two", "step 4,step 5,step 6,step 7", "step 8")

	last, err := r.Reader().Last(ctx, head.Head(), 100)
	if err != nil || len(last) != 10 {
		t.Fatalf("Last = %d states, %v, want 10", len(last), err)
	}
	content, err := last[1].ReadContent(ctx)
	if err != nil || !slices.Contains(content.Refs, last[1].Compact) || last[1].Role != threads.RoleCompact {
		t.Errorf("the summary %s is not among the content's refs %v, %v", last[1].Compact, content.Refs, err)
	}
	must.Do(t, r.Thread(id).Compact(ctx, "sum three", last[3].At.Ref.String()))
	r.wantContext(id, "sum three", "step 6,step 7,step 8", "")
	must.Same(t, r.items(id, 11), 11, "%d items, want %d")
	r.verify(id)

	// A step with a summary says something itself: the summary is of what came before.
	body := []byte(`{"role":"coder","content":"mine","compact":"sum four","firstKept":"nobody"}`)
	must.Get(p.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: body, Seq: 9}))(t)
	r.await(id, "p", 9)
	r.wantContext(id, "sum four", "", "mine")
}

// intact checks the nodes of a thread whose items begin elsewhere.
func (r *rig) intact(id events.Thread) {
	r.t.Helper()
	if err := threads.Verify(r.t.Context(), r.Reader(), r.head(id)); err != nil {
		r.t.Errorf("Verify(%s) = %v", id, err)
	}
}

func (r *rig) wantContext(id events.Thread, summary, kept, steps string) {
	r.t.Helper()
	head := r.head(id)
	c := must.Get(r.Reader().Context(r.t.Context(), head.Head()))(r.t)
	gotKept, gotSteps := strings.Join(r.texts(c.Kept), ","), strings.Join(r.texts(c.Steps), ",")
	if string(c.Summary.Text) != summary || gotKept != kept || gotSteps != steps {
		r.t.Errorf("context = %q, kept %s, steps %s, want %q, %s, %s", c.Summary.Text, gotKept, gotSteps, summary, kept, steps)
	}
}

// In an omp session the summary is omp's own entry, so that its context and ours agree.
func TestCompactOfOmp(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	id := thread(0)
	r.say(id, "omp", node("a", ""), node("b", "a"), node("c", "b"))
	must.Do(t, r.Thread(id).Compact(t.Context(), "so far", "c"))
	c, err := r.Thread(id).Context(t.Context(), sessions.Last, nil)
	if err != nil || len(c.Messages) != 2 || !strings.Contains(string(c.Messages[0]), "so far") {
		t.Errorf("Context = %d messages, %v, want the summary and c", len(c.Messages), err)
	}
	if !strings.Contains(r.export(id), `"firstKeptEntryId":"c"`) {
		t.Error("the export has no compaction entry")
	}
}

// A renamed thread is whole under its new name; the old one says where it is, and takes nothing.
func TestRename(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	before := r.steps(a, pub, 1, 4)
	ctx := t.Context()
	must.Do(t, r.Thread(a).Rename(ctx, "b"))
	if h := r.head(b); h.Head() != before.Head() || h.N != 3 {
		t.Errorf("head = %s with %d items, want %s with 3", h.Head(), h.N, before.Head())
	}
	var was *client.Renamed
	if _, err := r.Thread(a).Head(ctx); !errors.As(err, &was) || was.To != b || !errors.Is(err, threads.ErrNoThread) {
		t.Errorf("Thread(%s) = %v, want it renamed to %s", a, err, b)
	}
	if err := r.Thread(events.Thread{Session: "s", Name: "f"}).Fork(ctx, events.Fork{Session: "s", Thread: "a"}); !errors.As(err, &was) {
		t.Errorf("Fork(%s) = %v, want it renamed", a, err)
	}
	must.Is(t, r.Thread(a).Fork(ctx, events.Fork{Session: "s", Thread: "b"}), client.ErrThreadExists, "Fork to the old name")
	if list, err := r.Session("s").Threads(ctx); err != nil || len(list) != 1 || list[0].Thread != b {
		t.Errorf("Threads = %v, %v, want %s alone", list, err, b)
	}

	// What comes for the old name is refused, by this persister and by one that starts anew; the new name goes on.
	for i := range 2 {
		late := client.Entry{Thread: a, Dialect: "step", Body: []byte(`{"role":"coder","content":"late"}`), Seq: uint64(4 + i)}
		must.Get(pub.Publish(ctx, late))(t)
		r.steps(b, r.Publisher(client.PublisherConfig{Producer: fmt.Sprint("q", i)}), 1, 2)
		_ = p.stop()
		must.Same(t, p.Stats().Dead, 1, "%d dead letters, want %d: the thread was renamed")
		p = r.start(nil)
	}
	if h := r.head(b); h.Entries != 5 || h.N != 5 {
		t.Errorf("%d entries, %d items, want 5 of each", h.Entries, h.N)
	}
	r.intact(b)

	taken := events.Thread{Session: "s", Name: "taken"}
	r.steps(taken, r.Publisher(client.PublisherConfig{Producer: "t"}), 1, 2)
	for to, want := range map[string]error{"taken": client.ErrThreadExists, "no.token": events.ErrToken} {
		must.Is(t, r.Thread(b).Rename(ctx, to), want, "Rename to %s", to)
	}
	must.Is(t, r.Thread(taken).Rename(ctx, "a"), client.ErrThreadExists, "Rename to a name that leads elsewhere")
	must.Do(t, r.Thread(b).Rename(ctx, "a"))
	r.steps(a, r.Publisher(client.PublisherConfig{Producer: "z"}), 1, 2)
	if h := r.head(a); h.Entries != 6 {
		t.Errorf("%d entries after the way back, want 6", h.Entries)
	}
	must.Do(t, r.Thread(a).End(ctx, events.End{}))
	if h := r.head(a); h.Status != threads.StatusCompleted {
		t.Errorf("status %s, want completed", h.Status)
	}
}

// A thread that is removed is in no listing, also one that has ended; its name is free, forks of it live on, and nothing
// that was published before comes back.
func TestRemove(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	ctx := t.Context()
	id, fork := thread(0), events.Thread{Session: "s0", Name: "fork"}
	r.steps(id, r.Publisher(client.PublisherConfig{Producer: "p"}), 1, 5)
	must.Do(t, r.Thread(fork).Fork(ctx, events.Fork{Session: "s0", Thread: "main", Index: 3}))
	must.Do(t, r.Thread(fork).End(ctx, events.End{}))
	must.Do(t, r.Thread(id).Remove(ctx))
	if _, err := r.Thread(id).Head(ctx); !errors.Is(err, threads.ErrNoThread) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("Thread = %v, want ErrNoThread: removed", err)
	}
	must.Is(t, r.Thread(id).Remove(ctx), threads.ErrNoThread, "second Remove")
	r.intact(fork)
	again := r.Publisher(client.PublisherConfig{Producer: "p"}) // the same events as before, published anew
	if h := r.steps(id, again, 1, 3); h.Entries != 2 || h.N != 2 {
		t.Errorf("%d entries, %d items under the free name, want 2 of each", h.Entries, h.N)
	}
	for _, gone := range []events.Thread{fork, id} {
		must.Do(t, r.Thread(gone).Remove(ctx))
	}
	_ = p.stop()
	r.start(nil)
	if list, err := r.EverySession().Threads(ctx); err != nil || len(list) != 0 {
		t.Errorf("Threads = %v, %v, want none", list, err)
	}
	if st := p.Stats(); st.Dead != 0 {
		t.Errorf("%d dead letters, want none", st.Dead)
	}
}

// Wherever a persister dies, a rename and a removal happen once, with all that came before and after.
func TestLeavingSurvivesDeath(t *testing.T) {
	for _, step := range []persist.Step{persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
			p := r.Publisher(client.PublisherConfig{Producer: "p"})
			publish := func(t events.Thread, seq uint64) {
				body := fmt.Appendf(nil, `{"id":"s%d","role":"coder","content":"step"}`, seq)
				must.Get(p.Publish(r.t.Context(), client.Entry{Thread: t, Dialect: "step", Body: body, Seq: seq}))(r.t)
			}
			control := func(t events.Thread, seq uint64, op events.Control) {
				must.Do(r.t, p.Control(r.t.Context(), t, seq, op))
			}
			publish(a, 1)
			publish(a, 2)
			control(a, 3, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "b"}})
			publish(b, 4)
			control(b, 5, events.Control{Op: events.OpRemove, Remove: &events.Remove{}})
			publish(b, 6)
			publish(b, 7)
			last := must.Get(r.conn.Events().NewestEvent(r.t.Context(), b))(r.t)
			for kill := range 8 {
				run := r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(step, 1+kill%2) })
				must.Until(r.t, "it is killed, or all is acknowledged", func() bool {
					select {
					case err := <-run.died:
						must.Is(r.t, err, errKilled, "Run() at %s", step)
						return true
					default:
						return must.Get(r.conn.Events().Done(r.t.Context(), last))(r.t)
					}
				})
				_ = run.stop()
			}
			run := r.start(nil)
			if h := r.await(b, "p", 7); h.Entries != 2 || h.N != 2 {
				t.Errorf("%d entries, %d items, want the 2 after the removal", h.Entries, h.N)
			}
			r.intact(b)
			var was *client.Renamed
			if _, err := r.Thread(a).Head(t.Context()); !errors.As(err, &was) {
				t.Errorf("Thread(%s) = %v, want it renamed", a, err)
			}
			_ = run.stop()
			must.Same(t, run.Stats().Dead, 0, "%d dead letters, want %d")
		})
	}
}

// A failed thread is reopened, or appended to; nothing else can be reopened (SPEC I7).
func TestReopen(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	id := thread(0)
	large := `{"content":[{"type":"text","text":"head"},{"type":"text","text":"` + strings.Repeat("x", 400_000) + `"}]}`
	if h := r.say(id, "item", large); h.Status != threads.StatusFailed {
		t.Fatalf("status %s, want failed", h.Status)
	}
	must.Do(t, r.Thread(id).Reopen(t.Context()))
	if h := r.head(id); h.Status != threads.StatusActive || h.Failure != "" {
		t.Errorf("status %s %q, want active", h.Status, h.Failure)
	}
	must.Is(t, r.Thread(id).Reopen(t.Context()), events.ErrControl, "Reopen of an active thread")
}

// A failed thread stays failed until it is reopened, also where its producer ends it without looking (SPEC P10): the operation is a
// dead letter, the step of role __end__ is kept as an entry.
func TestEndOfAFailedThread(t *testing.T) {
	r := newRig(t)
	run := r.start(nil)
	id := thread(0)
	large := `{"content":[{"type":"text","text":"head"},{"type":"text","text":"` + strings.Repeat("x", 400_000) + `"}]}`
	why := r.say(id, "item", large).Failure
	end := events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}
	must.Is(t, r.Thread(id).End(t.Context(), *end.End), events.ErrControl, "End of a failed thread")

	pub := r.Publisher(client.PublisherConfig{Producer: "blind"})
	must.Do(t, pub.Control(t.Context(), id, 1, end))
	e := client.Entry{Thread: id, Dialect: "step", Body: []byte(`{"role":"__end__","meta":{"returnCode":0}}`), Seq: 2}
	must.Get(pub.Publish(t.Context(), e))(t)
	head := r.await(id, "blind", 2)
	if head.Status != threads.StatusFailed || head.Failure != why || head.N != 2 {
		t.Errorf("behind its ends: %s %q with %d items, want failed with %q and 2", head.Status, head.Failure, head.N, why)
	}
	must.Do(t, r.Thread(id).Reopen(t.Context()))
	must.Do(t, r.Thread(id).End(t.Context(), *end.End))
	if h := r.head(id); h.Status != threads.StatusCompleted || h.Failure != "" {
		t.Errorf("reopened and ended: %s %q, want completed", h.Status, h.Failure)
	}
	_ = run.stop()
	must.Same(t, run.Stats().Dead, 1, "%d dead letters, want %d")
}

// A step refers to blobs and nodes: those of its session, and any other by its pack or, where that has not got it any more, by
// a look into the newest packs. What is not there is an error for its agent, and a dead letter from others.
func TestStepRefs(t *testing.T) {
	r := newRig(t)
	run := r.start(nil)
	ctx := t.Context()
	other := r.steps(thread(1), r.Publisher(client.PublisherConfig{Producer: "o"}), 11, 13)
	blob := must.Get(r.PutBlob(ctx, []byte("a result")))(t)
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	own := r.steps(thread(0), p, 1, 3)
	located, bare := other.Recent[1], other.Recent[0]
	old := casstore.Located{Ref: own.Recent[0].Ref, Pack: casstore.PackID{9}}
	want := []casstore.Ref{own.Recent[1].Ref, located.Ref, bare.Ref, old.Ref, blob}
	body := fmt.Appendf(nil, `{"role":"coder","content":"c","refs":[%q,%q,%q,%q,%q]}`, own.Recent[1].Ref, located, bare.Ref, old, blob)
	must.Get(p.Publish(ctx, client.Entry{Thread: thread(0), Dialect: "step", Body: body, Seq: 3}))(t)
	head := r.await(thread(0), "p", 3)
	step := must.Get(r.Reader().Step(ctx, head.Head()))(t)
	c, err := step.ReadContent(ctx)
	if err != nil || !slices.Equal(c.Refs, want) {
		t.Fatalf("refs = %v, %v, want %v", c.Refs, err, want)
	}
	r.verify(thread(0))

	missing := casstore.NodeRef([32]byte{1})
	wrong := casstore.Located{Ref: missing, Pack: located.Pack}
	for seq, ref := range []string{missing.String(), wrong.String(), casstore.BlobRef([32]byte{1}).String()} {
		bad := client.Entry{Thread: thread(0), Dialect: "step", Body: fmt.Appendf(nil, `{"role":"coder","refs":[%q]}`, ref)}
		must.Is(t, must.Err(p.Publish(ctx, bad)), client.ErrMissingRef, "Publish with %s", ref)
		ev := &events.Event{Producer: "x", Seq: uint64(seq + 1), Kind: events.KindEntry, Dialect: "step", Thread: thread(0), Body: bad.Body}
		must.Do(t, r.conn.Events().PublishEvents(ctx, []*events.Event{ev}))
	}
	if h := r.await(thread(0), "x", 3); h.Entries != 3 {
		t.Errorf("%d entries, want 3", h.Entries)
	}
	_ = run.stop()
	must.Same(t, run.Stats().Dead, 3, "%d dead letters, want %d")
}

// Whoever watches heads is told of moves; what has ended tells nothing (SPEC C10).
func TestHeads(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.steps(thread(0), pub, 1, 2)
	r.steps(thread(2), r.Publisher(client.PublisherConfig{Producer: "q"}), 1, 2)
	must.Do(t, r.Thread(thread(2)).End(t.Context(), events.End{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	moves := make(chan client.Thread)
	go func() {
		defer close(moves)
		for th, err := range r.Heads(ctx, client.HeadFilter{Current: true}, nil) {
			if err != nil {
				t.Error(err)
				return
			}
			moves <- th
		}
	}()
	next := func() client.Thread {
		t.Helper()
		select {
		case th := <-moves:
			return th
		case <-ctx.Done():
			t.Fatal("no move was told")
			return client.Thread{}
		}
	}
	if th := next(); th.Thread != thread(0) || th.Head.N != 1 {
		t.Errorf("first = %s with %d items, want %s with 1", th.Thread, th.Head.N, thread(0))
	}
	want := r.steps(thread(0), pub, 2, 3)
	if th := next(); th.Thread != thread(0) || th.Head.Head() != want.Head() {
		t.Errorf("move = %s at %s, want %s", th.Thread, th.Head.Head(), want.Head())
	}
	must.Do(t, r.Thread(thread(0)).End(ctx, events.End{}))
	r.steps(thread(3), r.Publisher(client.PublisherConfig{Producer: "r"}), 1, 2)
	if th := next(); th.Thread != thread(3) {
		t.Errorf("after an end: %s, want %s: an end tells nothing", th.Thread, thread(3))
	}
	cancel()
	for range moves { // until the watch is closed
	}
}

// Forks of forks, and many forks of one thread, which goes on meanwhile: each is whole and stores a state.
// SPOOL_TEST_BIG=1 makes 1,000 and 10,000 of them.
func TestManyForks(t *testing.T) {
	deep, wide := 30, 100
	if os.Getenv("SPOOL_TEST_BIG") == "1" {
		deep, wide = 1_000, 10_000
	}
	r := newRig(t)
	run := r.start(nil)
	ctx := t.Context()
	name := func(kind string, i int) events.Thread { return events.Thread{Session: "s", Name: fmt.Sprint(kind, i)} }
	source := name("deep", 0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.steps(source, pub, 1, 21)
	began := time.Now()
	forks := r.Publisher(client.PublisherConfig{Producer: "forks"})
	fork := func(to, from events.Thread, index int64) {
		op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: from.Name, Index: index}}
		must.Do(t, forks.Control(ctx, to, 0, op))
	}
	for i := range deep {
		fork(name("deep", i+1), name("deep", i), int64(20+i))
	}
	for i := range wide {
		fork(name("wide", i), source, int64(1+i%20))
	}
	r.steps(source, pub, 21, 22)
	last := name("wide", wide-1)
	must.Do(t, r.Thread(last).Await(ctx, "forks", 0, uint64(deep+wide)))
	took := time.Since(began)
	deepest := r.head(name("deep", deep))
	if deepest.Entries != int64(20+deep) || deepest.N != 20 {
		t.Errorf("the deepest has %d entries and %d items, want %d and 20", deepest.Entries, deepest.N, 20+deep)
	}
	r.intact(name("deep", deep))
	r.intact(last)
	list, err := r.Session("s").Threads(ctx)
	if err != nil || len(list) != 1+deep+wide {
		t.Errorf("%d threads, %v, want %d", len(list), err, 1+deep+wide)
	}
	_ = run.stop()
	st := run.Stats()
	if most := int64(2*(deep+wide) + 3*21 + 2); st.Nodes > most || st.Dead != 0 {
		t.Errorf("%d nodes stored, %d dead, want at most %d: two a fork", st.Nodes, st.Dead, most)
	}
	t.Logf("%d forks in %v", deep+wide, took)
}

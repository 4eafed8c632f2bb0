package persist_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

func (r *rig) runs(session string) map[string]client.RunInfo {
	r.t.Helper()
	list := must.Get(r.Session(session).Runs(r.t.Context()))(r.t)
	out := map[string]client.RunInfo{}
	for _, run := range list {
		out[run.ID] = run
	}
	return out
}

// signs publishes signs of life as a program without the SDK does, and returns when they are applied or refused.
func (r *rig) signs(p *client.Publisher, t events.Thread, seq uint64, ops ...events.Run) {
	r.t.Helper()
	for i := range ops {
		must.Do(r.t, p.Control(r.t.Context(), t, seq+uint64(i), events.Control{Op: events.OpRun, Run: &ops[i]}))
	}
	r.await(t, p.Producer(), seq+uint64(len(ops))-1)
}

// reasons reads why events went to the dead letters, in order.
func (r *rig) reasons(want int) []string {
	r.t.Helper()
	dead := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.DeadStream))(r.t)
	var out []string
	for len(out) < want {
		must.Eventually(r.t, "a dead letter", func() error {
			m, err := dead.GetMsg(r.t.Context(), uint64(len(out)+1))
			if err == nil {
				out = append(out, m.Header.Get(natsio.HeaderReason))
			}
			return err
		})
	}
	info, err := dead.Info(r.t.Context())
	if err != nil || info.State.Msgs != uint64(want) {
		r.t.Fatalf("%d dead letters (%v), want %d", info.State.Msgs, err, want)
	}
	return out
}

// A run is begun in a thread that is not there yet, goes through its states, outlives the thread, and ends (SPEC A6).
func TestRunLife(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	p := r.start(nil)
	th := thread(1)
	run, err := r.Thread(th).StartRun(ctx, client.RunConfig{ID: "r1", Agent: "coder", State: artifacts.RunQueued, Lease: time.Hour,
		Summary: "fix it"})
	must.Do(t, err)
	must.Do(t, run.Wait(ctx))
	got := r.runs("s1")["r1"]
	if got.Thread != th || got.Agent != "coder" || got.State != artifacts.RunQueued || got.Summary != "fix it" || !got.Active() ||
		got.Left < 59*time.Minute || got.Left > time.Hour || got.Begun.IsZero() || got.Expired {
		t.Errorf("queued run = %+v", got)
	}
	must.Do(t, run.Set(ctx, artifacts.RunRunning, "fixing it"))
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, th, 0, 5)
	r.await(th, "p", 5)
	must.Do(t, run.Wait(ctx))
	if got := r.runs("")["r1"]; got.State != artifacts.RunRunning || got.Summary != "fixing it" || got.Agent != "coder" {
		t.Errorf("running run = %+v", got)
	}
	if err := run.Set(ctx, artifacts.RunPending, ""); err == nil {
		t.Error("a run that runs was made pending")
	}
	r.check(th, 5)
	must.Do(t, r.Client.Thread(th).End(ctx, events.End{}))
	must.Do(t, run.End(ctx, artifacts.RunCompleted, "fixed"))
	must.Do(t, run.Wait(ctx))
	if got := r.runs("s1")["r1"]; got.State != artifacts.RunCompleted || got.Active() || got.Left != 0 || got.Summary != "fixed" {
		t.Errorf("ended run = %+v", got)
	}
	select {
	case <-run.Ended():
	default:
		t.Error("Ended is open after End")
	}
	must.Do(t, run.End(ctx, artifacts.RunCompleted, ""))
	must.Is(t, run.End(ctx, artifacts.RunFailed, ""), client.ErrConflict, "End in another state")
	must.Is(t, must.Err(r.Thread(th).StartRun(ctx, client.RunConfig{ID: "r1"})), client.ErrConflict, "StartRun of one that has ended")
	must.Same(t, p.Stats().Dead, 0, "%d dead letters, want %d")
}

// A lease that is over makes a run count as failed, with nobody writing it; a sign of life takes that back (SPEC A6).
func TestRunLease(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{})
	lives := events.Run{ID: "r", State: "running", Lease: 400}
	waits := events.Run{ID: "q", State: "queued"}
	r.signs(pub, thread(2), 1, waits, lives)
	if got := r.runs("s2")["r"]; got.State != artifacts.RunRunning || got.Left <= 0 || got.Left > 400*time.Millisecond {
		t.Errorf("fresh run = %+v", got)
	}
	for brief := brief(t); !r.runs("s2")["r"].Expired; {
		if brief.Err() != nil {
			t.Fatal("the lease is never over")
		}
	}
	if got := r.runs("s2")["r"]; got.State != artifacts.RunFailed || got.Active() || got.Left != 0 {
		t.Errorf("run whose lease is over = %+v", got)
	}
	if got := r.runs("s2")["q"]; got.State != artifacts.RunQueued || !got.Active() || got.Expired {
		t.Errorf("run that waits without a lease = %+v", got)
	}
	lives.Lease = 3_600_000
	r.signs(pub, thread(2), 3, lives)
	if got := r.runs("s2")["r"]; got.State != artifacts.RunRunning || got.Expired {
		t.Errorf("run that came back = %+v", got)
	}
}

// A living run renews its lease by itself; one that somebody else ends is told, and goes silent.
func TestRunBeats(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	p := r.start(nil)
	run := must.Get(r.Thread(thread(3)).StartRun(ctx, client.RunConfig{Lease: time.Second}))(t)
	must.Do(t, run.Wait(ctx))
	first := r.runs("s3")[run.ID()].Touched
	must.Until(t, "it lives on behind its lease", func() bool { return r.runs("s3")[run.ID()].Touched.Sub(first) >= 1100*time.Millisecond })
	if got := r.runs("s3")[run.ID()]; got.State != artifacts.RunRunning {
		t.Errorf("run that beats = %+v", got)
	}
	must.Is(t, r.Session("s3").EndRun(ctx, "nothing", artifacts.RunCancelled, ""), client.ErrNoRun, "EndRun(nothing)")
	must.Do(t, r.Session("s3").EndRun(ctx, run.ID(), artifacts.RunCancelled, "not needed"))
	select {
	case <-run.Ended():
	case <-ctx.Done():
		t.Fatal("the run is not told that it was cancelled")
	}
	must.Is(t, run.End(ctx, artifacts.RunCompleted, ""), client.ErrConflict, "End after that")
	must.Is(t, r.Session("s3").EndRun(ctx, run.ID(), artifacts.RunFailed, ""), client.ErrConflict, "EndRun again")
	if got := r.runs("s3")[run.ID()]; got.State != artifacts.RunCancelled || got.Summary != "not needed" {
		t.Errorf("cancelled run = %+v", got)
	}
	if n := p.Stats().Dead; n > 1 { // a beat may have been under way
		t.Errorf("%d dead letters", n)
	}
}

// A run whose beginning is refused gives no signs of life: each would be another dead letter.
func TestRefusedRunIsSilent(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	p := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(5), 0, 1)
	r.await(thread(5), "p", 1)
	must.Do(t, p.stop())
	must.Do(t, pub.Control(ctx, thread(5), 2, events.Control{Op: events.OpEnd, End: &events.End{}}))
	begun := time.Now()
	run := must.Get(r.Thread(thread(5)).StartRun(ctx, client.RunConfig{Lease: time.Second}))(t)
	p = r.start(nil)
	must.Is(t, run.Wait(ctx), client.ErrRefused, "Wait for a run of a thread that ended meanwhile")
	must.Until(t, "three beats would have come", func() bool { return time.Since(begun) > 1_500*time.Millisecond })
	must.Same(t, p.Stats().Dead, 1, "%d dead letters, want %d")
}

// What can not be is refused with the reason, and changes nothing.
func TestRunRefused(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{})
	r.signs(pub, thread(4), 1, events.Run{ID: "done", State: "running", Lease: 60_000},
		events.Run{ID: "done", State: "completed", Summary: "all"},
		events.Run{ID: "live", State: "running", Lease: 60_000})
	r.signs(pub, thread(4), 4,
		events.Run{ID: "done", State: "running"}, events.Run{ID: "done", State: "failed"}, events.Run{ID: "live", State: "queued"},
		events.Run{ID: "new", State: "aborted"}, events.Run{ID: "new", State: "paused"}, events.Run{ID: "new", State: "running"},
		events.Run{ID: "a.b", State: "queued"}, events.Run{ID: "new", State: "queued", Lease: -1},
		events.Run{ID: "new", State: "queued", Agent: strings.Repeat("x", events.MaxRunAgent+1)},
	)
	other := events.Thread{Session: "s4", Name: "other"}
	r.signs(pub, other, 100, events.Run{ID: "its", State: "pending"}, events.Run{ID: "live", State: "running"})
	must.Do(t, r.Client.Thread(thread(4)).End(t.Context(), events.End{}))
	r.signs(pub, thread(4), 200, events.Run{ID: "late", State: "queued"})
	want := []string{
		"run done has ended, it is completed, and can not be running", "it is completed, and can not be failed",
		"run live is running, and can not be queued",
		"never begun", `run state "paused": use one of queued, pending, running, completed, failed, aborted, cancelled`, "without a lease",
		"A-Z", "lease of -1 ms", "agent of 257 bytes", "belongs to the thread main", "thread has ended",
	}
	for i, got := range r.reasons(len(want)) {
		if !strings.Contains(got, want[i]) {
			t.Errorf("reason %d = %q, want it to say %q", i, got, want[i])
		}
	}
	got := r.runs("s4")
	if len(got) != 3 || got["done"].State != artifacts.RunCompleted || got["done"].Summary != "all" ||
		got["live"].State != artifacts.RunRunning ||
		got["live"].Thread != thread(4) || got["its"].State != artifacts.RunPending {
		t.Errorf("runs = %+v", got)
	}
}

// A sign of life that says nothing new is taken, and written only when a third of the lease is gone, by the events' times.
func TestRunRenewal(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	beat := func(seq uint64, at int64, state string) uint64 {
		t.Helper()
		e := events.Event{Producer: "beats", Seq: seq, Kind: events.KindControl, Thread: thread(5), Time: at,
			Body: events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: state, Lease: 30_000}}.Encode()}
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{&e}))
		r.await(thread(5), "beats", seq)
		rs := must.Get(r.conn.Records().Records(t.Context(), events.RunKey("s5", "r")))(t)
		return rs[0].Seq
	}
	const t0 = 1_795_000_000_000
	first := beat(1, t0, "pending")
	steps := []struct {
		after   int64
		state   string
		written bool
	}{
		{9_999, "pending", false}, {10_000, "pending", true}, {19_999, "pending", false}, {20_000, "pending", true},
		{20_001, "running", true}, {20_002, "running", false}, {5_000, "running", true}, // a clock that was set back
		{5_001, "completed", true}, {99_000, "completed", false},
	}
	for i, s := range steps {
		rev := beat(uint64(i+2), t0+s.after, s.state)
		if (rev != first) != s.written {
			t.Errorf("%s after %d ms: written = %v, want %v", s.state, s.after, rev != first, s.written)
		}
		first = rev
	}
}

// A run that changes while its persister dies has the same story afterwards, at whatever step, told by the next one.
func TestRunKilled(t *testing.T) {
	for _, step := range []persist.Step{persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			r, ctx := newRig(t), brief(t)
			first := r.start(nil)
			pub := r.Publisher(client.PublisherConfig{})
			r.signs(pub, thread(6), 1, events.Run{ID: "k", State: "running", Lease: 60_000, Agent: "a"})
			must.Do(t, first.stop())
			done := events.Run{ID: "k", State: "completed"}
			must.Do(t, pub.Control(ctx, thread(6), 2, events.Control{Op: events.OpRun, Run: &done}))
			r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(step, 1) }).killed(t)
			last := r.start(nil)
			r.signs(pub, thread(6), 3, events.Run{ID: "k", State: "running"}, events.Run{ID: "l", State: "queued"})
			if got := r.runs("s6"); got["k"].State != artifacts.RunCompleted || got["k"].Agent != "a" || got["l"].State != artifacts.RunQueued {
				t.Errorf("runs = %+v", got)
			}
			if got := r.reasons(1); !strings.Contains(got[0], "it is completed") {
				t.Errorf("reason = %q", got[0])
			}
			must.Do(t, last.stop()) // it counts a letter behind sending it
			if n := last.Stats().Dead; n != 1 {
				t.Errorf("%d dead letters, want the run that would run again", n)
			}
		})
	}
}

// Two persisters that both apply everything, neither pinned, make one story: the loser of the head prepares again.
func TestRunTwoPersisters(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	entries := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(entries, thread(7), 0, 1)
	r.feed(a, b) // both have the thread in memory
	r.await(thread(7), "p", 1)
	pub := r.Publisher(client.PublisherConfig{Producer: "signs"})
	for range 30 {
		must.Do(t, pub.Control(t.Context(), thread(7), 0,
			events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "pending", Lease: 60_000}}))
	}
	for _, op := range []events.Run{{ID: "r", State: "running"}, {ID: "r", State: "failed", Summary: "no"}} {
		must.Do(t, pub.Control(t.Context(), thread(7), 0, events.Control{Op: events.OpRun, Run: &op}))
	}
	r.feed(a)
	r.await(thread(7), "signs", 32)
	r.feed(b) // to it the run has ended before its signs of life come
	r.publish(entries, thread(7), 1, 40)
	r.feed(b, a)
	r.await(thread(7), "p", 40)
	r.check(thread(7), 40)
	if got := r.runs("s7"); len(got) != 1 || got["r"].State != artifacts.RunFailed || got["r"].Summary != "no" || got["r"].Expired {
		t.Errorf("runs = %+v", got)
	}
	r.reasons(0)
}

// Two threads of a session that begin a run of one id at the same time: one has it, and the other is told whose it is.
func TestRunOneID(t *testing.T) {
	r, ctx := newRig(t), context.Background()
	pub := r.Publisher(client.PublisherConfig{Producer: "both"})
	names := []string{"main", "other"}
	for i, name := range names { // one batch, as nobody takes them yet
		th := events.Thread{Session: "s8", Name: name}
		op := events.Run{ID: "same", State: "queued", Agent: name}
		must.Do(t, pub.Control(ctx, th, uint64(2*i+1), events.Control{Op: events.OpRun, Run: &op}))
		must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: message("x", "user", 5), Seq: uint64(2*i + 2)}))(t)
	}
	r.start(nil)
	for i, name := range names {
		r.await(events.Thread{Session: "s8", Name: name}, "both", uint64(2*i+2))
	}
	if got := r.runs("s8"); len(got) != 1 || got["same"].Thread.Name != "main" || got["same"].Agent != "main" {
		t.Errorf("runs = %+v", got)
	}
	if got := r.reasons(1); !strings.Contains(got[0], "belongs to the thread main") {
		t.Errorf("reason = %q", got[0])
	}
}

// More runs than a commit has room for, in one batch, and more than stay in memory.
func TestRunMany(t *testing.T) {
	r := newRig(t)
	pub := r.Publisher(client.PublisherConfig{})
	const many = 150
	say := func(round int, state string) {
		for i := range many {
			op := events.Run{ID: fmt.Sprintf("r%d", i), State: state, Lease: 60_000}
			must.Do(t, pub.Control(t.Context(), thread(9), uint64(round*many+i+1), events.Control{Op: events.OpRun, Run: &op}))
		}
	}
	say(0, "queued")
	p := r.start(nil)
	r.await(thread(9), pub.Producer(), many)
	say(1, "running")
	r.await(thread(9), pub.Producer(), 2*many)
	must.Do(t, p.stop())
	say(2, "aborted")
	r.start(nil)
	r.await(thread(9), pub.Producer(), 3*many)
	got := r.runs("s9")
	for id, run := range got {
		if run.State != artifacts.RunAborted {
			t.Errorf("run %s = %+v", id, run)
		}
	}
	must.Same(t, len(got), many, "%d runs, want %d")
	r.reasons(0)
}

// What the SDK can see to be wrong is told before anything is published.
func TestRunConfig(t *testing.T) {
	r := newRig(t)
	for says, cfg := range map[string]client.RunConfig{
		"at least 1s":           {Lease: time.Millisecond},
		"does not begin as":     {State: artifacts.RunFailed},
		`run state "asleep"`:    {State: "asleep"},
		"A-Z a-z":               {ID: "a b"},
		"lease of 604800001 ms": {Lease: 7*24*time.Hour + time.Millisecond},
	} {
		if _, err := r.Thread(thread(10)).StartRun(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("StartRun = %v, want it to say %q", err, says)
		}
	}
	must.Is(t, must.Err(r.Session("a.b").Runs(t.Context())), events.ErrToken, "Runs(a.b)")
	if err := r.Session("s").EndRun(t.Context(), "r", artifacts.RunQueued, ""); err == nil {
		t.Error("a run was ended as queued")
	}
}

// TestOutputOfARun: the record of an output's artifact names the run of its session that the output names, also one
// that was begun a moment ago, and no run that the session does not have.
func TestOutputOfARun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), brief(t)
	must.Do(t, r.Publisher(client.PublisherConfig{Producer: "beside"}).Control(ctx, thread(2), 1,
		events.Control{Op: events.OpRun, Run: &events.Run{ID: "other", State: "running", Lease: 600_000}}))
	must.Do(t, r.Publisher(client.PublisherConfig{Producer: "own"}).Control(ctx, thread(1), 1,
		events.Control{Op: events.OpRun, Run: &events.Run{ID: "own", State: "running", Lease: 600_000}}))
	printing := events.Thread{Session: thread(1).Session, Name: "printing"}
	want := map[string]string{}
	for name, run := range map[string]string{"own": "own", "other": "", "s2.other": "", "no name": "", "": ""} {
		o := r.begin(printing, client.OutputConfig{Tool: "x", Invocation: "of " + name, Run: name, Keep: true})
		must.Get(o.Write([]byte("printed")))(t)
		must.Do(t, o.Close(client.OutputEnd{}))
		want["of "+name] = run
	}
	r.start(nil)
	r.results(printing, len(want))
	for _, a := range must.Get(r.Session(printing.Session).Artifacts(ctx))(t) {
		must.Same(t, a.Run, want[a.ToolCall], "the artifact of an output %s has the run %q, want %q", a.ToolCall)
		delete(want, a.ToolCall)
	}
	if len(want) > 0 {
		t.Errorf("no artifacts of outputs %v", want)
	}
}

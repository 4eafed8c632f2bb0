package persist_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// A session that begins with what names it is there at once, and takes entries; its name is taken then (SPEC S1).
func TestNewSession(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	must.Do(t, r.Session("s0").New(ctx, "/srv/mill", ""))
	must.Do(t, r.Session("child").New(ctx, "/srv/mill", "s0"))
	to := events.Thread{Session: "child", Name: events.MainThread}
	w := must.Get(r.Thread(to).Writer(ctx, ""))(t)
	must.Get(w.Append(ctx, sessions.Message([]byte(`{"role":"user","content":"go"}`))))(t)
	tree := must.Get(r.Thread(to).Tree(ctx))(t)
	if h := tree.Header(); h.ID != "child" || h.ParentSession != "s0" || h.Cwd != "/srv/mill" || len(tree.Entries()) != 1 {
		t.Errorf("header = %+v, %d entries; want the new session's, and one entry", h, len(tree.Entries()))
	}
	must.Is(t, r.Session("child").New(ctx, "/srv/mill", ""), client.ErrThreadExists, "NewSession of a session that is there")
}

// A forked session has all entries, branches and the leaf of the other one, and its own header; both go their own ways, and
// what is exported is a file that loads as the tree (SPEC S9, S12).
func TestForkSession(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, th, to := soon(t), thread(0), events.Thread{Session: "child", Name: events.MainThread}
	r.say(th, "omp", sessionHeader, node("a", ""), node("b", "a"), node("c", "a"), bare("d"))
	r.say(th, "omp", `{"type":"message","id":"e","timestamp":"2026-11-20T10:00:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Done"}],"stopReason":"stop"}}`)
	must.Do(t, r.Thread(th).Branch(ctx, "b"))
	source := r.head(th)
	must.Do(t, r.Session("s0").Fork(ctx, "child", client.SessionFork{}))
	if got, want := r.shape(t, to), r.shape(t, th); got != want || got != "a< b<a c<a d<c e<d leaf b" {
		t.Errorf("fork = %s, want the source's: %s", got, want)
	}
	must.Same(t, r.nodes(headOf(r.head(to)).Pack), 2, "the fork's pack has %d nodes, want %d: a state and its content")
	r.say(to, "omp", bare("f"))
	must.Same(t, r.shape(t, to), "a< b<a c<a d<c e<d f<b leaf f", "fork after an entry = %s, want %s")
	r.unmoved(source)
	must.Do(t, threads.Verify(ctx, r.Reader(), r.head(to)))

	must.Do(t, r.Thread(to).Branch(ctx, "e"))
	var out bytes.Buffer
	n, err := r.Internal().ExportAs(ctx, to, rehydrate.Full, &out, nil)
	if err != nil || n != 6 {
		t.Fatalf("ExportAs = %d, %v, want 6 entries", n, err)
	}
	f := must.Get(sessions.Load(out.Bytes()))(t)
	if h := f.Header; h.ID != "child" || h.ParentSession != "s0" || h.Version != 3 || h.Title != "Mill" || h.Cwd != "/srv/mill" {
		t.Errorf("header of the export = %+v, want that of the new session", h)
	}
	if tree := f.Tree(); tree.Leaf().ID() != "e" || len(f.Skipped) != 0 || tree.Entries()[5].Parent != "b" || tree.Entries()[3].Parent != "c" {
		t.Errorf("the export loads with leaf %v and entries %+v, want leaf e, and f under b", tree.Leaf(), tree.Entries())
	}
	list := must.Get(r.Sessions(ctx, "child"))(t)
	if row := list[0].Row(); row.Parent != "s0" || row.Cwd != "/srv/mill" || !row.Answered || row.Prompt == "" || row.Messages != 6 {
		t.Errorf("listing of the fork = %+v, want what the source's says", row)
	}
	must.Is(t, r.Session("s0").Fork(ctx, "child", client.SessionFork{}), client.ErrThreadExists, "second fork")
	r.forkForks(t, to)
}

// Sessions of any dialect are forked; those that are none of omp have no header.
func TestForkSessionOfAnyDialect(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	for i, dialect := range []string{"raw", "step", "omp"} {
		th, to := thread(i), events.Thread{Session: "of-" + dialect, Name: events.MainThread}
		r.say(th, dialect, `{"type":"custom","role":"miller","content":"flour"}`)
		must.Do(t, r.Session(th.Session).Fork(ctx, to.Session, client.SessionFork{}))
		must.Same(t, r.head(to).Dialect, dialect, "dialect of the fork is %q, want %q")
	}
	r.noDead()
}

// forkForks goes on where TestForkSession ends: a fork of a fork, of the path alone.
func (r *rig) forkForks(t *testing.T, from events.Thread) {
	t.Helper()
	ctx := soon(t)
	must.Do(t, second(r.Thread(from).Label(ctx, "a", "begin")))
	must.Do(t, second(r.Thread(from).Label(ctx, "b", "elsewhere")))
	to := events.Thread{Session: "path", Name: events.MainThread}
	must.Do(t, r.Session("child").Fork(ctx, "path", client.SessionFork{Path: true, Leaf: "d"}))
	tree := must.Get(r.Thread(to).Tree(ctx))(t)
	ids := []string{}
	for _, e := range tree.Entries() {
		ids = append(ids, e.ID)
	}
	if len(ids) != 4 || !slices.Equal(ids[:3], []string{"a", "c", "d"}) || tree.Label("a") != "begin" || tree.Label("b") != "" {
		t.Errorf("path = %v with labels %v, want a, c, d and a label of a", ids, tree.Labels())
	}
	if h := tree.Header(); h.ID != "path" || h.ParentSession != "child" {
		t.Errorf("header of the path = %+v, want parent child", h)
	}
	must.Do(t, threads.Verify(ctx, r.Reader(), r.head(to)))
	if err := r.Session("child").Fork(ctx, "other", client.SessionFork{Path: true, Leaf: "zz"}); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("fork at an unknown entry = %v, want not found", err)
	}
}

// A fork is listed with the messages up to its fork point, and with where these leave it, as its source was when it had no more;
// on another branch than the leaf's too (SPEC S10, P8).
func TestForkBelowItsHeadIsListed(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, th := soon(t), thread(0)
	say := func(id, message string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":%s}`, id, message)
	}
	var at []threads.Head
	for _, line := range []string{
		sessionHeader,
		say("a", `{"role":"user","content":"Plan it"}`),
		say("b", `{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"bash","arguments":{}}],"stopReason":"toolUse"}`),
		say("c", `{"role":"toolResult","toolCallId":"1","content":[{"type":"text","text":"ok"}]}`),
		say("d", `{"role":"assistant","content":[{"type":"text","text":"Done"}],"stopReason":"stop"}`),
		`{"type":"model_change","id":"e","timestamp":"2026-11-20T10:00:00.000Z","model":"p/m"}`,
		say("f", `{"role":"user","content":"Go on"}`),
		say("g", `{"role":"assistant","content":[{"type":"text","text":"part"}],"stopReason":"aborted"}`),
		say("h", `{"role":"user","content":"Again"}`),
		say("i", `{"role":"assistant","content":[{"type":"text","text":"Yes"}],"stopReason":"stop"}`),
	} {
		at = append(at, r.say(th, "omp", line))
	}
	for i := range at {
		to := events.Thread{Session: fmt.Sprintf("to%d", i), Name: events.MainThread}
		must.Do(t, r.Thread(to).Fork(ctx, events.Fork{Session: th.Session, Thread: th.Name, Index: int64(i + 1)}))
		row := must.Get(r.Sessions(ctx, to.Session))(t)[0].Row()
		if row.Messages != at[i].Messages || row.Status != sessions.Status(at[i].Standing) || row.Title != "Mill" || row.Prompt != "Plan it" {
			t.Errorf("fork at entry %d is listed with %d messages, %s, %q, %q; want %d, %s, Mill, Plan it",
				i+1, row.Messages, row.Status, row.Title, row.Prompt, at[i].Messages, sessions.Status(at[i].Standing))
		}
	}
	must.Do(t, r.Thread(th).Branch(ctx, "d"))
	r.say(th, "omp", say("j", `{"role":"user","content":"Another way"}`))
	for id, want := range map[string]int64{"j": 5, "i": 8, "d": 4} {
		to := events.Thread{Session: "on-" + id, Name: events.MainThread}
		must.Do(t, r.Session(th.Session).Fork(ctx, to.Session, client.SessionFork{Path: true, Leaf: id}))
		must.Same(t, r.head(to).Messages, want, "fork of the path to "+id+" is listed with %d messages, want %d")
	}
}

// Only a harness that brings the header of its new session numbers what that has itself: a fork without one would make the session that
// it goes into the source's.
func TestOwnForkWithoutAHeader(t *testing.T) {
	r := newRig(t)
	run := r.start(nil)
	r.say(thread(0), "omp", string(message("ours", "user", 10)))
	r.say(thread(1), "omp", string(message("theirs", "user", 10)))
	before := must.Get(r.Sessions(t.Context(), "s0"))(t)[0].Info
	for i, name := range []string{"other", "another"} {
		op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s1", Thread: "main", Own: i == 0}}
		must.Do(t, r.Publisher(client.PublisherConfig{Producer: name}).Control(t.Context(), events.Thread{Session: "s0", Name: name}, 1, op))
	}
	r.await(events.Thread{Session: "s0", Name: "another"}, "another", 1)
	_ = run.stop()
	must.Same(t, run.Stats().Dead, 1, "%d dead letters, want %d")
	if after := must.Get(r.Sessions(t.Context(), "s0"))(t)[0].Info; after.Prompt != before.Prompt {
		t.Errorf("the session's first prompt is %q, want %q", after.Prompt, before.Prompt)
	}
}

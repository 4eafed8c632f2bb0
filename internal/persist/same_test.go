package persist_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/examples"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/project"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// story is a thread's lines.
type story struct {
	dialect string
	lines   [][]byte
}

// stories are the example transcripts, by thread, and one of omp that branches.
func stories(t *testing.T) map[events.Thread]story {
	t.Helper()
	out := map[events.Thread]story{}
	err := fs.WalkDir(examples.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		b, err := fs.ReadFile(examples.FS, path)
		name, _, _ := strings.Cut(path, "/")
		id := events.Thread{Session: name, Name: "main"}
		if strings.Contains(path, "subagents") {
			id.Name = "agent"
		}
		out[id] = story{name, bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))}
		return err
	})
	if err != nil || len(out) != 4 {
		t.Fatalf("examples = %d files, %v, want 4", len(out), err)
	}
	tree := story{dialect: "omp"}
	for _, pair := range []string{"a ", "b a", "c b", "d b", "e d", "f c", "g a", "h g", "i f"} {
		id, parent, _ := strings.Cut(pair, " ")
		tree.lines = append(tree.lines, []byte(node(id, parent)))
	}
	out[events.Thread{Session: "tree", Name: "main"}] = tree
	return out
}

// outcome is all of a thread that must not depend on how it came to be.
type outcome struct {
	Head, Start    string
	Tips           int
	N, Entries     int64
	Export         string
	Items          []string
	Title, Harness string
}

// saidAt is the time of entries that say none, so that it is not when they were stored.
const saidAt = 1_795_000_000_000

// tell publishes the stories, so many lines at a time.
func (r *rig) tell(all map[events.Thread]story, each int) map[events.Thread]*client.Publisher {
	r.t.Helper()
	pubs := map[events.Thread]*client.Publisher{}
	for id, s := range all {
		p := r.Publisher(client.PublisherConfig{Producer: "p", User: "u"})
		pubs[id] = p
		for at := 0; at < len(s.lines); at += each {
			var es []client.Entry
			for _, line := range s.lines[at:min(at+each, len(s.lines))] {
				es = append(es, client.Entry{Thread: id, Dialect: s.dialect, Time: time.UnixMilli(saidAt), Body: line})
			}
			must.Get(p.Publish(r.t.Context(), es...))(r.t)
		}
	}
	return pubs
}

// told waits for the stories and gives what became of them.
func (r *rig) told(all map[events.Thread]story) map[events.Thread]outcome {
	r.t.Helper()
	out := map[events.Thread]outcome{}
	for id, s := range all {
		head := r.await(id, "p", uint64(len(s.lines)))
		r.verify(id)
		o := outcome{Head: headOf(head).Ref.String(), Start: head.Start.Ref.String(), Tips: len(head.Tips), N: head.N,
			Entries: head.Entries, Export: r.export(id)}
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		for it := range must.All(r.t,
			r.Subscribe(ctx, client.Filter{Session: id.Session, Thread: id.Name}, client.Position{All: true})) {
			if o.Items = append(o.Items, string(it.Raw)); it.N == head.N {
				break
			}
		}
		cancel()
		out[id] = o
	}
	for id, o := range out { // when every thread of the session is told
		list, err := r.Sessions(r.t.Context(), id.Session)
		if err != nil || len(list) != 1 {
			r.t.Fatalf("Sessions(%s) = %d, %v, want 1", id.Session, len(list), err)
		}
		o.Title, o.Harness = list[0].Title, list[0].Harness
		out[id] = o
	}
	return out
}

// TestSameEntriesSameNodes: hashes, items and sessions do not depend on how entries were published, batched and spread over
// persisters, nor on crashes in between (invariant 5). Items made again from the nodes equal those sent.
func TestSameEntriesSameNodes(t *testing.T) {
	all := stories(t)
	play := func(t *testing.T, each int, run func(r *rig)) map[events.Thread]outcome {
		r := newRig(t)
		r.tell(all, each)
		run(r)
		return r.told(all)
	}
	batches := func(n int) func(*rig) {
		return func(r *rig) { r.start(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = n }) }
	}
	killedAt := func(step persist.Step, times int) func(*rig) {
		return func(r *rig) {
			for range times {
				p := r.start(func(d *persist.Deps, c *persist.Config) {
					c.BatchEvents = 11
					d.At = dieAt(step, 2)
				})
				p.killed(r.t)
			}
		}
	}
	schedule := func(rng *rand.Rand) func(*rig) {
		steps := []persist.Step{persist.StepFence, persist.StepBulk, persist.StepCommit, persist.StepItems, persist.StepAck}
		kills, after := rng.IntN(3), steps[rng.IntN(len(steps))]
		var sizes []int
		for range 1 + rng.IntN(3) {
			sizes = append(sizes, 1+rng.IntN(60))
		}
		return func(r *rig) {
			for range kills {
				killedAt(after, 1)(r)
			}
			for _, n := range sizes {
				batches(n)(r)
			}
		}
	}
	want := play(t, 1000, batches(1000))
	for id, s := range all {
		if got, lines := want[id].Export, string(bytes.Join(s.lines, []byte("\n")))+"\n"; got != lines {
			t.Errorf("export %s = %d bytes, want the %d that were published", id, len(got), len(lines))
		}
	}
	type played struct {
		each int
		run  func(*rig)
	}
	cases := map[string]played{
		"one at a time":    {1, batches(1)},
		"batches of 7":     {5, batches(7)},
		"three persisters": {20, func(r *rig) { batches(9)(r); batches(2)(r); batches(100)(r) }},
		"killed at items":  {30, func(r *rig) { killedAt(persist.StepItems, 3)(r); batches(1000)(r) }},
		"killed at commit": {30, func(r *rig) { killedAt(persist.StepCommit, 3)(r); batches(1000)(r) }},
		"forgetful":        {10, func(r *rig) { r.start(func(_ *persist.Deps, c *persist.Config) { c.HeadBytes, c.BatchEvents = 1, 3 }) }},
		"all to everybody": {50, func(r *rig) { r.feed(r.deaf(), r.deaf()) }},
	}
	schedules, rng := 3, rand.New(rand.NewPCG(6, 7)) // SPOOL_TEST_BIG=1 plays more
	if os.Getenv("SPOOL_TEST_BIG") == "1" {
		schedules = 60
	}
	for i := range schedules {
		cases[fmt.Sprint("schedule ", i)] = played{1 + rng.IntN(60), schedule(rng)}
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, play(t, tt.each, tt.run)); diff != "" {
				t.Errorf("another outcome (-want +got):\n%.3000s", diff)
			}
		})
	}
}

// TestSessionFacts: what a transcript says about its session is in the session's record.
func TestSessionFacts(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	all := stories(t)
	r.tell(all, 100)
	r.told(all)
	for session, want := range map[string]sessions.Info{
		"omp":    {Harness: "omp", Cwd: "/home/mira/orchard", Title: "Plan the new row by the south wall"},
		"claude": {Harness: "claude", Cwd: "/home/mira/orchard", Title: "Fix the late frost warning and redraw the bloom chart"},
		"codex":  {Harness: "codex", Cwd: "/home/mira/orchard"},
	} {
		list, err := r.Sessions(t.Context(), session)
		if err != nil || len(list) != 1 {
			t.Fatalf("Sessions(%s) = %d, %v, want 1", session, len(list), err)
		}
		got := list[0].Info
		if got.Harness != want.Harness || got.Cwd != want.Cwd || want.Title != "" && got.Title != want.Title || got.Created == 0 {
			t.Errorf("Sessions(%s) = %+v, want %+v", session, got, want)
		}
	}
	if list, err := r.Sessions(t.Context(), "claude"); err != nil || len(list[0].Threads) != 2 {
		t.Errorf("Sessions(claude) = %+v, %v, want 2 threads", list, err)
	}
}

// TestCreatedOfASession: a session was created with its first entry, whichever of its threads came first (SPEC S10).
func TestCreatedOfASession(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	early, late := bare("a"), strings.Replace(bare("b"), "10:00:00", "10:05:00", 1)
	for session, order := range map[string][2]string{"s1": {"main", "agent"}, "s2": {"agent", "main"}} {
		for _, name := range order {
			entry := early
			if name != events.MainThread {
				entry = late
			}
			r.say(events.Thread{Session: session, Name: name}, "omp", entry)
		}
		list := must.Get(r.Sessions(t.Context(), session))(t)
		want := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC).UnixMilli()
		must.Same(t, list[0].Created, want, session+" was created at %d, want %d")
	}
}

// TestHugeEntry: an entry far above what a message takes goes through the inbox, is cut by the rules, comes back whole, and
// leaves nothing in the inbox.
func TestHugeEntry(t *testing.T) {
	r := newRig(t)
	discarded := make(chan struct{})
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Inbox = &inbox{d.Inbox, discarded} })
	huge := `{"type":"message","id":"h","message":{"role":"user","content":[{"type":"text","text":"` +
		strings.Repeat("0123456789", 5<<20) + `"}]}}`
	head := r.say(thread(0), "omp", node("a", ""), huge, node("b", "h"))
	if got, want := r.export(thread(0)), node("a", "")+"\n"+huge+"\n"+node("b", "h")+"\n"; got != want {
		t.Errorf("export = %d bytes, want the %d that were published", len(got), len(want))
	}
	if head.Truncated != 1 || head.N != 3 {
		t.Errorf("head: %d truncated, %d items, want 1, 3", head.Truncated, head.N)
	}
	r.verify(thread(0))
	<-discarded
	usage := must.Get(natsadmin.New(r.conn).Usage(t.Context()))(t)
	for _, u := range usage {
		if u.Stream == events.ObjectStream(events.InboxBucket) && u.Messages != 0 {
			t.Errorf("the inbox holds %d messages, want none", u.Messages)
		}
		if u.Stream == events.DeadStream && u.Messages != 0 {
			t.Errorf("%d dead letters, want none", u.Messages)
		}
	}
}

// inbox tells when the first body was discarded.
type inbox struct {
	persist.Inbox
	discarded chan struct{}
}

func (i *inbox) DiscardBody(ctx context.Context, ref events.BodyRef) error {
	err := i.Inbox.DiscardBody(ctx, ref)
	close(i.discarded)
	return err
}

// TestItemTooLarge: an item that can not be made small enough has a stub under its number, in its call's place, and
// fails its thread, which keeps the entry, takes others, stays among the active threads, and is failed until it is
// reopened (SPEC I4, P10).
func TestItemTooLarge(t *testing.T) {
	r := newRig(t)
	var log natstest.Log
	p := r.start(func(d *persist.Deps, _ *persist.Config) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	small := `{"content":[{"type":"text","text":"small"}]}`
	large := `{"content":[{"type":"text","text":"Bash → npm test"}],"metadata":{"type":"tool_call",` +
		`"tool":{"name":"Bash","invocation_id":"tu_1"},` +
		`"extra":"` + strings.Repeat("x", 400_000) + `"}}`
	head := r.say(thread(0), "item", small, large)
	if head.Status.String() != "failed" || !strings.Contains(head.Failure, "THREAD_ITEM_TOO_LARGE") || head.N != 2 ||
		head.Entries != 2 {
		t.Errorf("head: %s, %q, %d items, %d entries, want failed, THREAD_ITEM_TOO_LARGE, 2, 2", head.Status, head.Failure,
			head.N, head.Entries)
	}
	why := head.Failure
	head = r.say(thread(0), "item", small)
	if head.N != 3 || head.Status != threads.StatusFailed || head.Failure != why {
		t.Errorf("after the next entry: %d items, %s, %q, want 3, failed and %q", head.N, head.Status, head.Failure, why)
	}
	var stub string
	for it := range must.All(t, r.Thread(thread(0)).ItemsFrom(t.Context(), head, 1)) {
		if it.N == 2 {
			stub = string(it.Data)
		}
	}
	logPath := project.LocalLog(thread(0))
	for _, want := range []string{`"n":2,`, `Bash → npm test …[left out; see ` + logPath, `"type":"tool_call"`,
		`"invocation_id":"tu_1"`, `"name":"Bash"`,
		`"truncated":true`, `"local_log":"` + logPath + `"`, `"node":"node:sha256:`} {
		if !strings.Contains(stub, want) || len(stub) > 2_000 {
			t.Errorf("stub = %.2000s, want %s in it", stub, want)
		}
	}
	if full := must.Get(r.Thread(thread(0)).FullItem(t.Context(), head, 2))(t); len(full) < 400_000 || !bytes.Contains(full,
		[]byte(`"n":2,`)) {
		t.Errorf("whole item = %d bytes, want all of it under its number", len(full))
	}
	if n := p.Stats().ItemsTooLarge; n != 1 || !strings.Contains(log.String(), "level=WARN") ||
		!strings.Contains(log.String(), "THREAD_ITEM_TOO_LARGE") {
		t.Errorf("%d items too large in the figures, log %q; want one, and a warning", n, log.String())
	}
	must.Do(t, r.Thread(thread(0)).Reopen(t.Context()))
	if head = must.Get(r.Thread(thread(0)).Head(t.Context()))(t); head.Status != threads.StatusActive || head.Failure != "" {
		t.Errorf("reopened: %s, %q, want active and no failure", head.Status, head.Failure)
	}
	if head = r.say(thread(0), "item", large); head.Status != threads.StatusFailed || head.Failure == "" || head.N != 4 {
		t.Errorf("after another large one: %d items, %s, %q, want 4, failed and why", head.N, head.Status, head.Failure)
	}
	if got, want := r.export(thread(0)), small+"\n"+large+"\n"+small+"\n"+large+"\n"; got != want {
		t.Errorf("export = %d bytes, want %d", len(got), len(want))
	}
	r.verify(thread(0))
}

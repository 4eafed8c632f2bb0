package persist_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/rehydrate"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// soon is a context for what must not hang.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx := brief(t)
	return ctx
}

// bare is a message that names no parent.
func bare(id string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"I am %s"}}`, id, id)
}

const sessionHeader = `{"type":"session","version":3,"id":"s0","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/srv/mill","title":"Mill","future":1}`

// shape is a tree as text: each entry with its parent, the leaf marked.
func (r *rig) shape(t *testing.T, th events.Thread) string {
	t.Helper()
	tree := must.Get(r.Thread(th).Tree(soon(t)))(t)
	var b strings.Builder
	for _, e := range tree.Entries() {
		fmt.Fprintf(&b, "%s<%s ", e.ID, e.Parent)
	}
	leaf := tree.Leaf().ID()
	if tree.Leaf() == sessions.Root {
		leaf = "root"
	}
	return b.String() + "leaf " + leaf
}

// A branch moves the leaf and nothing else, the leaf outlives the persister, and what names no parent goes under it (SPEC S3).
func TestBranchOperation(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	ctx, th := soon(t), thread(0)
	lines := []string{sessionHeader, node("a", ""), node("b", "a"), node("c", "b")}
	before := r.say(th, "omp", lines...)

	must.Do(t, r.Thread(th).Branch(ctx, "a"))
	after := r.head(th)
	if after.Leaf != "a" || after.Entries != before.Entries || after.N != before.N || after.Updated != before.Updated {
		t.Errorf("head after branch = %+v, want leaf a and all else as before: %+v", after, before)
	}
	if got := r.export(th); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("export after branch = %s, want the lines as they came", got)
	}
	must.Do(t, p.stop())
	r.start(nil) // reads the leaf from the record
	r.say(th, "omp", bare("d"), bare("e"))
	must.Same(t, r.shape(t, th), "a< b<a c<b d<a e<d leaf e", "tree = %s, want %s")
	if got, want := r.path(r.head(th), entryID), []string{"s0", "a", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("path of the head = %v, want %v", got, want)
	}
	must.Do(t, r.Thread(th).Branch(ctx, "c")) // a tip
	r.say(th, "omp", node("f", "a"), bare("g"))
	must.Same(t, r.shape(t, th), "a< b<a c<b d<a e<d f<a g<f leaf g", "tree with an explicit parent = %s, want %s")
	r.verify(th)
}

// Without a leaf the next entry is a new root, with or without parentId, and the branches that were left can be gone on with.
func TestResetOperation(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	ctx, th := soon(t), thread(0)
	r.say(th, "omp", node("a", ""), node("b", "a"))
	must.Do(t, r.Thread(th).Reset(ctx))
	must.Same(t, r.shape(t, th), "a< b<a leaf root", "tree = %s, want %s")
	if c, err := r.Thread(th).Context(ctx, sessions.Last, nil); err != nil || len(c.Messages) != 0 {
		t.Errorf("context without a leaf = %d messages, %v, want none (SPEC S7)", len(c.Messages), err)
	}
	must.Do(t, p.stop())
	r.start(nil)
	r.say(th, "omp", node("c", "b")) // from no leaf back to a branch
	must.Do(t, r.Thread(th).Reset(ctx))
	r.say(th, "omp", bare("d"))
	must.Do(t, r.Thread(th).Reset(ctx))
	r.say(th, "omp", node("e", ""))
	must.Same(t, r.shape(t, th), "a< b<a c<b d< e< leaf e", "tree = %s, want %s")
	head := r.head(th)
	must.Same(t, len(head.Tips), 2, "%d tips, want %d: c and d")
	r.verify(th)
}

// Labels and branch summaries are entries of the session: exported, with ids that repeating does not change (SPEC S3, S4).
func TestLabelAndSummaryOperations(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, th := soon(t), thread(0)
	lines := []string{sessionHeader, node("a", ""), node("b", "a"), node("c", "b")}
	r.say(th, "omp", lines...)

	label := must.Get(r.Thread(th).Label(ctx, "a", "start <here> & \"now\""))(t)
	sum := must.Get(r.Thread(th).BranchWithSummary(ctx, "b",
		sessions.Summarized{Summary: "went <wrong>", Details: []byte(`{"n":1.50}`), FromExtension: []byte("true")}))(t)
	root := must.Get(r.Thread(th).BranchWithSummary(ctx, "", sessions.Summarized{Summary: "anew"}))(t)
	cleared := must.Get(r.Thread(th).Label(ctx, "a", ""))(t)
	if got, want := r.shape(t, th), fmt.Sprintf("a< b<a c<b %s<c %s<b %s< %s<%s leaf %s", label, sum, root, cleared, root,
		cleared); got != want {
		t.Errorf("tree = %s, want %s", got, want)
	}
	out := strings.Split(strings.TrimSpace(r.export(th)), "\n")
	if len(out) != 8 || !slices.Equal(out[:4], lines) {
		t.Fatalf("export = %q, want the lines as they came and four more", out)
	}
	for i, want := range []string{
		`"targetId":"a","label":"start <here> & \"now\""}`, `"fromId":"b","summary":"went <wrong>","details":{"n":1.50},"fromExtension":true}`,
		`"parentId":null,`, `"targetId":"a"}`,
	} {
		if !strings.Contains(out[4+i], want) {
			t.Errorf("appended entry %d = %s, want it to have %s", i, out[4+i], want)
		}
	}
	if !strings.Contains(out[6], `"fromId":"root"`) {
		t.Errorf("summary at the root = %s, want fromId root", out[6])
	}
	tree, err := r.Thread(th).Tree(ctx)
	if err != nil || tree.Label("a") != "" {
		t.Errorf("label of a = %q, %v, want none: it was cleared", tree.Label("a"), err)
	}
	c, err := r.Thread(th).Context(ctx, sessions.At(sum), nil)
	if err != nil || len(c.Messages) != 3 || !bytes.Contains(c.Messages[2], []byte("went <wrong>")) {
		t.Errorf("context at the summary = %s, %v, want a, b and the summary", c.JSON(), err)
	}
	r.verify(th)
}

// What is not there is named, before anything is published and by the persister (SPEC S3).
func TestOperationsRefuse(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	ctx, th := soon(t), thread(0)
	r.say(th, "omp", sessionHeader, node("a", ""))
	for name, err := range map[string]error{
		"branch": r.Thread(th).Branch(ctx, "zz"), "header": r.Thread(th).Branch(ctx, "s0"), "label": second(r.Thread(th).Label(ctx, "zz", "x")),
		"summary": second(r.Thread(th).BranchWithSummary(ctx, "zz", sessions.Summarized{Summary: "x"})),
		"context": second(r.Thread(th).Context(ctx, sessions.At("zz"), nil)),
	} {
		want := "Entry zz not found"
		if name == "header" {
			want = "Entry s0 not found"
		}
		if !errors.Is(err, sessions.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of an unknown entry = %v, want %q", name, err, want)
		}
	}
	must.Is(t, r.Thread(thread(9)).Branch(ctx, "a"), threads.ErrNoThread, "branch in no thread")
	r.say(thread(1), "claude", `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"x","message":{"role":"user","content":"hi"}}`)
	if _, err := r.Thread(thread(1)).Label(ctx, "u1", "x"); err == nil || !strings.Contains(err.Error(), "claude") {
		t.Errorf("label in a claude thread = %v, want it refused", err)
	}
	must.Do(t, r.Thread(thread(1)).Branch(ctx, "u1"))
	must.Do(t, r.Thread(thread(1)).Reset(ctx))

	// The persister refuses the same, for publishers that do not ask first.
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	missing := "zz"
	ops := []events.Control{
		{Op: events.OpBranch, Branch: &events.Branch{Entry: "zz"}}, {Op: events.OpLabel, Label: &events.Label{Target: "zz", Label: "x"}},
		{Op: events.OpSummary, Summary: &events.Summary{Entry: "zz", Summary: "x"}},
		{Op: events.OpAppend, Append: &events.Append{Entry: json.RawMessage(`{"type":"custom","customType":"x"}`), Leaf: &missing}},
		{Op: events.OpAppend, Append: &events.Append{Entry: json.RawMessage(`{"type":"session"}`)}},
		{Op: events.OpAppend, Append: &events.Append{Entry: json.RawMessage(`{"type":"label","targetId":"zz"}`)}},
		{Op: events.OpBranch, Branch: &events.Branch{}},
	}
	for i, op := range ops {
		must.Do(t, pub.Control(ctx, th, uint64(i+1), op))
	}
	head := r.await(th, "p", uint64(len(ops)))
	if head.Entries != 2 || head.Leaf != "a" {
		t.Errorf("%d entries, leaf %s, want 2 and a", head.Entries, head.Leaf)
	}
	must.Do(t, p.stop())
	if dead := p.Stats().Dead; dead != int64(len(ops)) {
		t.Errorf("%d dead letters, want %d", dead, len(ops))
	}
	n := 0
	for m, err := range r.letters() {
		must.Do(t, err)
		want := "Entry zz not found"
		switch n {
		case 4:
			want = `type "session"`
		case 6:
			want = "name an entry"
		}
		if reason := m.Header.Get("Spool-Reason"); !strings.Contains(reason, want) {
			t.Errorf("dead letter %d says %q, want %q", n, reason, want)
		}
		if n++; n == len(ops) {
			break
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Of two writers after one leaf both entries are kept, as siblings; one is the leaf, and the other writer is told which (SPEC
// S13).
func TestTwoWriters(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, th := soon(t), thread(0)
	r.say(th, "omp", sessionHeader, node("a", ""))
	const rounds = 5
	parent := "a"
	for round := range rounds {
		type result struct {
			id  string
			err error
		}
		results := make(chan result)
		var writers []*client.SessionWriter // both begin before one of them writes
		for i := range 2 {
			w := must.Get(r.Thread(th).Writer(ctx, fmt.Sprint(i)))(t)
			if w.Leaf() != parent {
				t.Fatalf("round %d: writer begins at %s, want %s", round, w.Leaf(), parent)
			}
			writers = append(writers, w)
		}
		for i, w := range writers {
			go func() {
				id, err := w.Append(ctx, sessions.Message(fmt.Appendf(nil, `{"role":"user","content":"%d of round %d"}`, i, round)))
				results <- result{id, err}
			}()
		}
		one, two := <-results, <-results
		if one.err != nil {
			one, two = two, one
		}
		var moved *client.LeafMoved
		if one.err != nil || !errors.As(two.err, &moved) || moved.Entry != two.id || moved.Taken != one.id {
			t.Fatalf("round %d: winner %v, loser %v, want one winner and a loser who is told of it", round, one, two)
		}
		tree := must.Get(r.Thread(th).Tree(ctx))(t)
		if kids := tree.Children(sessions.At(parent)); len(kids) != 2 || tree.Leaf().ID() != one.id {
			t.Fatalf("round %d: children of %s = %v, leaf %s, want two and %s", round, parent, kids, tree.Leaf().ID(), one.id)
		}
		parent = one.id
	}
	r.verify(th)
	if head := r.head(th); head.Entries != 2+2*rounds || len(head.Tips) != rounds {
		t.Errorf("%d entries and %d tips, want %d and %d", head.Entries, len(head.Tips), 2+2*rounds, rounds)
	}
}

// The loser goes on where it was, or after the winner; what comes in the same batch as a lost entry is placed right, too.
func TestLoserGoesOn(t *testing.T) {
	r := newRig(t)
	ctx, th := soon(t), thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	entry := func(n int) json.RawMessage {
		return fmt.Appendf(nil, `{"type":"custom","customType":"n","data":%d}`, n)
	}
	must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(node("a", "")), Seq: 1}))(t)
	must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(bare("b")), Seq: 2}))(t)
	at := func(id string) *string { return &id }
	id := func(seq uint64) string { return events.AppendedID(th, "p", 0, seq) }
	must.Do(t, pub.Control(ctx, th, 3, events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry(3), Leaf: at("a")}})) // lost
	must.Do(t, pub.Control(ctx, th, 4, events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry(4), Leaf: at("b")}}))
	must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(bare("c")), Seq: 5}))(t)
	// lost again
	must.Do(t, pub.Control(ctx, th, 6, events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry(6), Leaf: at(id(3))}}))
	// as a root
	must.Do(t, pub.Control(ctx, th, 7, events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry(7), Leaf: at("")}}))
	must.Do(t, pub.Control(ctx, th, 8, events.Control{Op: events.OpAppend, Append: &events.Append{Entry: entry(8)}}))
	r.start(nil) // all of it in as few batches as can be
	head := r.await(th, "p", 8)
	want := fmt.Sprintf("a< b<a %s<a %s<b c<%s %s<%s %s< %s<c leaf %s", id(3), id(4), id(4), id(6), id(3), id(7), id(8), id(8))
	must.Same(t, r.shape(t, th), want, "tree = %s, want %s")
	must.Same(t, len(head.Tips), 2, "%d tips, want %d")
	r.verify(th)
}

// Operations make the same nodes however they are batched, and when the answer to a commit gets lost (DESIGN 13, 5).
func TestOperationsAreTheSameInAnyBatching(t *testing.T) {
	var shapes []string
	for i, change := range []func(*rig) func(*persist.Deps, *persist.Config){
		func(*rig) func(*persist.Deps, *persist.Config) { return nil },
		func(*rig) func(*persist.Deps, *persist.Config) {
			return func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = 1 }
		},
		func(r *rig) func(*persist.Deps, *persist.Config) {
			u := &unsure{bucket: r.conn.Records(), lose: func(n int64) bool { return n%2 == 1 }, done: func(n int64) bool { return n%4 == 1 }}
			return func(d *persist.Deps, _ *persist.Config) { d.Records = u }
		},
	} {
		r := newRig(t)
		th := thread(0)
		pub := r.Publisher(client.PublisherConfig{Producer: "p"})
		seq := uint64(0)
		entry := func(line string) *events.Event {
			seq++
			return &events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "omp", Thread: th, Body: []byte(line)}
		}
		op := func(c events.Control) *events.Event {
			seq++
			return &events.Event{Producer: "p", Seq: seq, Kind: events.KindControl, Thread: th, Time: 1795176000000 + int64(seq), Body: c.Encode()}
		}
		evs := []*events.Event{
			entry(node("a", "")), entry(node("b", "a")), op(events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: "a"}}),
			entry(bare("c")),
			op(events.Control{Op: events.OpLabel, Label: &events.Label{Target: "b", Label: "x"}}),
			op(events.Control{Op: events.OpSummary, Summary: &events.Summary{Entry: "b", Summary: "left"}}), entry(bare("d")),
			op(events.Control{Op: events.OpReset, Reset: &events.Reset{}}), entry(bare("e")),
		}
		must.Do(t, r.conn.Events().PublishEvents(soon(t), evs))
		r.start(change(r))
		head := r.await(th, pub.Producer(), seq)
		shapes = append(shapes, headOf(head).Ref.String()+" "+r.shape(t, th))
		must.Same(t, shapes[i], shapes[0], "way %d gives %s, want %s", i)
		r.verify(th)
	}
}

// A session of version 1 has the ids that it is loaded with: they can be branched to (SPEC S5).
func TestVersion1(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx, th := soon(t), thread(0)
	line := func(text string) string {
		return `{"type":"message","message":{"role":"user","content":"` + text + `"}}`
	}
	lines := []string{`{"type":"session","id":"s0","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/w"}`, line("a"), line("b"), line("c")}
	r.say(th, "omp", lines...)
	f := must.Get(sessions.Load([]byte(strings.Join(lines, "\n"))))(t)
	ids := []string{f.Entries[0].ID, f.Entries[1].ID, f.Entries[2].ID}
	if got, want := r.shape(t, th), fmt.Sprintf("%s< %s<%s %s<%s leaf %s", ids[0], ids[1], ids[0], ids[2], ids[1], ids[2]); got != want {
		t.Errorf("tree = %s, want that of the file: %s", got, want)
	}
	must.Do(t, r.Thread(th).Branch(ctx, ids[0]))
	c, err := r.Thread(th).Context(ctx, sessions.Last, nil)
	if err != nil || len(c.Messages) != 1 {
		t.Errorf("context after the branch = %s, %v, want one message", c.JSON(), err)
	}
	label := must.Get(r.Thread(th).Label(ctx, ids[1], "x"))(t)
	must.Do(t, r.Session("s0").Fork(ctx, "s9", client.SessionFork{}))
	var out bytes.Buffer
	must.Get(r.Internal().ExportAs(ctx, events.Thread{Session: "s9", Name: "main"}, rehydrate.Full, &out, nil))(t)
	g := must.Get(sessions.Load(out.Bytes()))(t)
	if g.Migrated || len(g.Entries) != 4 || g.Entries[2].Parent != ids[1] || g.Entries[3].Parent != ids[0] || g.Tree().Leaf().ID() != label {
		t.Errorf("export of the fork = %s, want version 3", out.String())
	}
}

// A commit touches every pack that a thread builds on or begins to share, when a collector could take it for old: both bases
// of a lost entry, and the branches of a forked session (DESIGN 9).
func TestOperationsTouchWhatTheyBuildOn(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, c *persist.Config) { c.Lane = lane })
	ctx, th := soon(t), thread(0)
	first := headOf(r.say(th, "omp", sessionHeader, node("a", ""))).Pack
	leaf := headOf(r.say(th, "omp", node("b", "a"))).Pack
	touched := func(what string, do func()) {
		t.Helper()
		one, _ := r.pack(first)
		two, _ := r.pack(leaf)
		r.moveFence()
		do()
		if again, _ := r.pack(first); again.Seq == one.Seq {
			t.Errorf("%s: the pack of a is not touched", what)
		}
		if again, _ := r.pack(leaf); again.Seq == two.Seq {
			t.Errorf("%s: the pack of b is not touched", what)
		}
	}
	touched("lost entry", func() {
		w := must.Get(r.Thread(th).Writer(ctx, ""))(t)
		w.GoTo("a")
		var moved *client.LeafMoved
		if _, err := w.Append(ctx, sessions.Custom("x", nil)); !errors.As(err, &moved) || moved.Taken != "b" {
			t.Errorf("Append after a = %v, want to be told of b", err)
		}
	})
	must.Do(t, r.Thread(th).Branch(ctx, "a")) // b is a tip
	touched("forked session", func() { must.Do(t, r.Session("s0").Fork(ctx, "whole", client.SessionFork{})) })
}

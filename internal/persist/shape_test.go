package persist_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// letters iterates over the dead letters, waiting for them.
func (r *rig) letters() iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		s, err := r.conn.JetStream().Stream(r.t.Context(), events.DeadStream)
		if err != nil {
			yield(nil, err)
			return
		}
		c, err := s.OrderedConsumer(r.t.Context(), jetstream.OrderedConsumerConfig{})
		if err != nil {
			yield(nil, err)
			return
		}
		it, err := c.Messages()
		if err != nil {
			yield(nil, err)
			return
		}
		defer it.Stop()
		for {
			m, err := it.Next(jetstream.NextContext(r.t.Context()))
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&jetstream.RawStreamMsg{Subject: m.Subject(), Data: m.Data(), Header: m.Headers()}, nil) {
				return
			}
		}
	}
}

// say publishes lines as they are and waits until they are applied.
func (r *rig) say(t events.Thread, dialect string, lines ...string) threads.Head {
	r.t.Helper()
	p := r.Publisher(client.PublisherConfig{})
	es := make([]client.Entry, len(lines))
	for i, line := range lines {
		es[i] = client.Entry{Thread: t, Dialect: dialect, Time: time.UnixMilli(saidAt), Body: []byte(line)}
	}
	must.Get(p.Publish(r.t.Context(), es...))(r.t)
	return r.await(t, p.Producer(), uint64(len(lines)))
}

// export gives the entries under the head as it is. ThreadHandle.Export would wait until what came last is acknowledged, and a deaf
// persister acknowledges nothing.
func (r *rig) export(t events.Thread) string {
	r.t.Helper()
	var out bytes.Buffer
	must.Get(r.Internal().Source().Export(r.t.Context(), r.head(t), rehydrate.Full, &out))(r.t)
	return out.String()
}

// path lists what name gives of each state from the first to the head, without the branches.
func (r *rig) path(head threads.Head, name func(threads.State) string) (names []string) {
	r.t.Helper()
	for s := range must.All(r.t, r.Reader().Walk(r.t.Context(), head.Head())) {
		names = append(names, name(s.State))
	}
	slices.Reverse(names)
	return names
}

func entryID(s threads.State) string { return s.Entry.ID }

func (r *rig) verify(t events.Thread) {
	r.t.Helper()
	if err := threads.Verify(r.t.Context(), r.Reader(), r.head(t)); err != nil {
		r.t.Errorf("Verify(%s) = %v", t, err)
	}
	n := r.head(t).N
	if n > 0 {
		r.items(t, n)
	}
}

func node(id, parent string) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"text","text":"I am %s"}]}}`, id, p, id)
}

// TestBranch: an entry whose parent is an older one moves the head; the branch it leaves stays a tip, and export gives all
// lines as they came (SPEC S3).
func TestBranch(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	lines := []string{node("a", ""), node("b", "a"), node("c", "b"), node("d", "b"), node("e", "d"), node("f", "c"),
		node("g", "nowhere"), node("h", "g")}
	head := r.say(thread(0), "omp", lines[:5]...)
	if got, want := r.path(head, entryID), []string{"a", "b", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("walk of the head = %v, want %v", got, want)
	}
	must.Same(t, len(head.Tips), 1, "%d tips, want %d")
	head = r.say(thread(0), "omp", lines[5])
	if got, want := r.path(head, entryID), []string{"a", "b", "c", "f"}; !slices.Equal(got, want) {
		t.Errorf("walk of the head, back on the first branch = %v, want %v", got, want)
	}
	head = r.say(thread(0), "omp", lines[6:]...)
	if got, want := r.path(head, entryID), []string{"g", "h"}; !slices.Equal(got, want) {
		t.Errorf("walk of the head behind an unknown parent = %v, want %v", got, want)
	}
	must.Same(t, r.export(thread(0)), strings.Join(lines, "\n")+"\n", "export = %s, want the lines as they came: %s")
	r.verify(thread(0))
	if head.Entries != 8 || head.N != 8 {
		t.Errorf("head: %d entries, %d items, want 8 of each", head.Entries, head.N)
	}
}

func said(role, text string) string {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	return fmt.Sprintf(`{"timestamp":"2026-11-20T09:15:00.600Z","type":"response_item","payload":{"type":"message","role":%q,"content":[{"type":%q,"text":%q}]}}`, role, kind, text)
}

// TestRollback: thread_rolled_back goes on before the user turns that it takes back (SPEC X7).
func TestRollback(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	rollback := func(turns int) string {
		return fmt.Sprintf(`{"timestamp":"2026-11-20T09:15:01.000Z","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":%d}}`, turns)
	}
	lines := []string{
		`{"timestamp":"2026-11-20T09:15:00.000Z","type":"session_meta","payload":{"id":"c","timestamp":"2026-11-20T09:15:00.000Z","cwd":"/w"}}`,
		said("user", "one"), said("assistant", "first"), said("user", "two"), said("assistant", "second"), said("user", "three"),
		said("assistant", "third"),
		rollback(2), said("user", "again"),
	}
	head := r.say(thread(0), "codex", lines...)
	index := func(s threads.State) string { return fmt.Sprint(s.Entry.Index) }
	if got, want := r.path(head, index), []string{"1", "2", "3", "8", "9"}; !slices.Equal(got, want) {
		t.Errorf("entries on the way to the head = %v, want %v", got, want)
	}
	more := []string{rollback(99), said("user", "anew")}
	head = r.say(thread(0), "codex", more...)
	if got, want := r.path(head, index), []string{"10", "11"}; !slices.Equal(got, want) {
		t.Errorf("after going back further than there is: %v, want %v", got, want)
	}
	if got, want := r.export(thread(0)), strings.Join(append(lines, more...), "\n")+"\n"; got != want {
		t.Errorf("export = %s, want the lines as they came", got)
	}
	r.verify(thread(0))
}

// TestRewind: $rewindTo of Gemini CLI takes back a message and all behind it, also one that was said again; Qwen Code goes on from the
// entry before. What they send of a history anew stands for all before it.
func TestRewind(t *testing.T) {
	gemini := func(id, said string) string {
		return fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-29T11:01:27.000Z","type":"user","content":[{"text":%q}]}`, id, said)
	}
	qwen := func(id, parent, more string) string {
		return fmt.Sprintf(`{"uuid":%q,"parentUuid":%s,"sessionId":"q","timestamp":"2026-11-29T11:01:27.000Z",%s}`, id, parent, more)
	}
	user := `"type":"user","message":{"parts":[{"text":"hello"}]}`
	for name, c := range map[string]struct {
		dialect string
		lines   []string
		path    string // of entries
		summary string
		steps   int // in context
	}{
		"gemini": {"gemini", []string{gemini("a", "one"), gemini("b", "two"), gemini("c", "three"), gemini("b", "two, again"),
			`{"$rewindTo":"b"}`, gemini("d", "four")}, "1 5 6", "", 3},
		"gemini, to the first":         {"gemini", []string{gemini("a", "one"), gemini("b", "two"), `{"$rewindTo":"a"}`, gemini("d", "four")}, "3 4", "", 2},
		"gemini, to what is not there": {"gemini", []string{gemini("a", "one"), `{"$rewindTo":"x"}`, gemini("d", "four")}, "2 3", "", 2},
		"gemini, compressed": {"gemini", []string{gemini("a", "one"), gemini("b", "two"),
			`{"$set":{"messages":[` + gemini("s", "in short") + `]}}`, gemini("d", "four")}, "1 2 3 4", "in short", 1},
		"gemini, its context": {"gemini", []string{`{"$set":{"messages":[` + gemini("s", "<session_context>\n") + `]}}`, gemini("d", "four")}, "1 2", "", 2},
		"qwen": {"qwen", []string{qwen("a", "null", user), qwen("b", `"a"`, user), qwen("c", `"b"`, user),
			qwen("r", `"a"`, `"type":"system","subtype":"rewind"`), qwen("d", `"r"`, user)}, "1 4 5", "", 3},
		"qwen, to the first": {"qwen", []string{qwen("a", "null", user), qwen("b", `"a"`, user),
			qwen("r", "null", `"type":"system","subtype":"rewind"`), qwen("d", `"r"`, user)}, "3 4", "", 2},
		"qwen, compressed": {"qwen", []string{qwen("a", "null", user),
			qwen("b", `"a"`, `"type":"system","subtype":"chat_compression","systemPayload":{"compressedHistory":[{"role":"user","parts":[{"text":"in short"}]}]}`),
			qwen("c", `"b"`, user)}, "1 2 3", "in short", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start(nil)
			head := r.say(thread(0), c.dialect, c.lines...)
			got := strings.Join(r.path(head, func(s threads.State) string { return fmt.Sprint(s.Entry.Index) }), " ")
			must.Same(t, got, c.path, "entries on the way to the head = %s, want %s")
			sent := must.Get(r.Reader().Context(t.Context(), head.Head()))(t)
			if string(sent.Summary.Text) != c.summary || len(sent.Steps) != c.steps {
				t.Errorf("context: %q and %d steps, want %q and %d", sent.Summary.Text, len(sent.Steps), c.summary, c.steps)
			}
			must.Same(t, r.export(thread(0)), strings.Join(c.lines, "\n")+"\n", "export = %s, want the lines as they came: %s")
			r.verify(thread(0))
		})
	}
}

// TestForkPoints: a fork shares what was before its point to the hash, numbers its items on, and copies nothing (SPEC C5).
func TestForkPoints(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(0), 0, 9)
	r.await(thread(0), "p", 9)
	source := r.say(thread(0), "omp", string(message("e00009", "assistant", 100)))
	states := map[int64]casstore.Ref{}
	for s := range must.All(t, r.Reader().Walk(t.Context(), source.Head())) {
		states[s.Entry.Index] = s.At.Ref
	}
	for name, tt := range map[string]struct {
		at   events.Fork
		want int64 // index of the point
	}{
		"index": {events.Fork{Index: 4}, 4}, "item": {events.Fork{Item: 4}, 4}, "entry": {events.Fork{Entry: "e00002"}, 3},
		"node": {events.Fork{Node: states[7].String()}, 7}, "role": {events.Fork{Role: "assistant"}, 10}, "default": {events.Fork{}, 9},
		"first": {events.Fork{Index: 1}, 1}, "last": {events.Fork{Index: 10}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			to := events.Thread{Session: "s0", Name: "fork-" + name}
			tt.at.Session, tt.at.Thread = "s0", "main"
			if err := r.Thread(to).Fork(t.Context(), tt.at); err != nil {
				t.Fatalf("Fork(%+v) = %v", tt.at, err)
			}
			head := r.head(to)
			step, err := r.Reader().Step(t.Context(), head.Head())
			if err != nil || step.Role != threads.RoleFork || step.Parent != states[tt.want] {
				t.Fatalf("first state of the fork = %s with parent %s, %v, want %s: entry %d", step.Role, step.Parent, err, states[tt.want], tt.want)
			}
			must.Same(t, head.Start.Ref, source.Start.Ref, "start = %s, want the source's, %s")
			nodes := r.nodes(head.Head().Pack)
			must.Same(t, nodes, 2, "the fork's pack has %d nodes, want %d: a state and its content")
			head = r.say(to, "omp", string(message("mine", "user", 10)))
			if head.N != tt.want+1 || head.Entries != tt.want+2 {
				t.Errorf("after an entry: %d items, %d entries, want %d, %d", head.N, head.Entries, tt.want+1, tt.want+2)
			}
			if got := strings.Count(r.export(to), "\n"); int64(got) != tt.want+1 {
				t.Errorf("export has %d lines, want %d", got, tt.want+1)
			}
			must.Is(t, threads.Verify(t.Context(), r.Reader(), head), nil, "Verify")
		})
	}
	r.unmoved(source)
	r.forkOfAFork(states)
}

func (r *rig) nodes(id casstore.PackID) int {
	_, p := r.pack(id)
	return p.Nodes
}

// unmoved: the source of the forks is as it was.
func (r *rig) unmoved(source threads.Head) {
	r.t.Helper()
	if now := r.head(thread(0)); headOf(now) != headOf(source) || now.N != source.N {
		r.t.Errorf("the source's head moved from %s to %s", headOf(source), headOf(now))
	}
}

// forkOfAFork goes on where TestForkPoints ends: across sessions.
func (r *rig) forkOfAFork(states map[int64]casstore.Ref) {
	r.t.Helper()
	to := events.Thread{Session: "elsewhere", Name: "main"}
	must.Do(r.t, r.Thread(to).Fork(r.t.Context(), events.Fork{Session: "s0", Thread: "fork-index", Entry: "mine"}))
	if err := r.Thread(events.Thread{Session: "elsewhere", Name: "older"}).Fork(r.t.Context(),
		events.Fork{Session: "s0", Thread: "fork-index", Index: 2}); err != nil {
		r.t.Fatalf("Fork of a fork before it left = %v", err)
	}
	head := r.say(to, "omp", string(message("yours", "user", 10)))
	ids := r.path(head, entryID)
	if want := []string{"e00000", "e00001", "e00002", "e00003", "", "mine", "elsewhere", "yours"}; !slices.Equal(ids, want) {
		r.t.Errorf("fork of a fork = %v, want %v", ids, want)
	}
	if err := threads.Verify(r.t.Context(), r.Reader(), head); err != nil {
		r.t.Errorf("Verify = %v", err)
	}
	step, err := r.Reader().Step(r.t.Context(), headOf(r.head(events.Thread{Session: "elsewhere", Name: "older"})))
	if err != nil || step.Parent != states[2] {
		r.t.Errorf("parent of the older fork = %s, %v, want %s", step.Parent, err, states[2])
	}
	list, err := r.Sessions(r.t.Context(), "elsewhere")
	if err != nil || len(list) != 1 || list[0].Parent != "s0" {
		r.t.Errorf("Sessions(elsewhere) = %+v, %v, want parent s0", list, err)
	}
}

// TestForkWhileTheSourceRuns forks a thread again and again while it is appended to.
func TestForkWhileTheSourceRuns(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = 40 })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 20)
	r.await(thread(0), "p", 20)
	const forks, entries = 8, 600
	var wg sync.WaitGroup
	wg.Go(func() { r.publish(pub, thread(0), 20, entries) })
	for i := range forks {
		to := events.Thread{Session: "s0", Name: fmt.Sprintf("f%d", i)}
		if i%2 == 1 {
			to.Session = fmt.Sprintf("other%d", i)
		}
		if err := r.Thread(to).Fork(t.Context(), events.Fork{Session: "s0", Thread: "main", Index: int64(2*i + 1)}); err != nil {
			t.Errorf("Fork(%s) = %v", to, err)
			continue
		}
		head := r.head(to)
		must.Is(t, threads.Verify(t.Context(), r.Reader(), head), nil, "Verify(%s)", to)
		if head.N != int64(2*i+1) {
			t.Errorf("%s: item %d, want %d", to, head.N, 2*i+1)
		}
	}
	wg.Wait()
	r.await(thread(0), "p", entries)
	r.check(thread(0), entries)
}

// TestTail: what a transcript holds behind its last complete line is in its export for as long as nothing follows (SPEC X1).
func TestTail(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	a, b := node("a", ""), node("b", "a")
	r.say(thread(0), "omp", a)
	tail := func(seq uint64, tl events.Tail) {
		t.Helper()
		p := r.Publisher(client.PublisherConfig{Producer: "tail"})
		must.Do(t, p.Control(context.Background(), thread(0), seq, events.Control{Op: events.OpTail, Tail: &tl}))
		r.await(thread(0), "tail", seq)
	}
	for i, tt := range []struct {
		tail events.Tail
		want string
	}{
		{events.Tail{Open: true}, a}, {events.Tail{Bytes: []byte("{\"typ\xff")}, a + "\n{\"typ\xff"}, {events.Tail{}, a + "\n"},
	} {
		tail(uint64(i+1), tt.tail)
		must.Same(t, r.export(thread(0)), tt.want, "export with tail %+v = %q, want %q", tt.tail)
	}
	tail(9, events.Tail{Open: true})
	r.say(thread(0), "omp", b)
	must.Same(t, r.export(thread(0)), a+"\n"+b+"\n", "export after the file grew = %q, want %q")
	r.verify(thread(0))
}

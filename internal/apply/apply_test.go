package apply

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// script makes the events of one producer in a thread.
type script struct {
	thread   events.Thread
	producer string
	seq      uint64
}

func in(session, thread, producer string) *script {
	return &script{thread: events.Thread{Session: session, Name: thread}, producer: producer}
}

func (s *script) event(kind events.Kind, dialect string, body []byte) events.Event {
	s.seq++
	return events.Event{
		Producer: s.producer, Seq: s.seq, Kind: kind, Thread: s.thread, Dialect: dialect, Time: 1_790_000_000_000 + int64(s.seq)*1000,
		User: "u", Body: body,
	}
}

func (s *script) omp(id, parent, text string) events.Event {
	up := ""
	if parent != "" {
		up = fmt.Sprintf(`,"parentId":%q`, parent)
	}
	return s.event(events.KindEntry, "omp", fmt.Appendf(nil,
		`{"type":"message","id":%q%s,"message":{"role":"user","content":[{"type":"text","text":%q}]}}`, id, up, text))
}

func (s *script) step(text string, refs ...string) events.Event {
	more := ""
	if len(refs) > 0 {
		more = `,"refs":["` + strings.Join(refs, `","`) + `"]`
	}
	return s.event(events.KindEntry, "step", fmt.Appendf(nil, `{"id":%q,"role":"coder","content":%q%s}`, text, text, more))
}

func (s *script) item(it events.Item) events.Event {
	return s.event(events.KindEntry, "item", it.JSON())
}

func (s *script) control(c events.Control) events.Event {
	return s.event(events.KindControl, "", c.Encode())
}

func (s *script) chunk(c events.Chunk) events.Event { return s.event(events.KindChunk, "", c.Encode()) }

// everything is events of every kind and operation, those that are refused too.
func everything() (all []events.Event) {
	add := func(evs ...events.Event) { all = append(all, evs...) }
	a := in("s1", "main", "a")
	image := `{"type":"message","id":"img","message":{"role":"user","content":[{"type":"image","data":"` +
		strings.Repeat("QUJD", 500) + `"}]}}`
	blob := casstore.SumBlob([]byte("nobody stored it")).String()
	add(a.omp("e1", "", "one"), a.omp("e2", "e1", "two"), a.omp("e3", "e1", "beside two"),
		a.event(events.KindEntry, "omp", []byte(image)),
		a.event(events.KindEntry, "omp", fmt.Appendf(nil, `{"type":"custom","id":"c1","data":{"content":[{"type":"image","data":%q}]}}`, blob)),
		a.event(events.KindEntry, "omp", []byte(`{"no json`)), a.event(events.KindEntry, "nobody", []byte(`{}`)))
	long := a.omp("e4", "e3", strings.Repeat("x", 600_000))
	add(long, long) // the second is a repetition
	linked := a.omp("e5", "e4", "linked to what was never stored")
	linked.Seq, linked.Prev = 99, 98
	add(linked)
	add(a.control(events.Control{Op: events.OpLabel, Label: &events.Label{Target: "e1", Label: "first"}}),
		a.control(events.Control{Op: events.OpLabel, Label: &events.Label{Target: "none", Label: "x"}}),
		a.control(events.Control{Op: events.OpSummary, Summary: &events.Summary{Entry: "e1", Summary: "so far"}}),
		a.control(events.Control{Op: events.OpAppend, Append: &events.Append{Entry: []byte(`{"type":"custom","customType":"t","data":{}}`)}}),
		a.control(events.Control{Op: events.OpAppend,
			Append: &events.Append{Entry: []byte(`{"type":"custom","customType":"t"}`), Leaf: new("e2")}}),
		a.control(events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: "e2"}}),
		a.control(events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: "gone"}}),
		a.control(events.Control{Op: events.OpReset, Reset: &events.Reset{}}), a.omp("e6", "", "a new root"),
		a.control(events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "all of it", FirstKept: "e6"}}),
		a.control(events.Control{Op: events.OpTail, Tail: &events.Tail{Bytes: []byte(`{"half`)}}),
		a.control(events.Control{Op: events.OpName, Name: &events.Name{Title: "Mine"}}),
		a.control(events.Control{Op: events.OpName, Name: &events.Name{Title: "made up", Auto: true}}),
		a.control(events.Control{Op: events.OpName, Name: &events.Name{Title: "\n"}}),
		a.control(events.Control{Op: events.OpMove, Move: &events.Move{Cwd: "/w"}}),
		a.control(events.Control{Op: events.OpMove, Move: &events.Move{}}))

	w := in("s1", "two", "w")
	add(w.control(events.Control{Op: events.OpStart, Start: &events.Start{Name: "flow", Prompt: "do it"}}), w.step("w1"),
		w.control(events.Control{Op: events.OpStart, Start: &events.Start{Name: "again"}}),
		w.step("w2", casstore.NodeRef([32]byte{1}).String()), w.step("w3", casstore.SumBlob([]byte("no")).String()),
		w.control(events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "so far"}}),
		w.control(events.Control{Op: events.OpReopen, Reopen: &events.Reopen{}}),
		w.control(events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "running", Lease: 60_000}}),
		w.control(events.Control{Op: events.OpRename, Rename: &events.Rename{To: "three"}}), // refused: a run is live
		w.control(events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "completed"}}),
		w.control(events.Control{Op: events.OpRun, Run: &events.Run{ID: "r", State: "running"}}),
		w.control(events.Control{Op: events.OpRename, Rename: &events.Rename{To: "three"}}), w.step("w4"))
	f := in("s1", "forked", "f")
	add(f.control(events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s1", Thread: "three"}}), f.step("f1"))
	g := in("s2", "main", "g")
	add(g.control(events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s1", Thread: "main", Whole: true}}),
		g.control(events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s1", Thread: "none"}}))

	p := in("s3", "main", "p")
	prompt := events.Prompt{ID: "q", Kind: events.PromptApproval, Text: "Deploy?"}
	add(p.item(prompt.Item()),
		p.control(events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q", Answer: []byte("true")}}),
		p.control(events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q", Answer: []byte("false")}}),
		p.control(events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "nobody asked"}}),
		p.item(events.ToolResult("call", false, []byte(`"`+strings.Repeat("long ", 400)+`"`))))
	add(p.chunk(events.Chunk{Op: events.ChunkStart, Output: "o", Start: events.OutputStart{Tool: "sh", Head: 100}}),
		p.chunk(events.Chunk{Op: events.ChunkData, Output: "o", Seq: 1, Stream: events.Stdout, Data: []byte("line\n")}),
		p.chunk(events.Chunk{Op: events.ChunkData, Output: "o", Seq: 1, Stream: events.Stdout, Data: []byte("line\n")}),
		p.chunk(events.Chunk{Op: events.ChunkData, Output: "o", Seq: 3, Stream: events.Stdout, Data: []byte("too early")}),
		p.chunk(events.Chunk{Op: events.ChunkData, Output: "o", Seq: 2, Stream: events.Stderr,
			Data: bytes.Repeat([]byte("more\x1b[1m\n"), 20_000)}),
		p.chunk(events.Chunk{Op: events.ChunkEnd, Output: "o", Seq: 3, End: events.OutputEnd{ExitCode: 1}}),
		p.chunk(events.Chunk{Op: events.ChunkAbort, Output: "o", Seq: 4, Reason: "late"}),
		p.chunk(events.Chunk{Op: events.ChunkStart, Output: "k", Start: events.OutputStart{Tool: "sh"}}),
		p.control(events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}), p.item(prompt.Item()),
		p.chunk(events.Chunk{Op: events.ChunkAbort, Output: "k", Seq: 1, Reason: "the thread has ended"}),
		p.control(events.Control{Op: events.OpRemove, Remove: &events.Remove{}}), p.item(prompt.Item()))
	add(f.control(events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}}),
		f.control(events.Control{Op: events.OpDelete, Delete: &events.Delete{}}), a.omp("e9", "", "a new life"))
	return all
}

// Every kind of event decides over values: twice the same, nothing done where a read fails, nothing changed that the
// caller sees. The verdicts are those of the script.
func TestEvent(t *testing.T) {
	m, room, fates := newMemory(t), &Room{}, map[Fate]int{}
	for _, ev := range everything() {
		fates[m.step(room, ev).Is]++
	}
	if fates[Applied] < 40 || fates[Repeated] < 3 || fates[Superseded] < 1 || fates[Dead] < 10 {
		t.Errorf("verdicts = %v, want some of each", fates)
	}
	for key, th := range m.threads {
		if len(th.Head.Recent) == 0 {
			continue
		}
		must.Is(t, threads.Verify(t.Context(), m.Reader(), th.Head), nil, "Verify(%s)", key)
	}
}

// The same in any order, of which most events are refused.
func TestEventInAnyOrder(t *testing.T) {
	all := everything()
	rapid.Check(t, func(r *rapid.T) {
		m, room := newMemory(t), &Room{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 30).Draw(r, "order") {
			m.step(room, all[i])
		}
	})
}

// A result that is refused leaves the output open as it was: its abort closes it.
func TestRefusedEndLeavesTheOutputOpen(t *testing.T) {
	m, room, s := newMemory(t), &Room{}, in("s1", "main", "p")
	m.step(room, s.chunk(events.Chunk{Op: events.ChunkStart, Output: "o", Start: events.OutputStart{Tool: "sh"}}))
	m.step(room, s.chunk(events.Chunk{Op: events.ChunkData, Output: "o", Seq: 1, Stream: events.Stdout,
		Data: bytes.Repeat([]byte("x\n"), 40_000)}))
	end := s.chunk(events.Chunk{Op: events.ChunkEnd, Output: "o", Seq: 2})
	st := m.state(&Staged{Event: end, Chunk: events.Chunk{Output: "o"}})
	m.stored = append(m.stored, end)
	e := Staged{Event: end, At: uint64(len(m.stored))}
	e.Bad = Stage(&e)
	st.CounterBad = fmt.Errorf("%w: the counter", record.ErrValue)
	before := look(st)
	c, v, err := Event(t.Context(), m, st, e)
	if err != nil || v.Is != Dead || !errors.Is(v.Why, record.ErrValue) || c.Output != nil {
		t.Fatalf("Event() = %+v, %v, %v, want a refusal", c, v, err)
	}
	if got := look(st); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", before) {
		t.Errorf("after a refused end the state is\n%+v\nwas\n%+v", got, before)
	}
	m.take(st, &e, c)
	if v := m.step(room, s.chunk(events.Chunk{Op: events.ChunkAbort, Output: "o", Seq: 2,
		Reason: "lease"})); v.Is != Applied || m.outputs[events.OutputKey("s1", "o")].Open {
		t.Errorf("the abort = %v, want it applied", v)
	}
}

// TestEarlierMapping: an entry that is applied again as an earlier version of its mapping read it is read so again.
func TestEarlierMapping(t *testing.T) {
	m, s := newMemory(t), &script{}
	command := `{"type":"user","message":{"role":"user","content":` +
		`"<command-name>/do</command-name><command-args>it</command-args>"}}`
	for mapping, want := range map[int]int{0: 1, 2: 1, 1: 0} {
		e := Staged{Event: s.event(events.KindEntry, "claude", []byte(command)), At: 1, Mapping: mapping}
		must.Do(t, Stage(&e))
		c, v, err := Event(t.Context(), m, m.state(&e), e)
		if err != nil || v.Is != Applied {
			t.Fatalf("Event() = %v, %v", v, err)
		}
		if len(c.Items) != want {
			t.Errorf("mapping %d: a command makes %d items, want %d", mapping, len(c.Items), want)
		}
	}
}

// TestSessionInOneCommit: a subagent that comes in the commit with which its session begins says no more of the session than one that comes
// later, although there is no record yet.
func TestSessionInOneCommit(t *testing.T) {
	m, s := newMemory(t), &script{}
	for i, said := range []string{"the leak", "look for it"} {
		e := Staged{Event: s.event(events.KindEntry, "claude", []byte(`{"type":"user","uuid":"u`+said[:3]+`","cwd":"/`+said[:3]+
			`","message":{"role":"user","content":"`+said+`"}}`)), At: uint64(i + 1)}
		e.Thread = events.Thread{Session: "s1", Name: []string{events.MainThread, "agent-1"}[i]}
		must.Do(t, Stage(&e))
		st := m.state(&e)
		c, v, err := Event(t.Context(), m, st, e)
		if err != nil || v.Is != Applied {
			t.Fatalf("Event() = %v, %v", v, err)
		}
		m.take(st, &e, c)
		st.Session.Stored = false // as before the commit
	}
	info := m.sessions["s1"].Info
	must.Same(t, info.Prompt+" in "+info.Cwd, "the leak in /the", "the session is %q, want %q")
}

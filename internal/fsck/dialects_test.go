package fsck_test

import (
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// An earlier version let a note take the thread of a session: its head had the note's dialect, and context, tree and file were
// nowhere until its agent's next entry. A repair gives it back to its agent, and its forks; threads of notes alone stay as they are.
func TestDialectOfANote(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	main, notes := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "notes", Name: "main"}
	n := uint64(0)
	say := func(to events.Thread, dialect string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			n++
			must.Do(t, must.Get(w.cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(ctx,
				client.Entry{Thread: to, Dialect: dialect, Body: []byte(line), Seq: n}))(t).Applied(ctx))
		}
	}
	entry := func(id, parent string) string {
		return `{"type":"message","id":"` + id + `","parentId":` + parent +
			`,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"` + id + `"}}`
	}
	const note = `{"content":[{"type":"text","text":"a note"}]}`
	say(main, "omp", `{"type":"session","version":3,"id":"s","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/w"}`,
		entry("a", "null"), entry("b", `"a"`))
	say(main, "item", note)
	say(notes, "item", note, note)
	w.steps(events.Thread{Session: "flow", Name: "main"}, 1, 4)
	context := func() string {
		t.Helper()
		return string(must.Get(client.New(w.conn).Thread(main).Context(ctx, sessions.Last, nil))(t).JSON())
	}
	said := context()
	w.wantClean()
	w.stop()

	taken := must.Get(w.cl.Thread(main).Head(ctx))(t)
	taken.Dialect, taken.Leaf = "item", ""
	w.put(events.HeadKey(main), taken.Encode())
	rs := must.Get(w.conn.Records().Records(ctx, events.SessionKey("s")))(t)
	info := must.Get(sessions.DecodeInfo(rs[0].Value))(t)
	info.Harness = "item"
	w.put(events.SessionKey("s"), info.Encode())
	_, err := client.New(w.conn).Thread(main).Context(ctx, sessions.Last, nil)
	must.Is(t, err, client.ErrNoContext, "Context of a thread that a note has taken")
	if found := w.check().Findings; len(found) != 1 || found[0].Kind != fsck.Inconsistent || !strings.Contains(found[0].Detail, "omp") {
		t.Errorf("findings = %v, want one of the dialect", found)
	}

	if done, ok := w.fix(main, fsck.Config{}); !ok || done.To == "" || done.Lost != 0 {
		t.Errorf("repair = %+v, %v, want one that loses nothing", done, ok)
	}
	w.wantClean()
	must.Same(t, context(), said, "context behind the repair = %s, want %s")
	rs = must.Get(w.conn.Records().Records(ctx, events.SessionKey("s")))(t)
	must.Same(t, must.Get(sessions.DecodeInfo(rs[0].Value))(t).Harness, "omp", "harness of the session = %q, want %q")
	must.Same(t, must.Get(w.cl.Thread(notes).Head(ctx))(t).Dialect, "item", "dialect of notes = %q, want %q")
	w.start()
	must.Get(w.cl.Thread(main).Label(ctx, "b", "here"))(t)
	say(main, "omp", strings.Replace(entry("c", ""), `"parentId":,`, "", 1))
	tree := must.Get(w.cl.Thread(main).Tree(ctx))(t)
	if c, err := tree.Entry("c"); err != nil || tree.Label("b") != "here" || c.Parent == "" {
		t.Errorf("entry behind the repair = %+v, %v, want it under the label of b", c, err)
	}
	head := must.Get(w.cl.Thread(main).Head(ctx))(t)
	must.Do(t, threads.Verify(ctx, w.cl.Reader(), head))
}

package fsck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// TestRecordOfASession: the record of a session that is gone is made again, as its entries and operations made it: whatever its threads are
// called now, and when their heads are gone with it.
func TestRecordOfASession(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		for _, headless := range []bool{false, true} {
			t.Run(fmt.Sprintf("renamed %v, heads lost %v", renamed, headless), func(t *testing.T) {
				t.Parallel()
				recordOfASession(t, renamed, headless)
			})
		}
	}
}

func recordOfASession(t *testing.T, renamed, headless bool) {
	w := newWorld(t)
	ctx := t.Context()
	main := events.Thread{Session: "s", Name: events.MainThread}
	p := w.cl.Publisher(client.PublisherConfig{Producer: "agent", User: "mira", Host: "box"})
	for i, line := range []string{
		`{"type":"session","version":3,"id":"s","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/w"}`,
		`{"type":"message","id":"1","timestamp":"2026-11-01T10:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"Fix the build"}]}}`,
		`{"type":"message","id":"2","parentId":"1","timestamp":"2026-11-01T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Done"}]}}`,
	} {
		must.Get(p.Publish(ctx, client.Entry{Thread: main, Dialect: "omp", Body: []byte(line), Seq: uint64(i + 1)}))(t)
	}
	must.Do(t, w.cl.Thread(main).Settled(ctx))
	must.Do(t, w.conn.Events().PublishEvents(ctx, []*events.Event{{
		Thread: main, Producer: "file", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Host: "box",
		File: "pi:sessions/--w--/1_s.jsonl",
		Body: []byte(`{"type":"message","id":"3","parentId":"2","timestamp":"2026-11-01T10:00:03.000Z"}`),
	}}))
	must.Do(t, w.cl.Thread(events.Thread{Session: "s", Name: "side"}).Start(ctx, events.Start{Prompt: "Look"}))
	if !renamed { // else it would be taken for the main one
		must.Get(p.Publish(ctx, client.Entry{Thread: events.Thread{Session: "s", Name: "earlier"}, Dialect: "omp", Seq: 9,
			Body: []byte(`{"type":"message","id":"e","timestamp":"2026-10-31T10:00:01.000Z","message":{"role":"user","content":"Look"}}`)}))(t)
	}
	must.Do(t, w.cl.Session("s").Name(ctx, "The build", false))
	must.Do(t, w.cl.Session("s").Move(ctx, "/elsewhere"))
	fork := events.Thread{Session: "s2", Name: events.MainThread}
	if renamed {
		must.Do(t, w.cl.Session("s").Name(ctx, "The building", false))
		must.Do(t, w.cl.Thread(fork).Fork(ctx, events.Fork{Session: "s", Thread: main.Name, Whole: true}))
		must.Do(t, w.cl.Thread(main).Rename(ctx, "first"))
		must.Do(t, w.cl.Session("s").Move(ctx, "/w3"))
	} else {
		must.Do(t, w.cl.Thread(fork).Fork(ctx, events.Fork{Session: "s", Thread: main.Name, Whole: true}))
	}
	w.settle()
	w.stop()
	w.wantClean()
	read := func(session string) (info sessions.Info) {
		return must.Get(sessions.DecodeInfo(must.Get(w.conn.Records().Records(ctx, events.SessionKey(session)))(w)[0].Value))(w)
	}
	for _, session := range []string{"s", "s2"} {
		was, key := read(session), events.SessionKey(session)
		w.drop(key)
		if headless {
			for _, th := range must.Get(w.cl.Session(session).Threads(ctx))(w) {
				w.drop(events.HeadKey(th.Thread))
			}
		} else if f := w.found(key); len(f) != 1 || f[0].Kind != fsck.Missing {
			t.Fatalf("findings = %v, want that the record is missing", f)
		}
		rep := must.Get(fsck.Fix(ctx, natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
		w.start()
		w.settle()
		w.stop()
		if w.wantClean(); t.Failed() {
			t.Logf("repairs %+v", rep.Repairs)
		}
		now := read(session)
		if session == "s2" {
			now.Cwd = was.Cwd // of a fork, that of its source as it is now
		}
		if renamed && headless {
			now.File = was.File // its entries come again under a name that is not the main thread's
		}
		if d := cmp.Diff(was, now); d != "" {
			t.Errorf("%s differs (-was +now):\n%s", session, d)
		}
	}
}

// drop removes a record.
func (w *world) drop(key string) {
	w.Helper()
	rs := must.Get(w.conn.Records().Records(w.Context(), key))(w)
	must.Get(w.conn.Records().Write(w.Context(), record.Put{Key: key, Expect: rs[0].Seq}))(w)
}

// Where the nodes are gone too, the record is told as not repaired, and other sessions' are.
func TestRecordOfASessionThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	lost := events.Thread{Session: "lost", Name: events.MainThread}
	w.steps(lost, 1, 3)
	w.settle()
	w.stop()
	nodes := must.Get(w.conn.JetStream().Stream(t.Context(), "OBJ_"+events.NodesBucket))(t)
	must.Do(t, nodes.Purge(t.Context()))
	stored := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, stored.Purge(t.Context()))
	w.put(events.SessionKey("lost"), nil)
	rep := must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	told := slices.ContainsFunc(rep.Repairs, func(r fsck.Repair) bool { return r.Record == events.SessionKey("lost") && r.To == "" })
	if !told {
		t.Errorf("repairs %+v, want that the record is not repaired", rep.Repairs)
	}
}

// A thread that was renamed, and one that came back to its name, are made again from what SPOOL_EVENTS has under all their names.
func TestRepairOfRenamedThreads(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b, c := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}, events.Thread{Session: "s", Name: "c"}
	w.steps(a, 1, 3)
	must.Do(t, w.cl.Thread(a).Rename(ctx, "b"))
	w.steps(b, 3, 5)
	w.steps(c, 1, 3)
	must.Do(t, w.cl.Thread(c).Rename(ctx, "d"))
	d := events.Thread{Session: "s", Name: "d"}
	w.steps(d, 3, 4)
	must.Do(t, w.cl.Thread(d).Rename(ctx, "c"))
	w.steps(c, 4, 6)
	w.settle()
	w.stop()
	export := func(id events.Thread) string {
		var out strings.Builder
		must.Get(client.New(w.conn).Thread(id).Export(ctx, &out))(t)
		return out.String()
	}
	want := map[events.Thread]string{b: export(b), c: export(c)}
	nodes := must.Get(w.conn.JetStream().Stream(ctx, "OBJ_"+events.NodesBucket))(t)
	must.Do(t, nodes.Purge(ctx))
	rep := must.Get(fsck.Fix(ctx, natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	for id, was := range want {
		if got := export(id); got != was {
			t.Errorf("%s = %q, want %q; repairs %+v", id, got, was, rep.Repairs)
		}
	}
	w.wantClean()
}

// A rename that was sent again took the thread from its name once.
func TestRepairOfRenamesThatCameAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	rename := func(from events.Thread, seq uint64, to string) {
		e := entryOf(from, "", seq, 0, "")
		e.Producer, e.Kind, e.Dialect = "op", events.KindControl, ""
		e.Body = []byte(`{"op":"rename","rename":{"to":"` + to + `"}}`)
		w.raw(e)
		w.settle()
	}
	w.steps(a, 1, 3)
	rename(a, 1, "b")
	rename(a, 1, "b")
	w.steps(b, 3, 5)
	rename(b, 2, "a")
	rename(a, 1, "b")
	w.steps(a, 5, 7)
	w.settle()
	w.stop()
	export := func() string {
		var out strings.Builder
		must.Get(client.New(w.conn).Thread(a).Export(ctx, &out))(t)
		return out.String()
	}
	want := export()
	nodes := must.Get(w.conn.JetStream().Stream(ctx, "OBJ_"+events.NodesBucket))(t)
	must.Do(t, nodes.Purge(ctx))
	rep := must.Get(fsck.Fix(ctx, natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	if done := rep.Repairs; len(done) != 1 || done[0].To == "" {
		t.Errorf("repairs = %+v, want one", done)
	}
	w.wantClean()
	must.Same(t, export(), want, "%s = %q, want %q", a)
}

// A removal that was sent again removed the thread once: what is linked to it, behind that, is in the one that has the name now.
func TestRepairBehindARemovalThatCameAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a := events.Thread{Session: "s", Name: "a"}
	remove := entryOf(a, "", 3, 0, "")
	remove.Kind, remove.Dialect, remove.Body = events.KindControl, "", []byte(`{"op":"remove","remove":{}}`)
	w.raw(entryOf(a, "p", 2, 0, "first"))
	remove.Producer = "p"
	w.raw(remove)
	w.raw(entryOf(a, "p", 4, 0, "second"))
	w.raw(remove)
	w.raw(entryOf(a, "p", 5, 3, "third"))
	w.settle()
	w.stop()
	export := func() string {
		var out strings.Builder
		must.Get(client.New(w.conn).Thread(a).Export(ctx, &out))(t)
		return out.String()
	}
	want := export()
	if n := strings.Count(want, "\n"); n != 2 {
		t.Fatalf("%s = %q, want two entries", a, want)
	}
	nodes := must.Get(w.conn.JetStream().Stream(ctx, "OBJ_"+events.NodesBucket))(t)
	must.Do(t, nodes.Purge(ctx))
	must.Get(fsck.Fix(ctx, natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	w.wantClean()
	must.Same(t, export(), want, "%s = %q, want %q", a)
}

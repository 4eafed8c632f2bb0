package client_test

import (
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// A session is named and moved under its id: its record, its header and what is exported say so. A title that was made
// up, by a caller or by an entry, replaces none that the user gave.
func TestNameSession(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Do(t, r.NewSession(ctx, "s", "/w", ""))
	main := events.Thread{Session: "s", Name: events.MainThread}
	says := func(session, title, source, cwd string) {
		t.Helper()
		row := must.Get(r.Sessions(ctx, session))(t)[0]
		h := must.Get(r.Tree(ctx, events.Thread{Session: session, Name: events.MainThread}))(t).Header()
		var b strings.Builder
		must.Get(r.Export(ctx, events.Thread{Session: session, Name: events.MainThread}, &b))(t)
		file := must.Get(sessions.Load([]byte(b.String())))(t).Header
		if row.Title != title || h.Title != title || h.TitleSource != source || file != h || row.Cwd != cwd || h.Cwd != cwd {
			t.Errorf("%s is %q in %s; its header says %+v, its file %+v; want %q by %s in %s", session, row.Title,
				row.Cwd, h, file, title, source, cwd)
		}
	}
	says("s", "", "", "/w")
	must.Do(t, r.NameSession(ctx, "s", "  made\x1b up ", true))
	says("s", "made up", "auto", "/w")
	must.Do(t, r.NameSession(ctx, "s", "Mine", false))
	must.Is(t, r.NameSession(ctx, "s", "made up again", true), client.ErrTitled, "an automatic title after the user's")
	says("s", "Mine", "user", "/w")
	for _, source := range []string{"", `,"source":"auto"`} {
		p := r.Publisher(client.PublisherConfig{})
		body := []byte(`{"type":"title_change","title":"Entry's"` + source + `}`)
		must.Do(t, p.Publish(ctx, client.Entry{Thread: main, Dialect: "omp", Body: body}))
		must.Do(t, r.Await(ctx, main, p.Producer(), 0, 1))
		says("s", "Mine", "user", "/w")
	}
	put := func() artifacts.Record {
		t.Helper()
		return must.Get(r.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("bytes")))(t)
	}
	before, agent := put(), must.Get(r.AgentID(ctx, "s", "", "Review"))(t)
	must.Do(t, r.MoveSession(ctx, "s", "/elsewhere"))
	says("s", "Mine", "user", "/elsewhere")
	if after := put(); before.Seq != "0" || after.Seq != "1" {
		t.Errorf("artifacts before and behind the move have the numbers %s and %s, want 0 and 1", before.Seq, after.Seq)
	}
	if next := must.Get(r.AgentID(ctx, "s", "", "Review"))(t); agent != "0-Review" || next != "1-Review" {
		t.Errorf("agents before and behind the move are %s and %s, want 0-Review and 1-Review", agent, next)
	}
	got := must.Get(r.Resolve(ctx, "s", "artifact://0", artifacts.Lines{}))(t)
	if b := must.Get(io.ReadAll(got.Body))(t); string(b) != "bytes" {
		t.Errorf("behind the move artifact://0 is %q", b)
	}
	must.Do(t, got.Body.Close())

	must.Do(t, r.ForkSession(ctx, "s", "fork", client.SessionFork{}))
	says("fork", "Mine", "user", "/elsewhere")
	must.Do(t, r.NameSession(ctx, "fork", "Its own", false))
	says("fork", "Its own", "user", "/elsewhere")
	says("s", "Mine", "user", "/elsewhere")

	must.Do(t, r.End(ctx, main, events.End{}))
	must.Do(t, r.NameSession(ctx, "s", "Done", false))
	says("s", "Done", "user", "/elsewhere")
	if head := must.Get(r.Thread(ctx, main))(t); head.Status != threads.StatusCompleted {
		t.Errorf("a named thread is %s, want %s", head.Status, threads.StatusCompleted)
	}
}

// Any thread of a session carries its name; what has none is refused, and nothing is published.
func TestNameSessionRefused(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	side := events.Thread{Session: "s", Name: "side"}
	must.Do(t, r.StartThread(ctx, side, events.Start{Name: "x"}))
	must.Do(t, r.NameSession(ctx, "s", "Side", false))
	if got := must.Get(r.Sessions(ctx, "s"))(t)[0].Title; got != "Side" {
		t.Errorf("title %q, want that which its only thread carried", got)
	}
	long := strings.Repeat("x", 5000)
	for name, tt := range map[string]struct{ got, want error }{
		"no title":     {r.NameSession(ctx, "s", " \n\t ", false), events.ErrControl},
		"a long title": {r.NameSession(ctx, "s", long, false), events.ErrControl},
		"no directory": {r.MoveSession(ctx, "s", ""), events.ErrControl},
		"no session":   {r.NameSession(ctx, "none", "x", false), threads.ErrNoThread},
		"a bad id":     {r.MoveSession(ctx, "a b", "/w"), events.ErrToken},
	} {
		must.Is(t, tt.got, tt.want, "%s", name)
	}
	if letters := must.Get(r.DeadLetters(ctx, ""))(t); len(letters) > 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}

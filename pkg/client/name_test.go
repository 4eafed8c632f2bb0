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
	must.Do(t, r.Session("s").New(ctx, "/w", ""))
	main := events.Thread{Session: "s", Name: events.MainThread}
	says := func(session, title, source, cwd string) {
		t.Helper()
		row := must.Get(r.Sessions(ctx, session))(t)[0]
		h := must.Get(r.Thread(events.Thread{Session: session, Name: events.MainThread}).Tree(ctx))(t).Header()
		var b strings.Builder
		must.Get(r.Thread(events.Thread{Session: session, Name: events.MainThread}).Export(ctx, &b))(t)
		file := must.Get(sessions.Load([]byte(b.String())))(t).Header
		if row.Title != title || h.Title != title || h.TitleSource != source || file != h || row.Cwd != cwd || h.Cwd != cwd {
			t.Errorf("%s is %q in %s; its header says %+v, its file %+v; want %q by %s in %s", session, row.Title,
				row.Cwd, h, file, title, source, cwd)
		}
	}
	says("s", "", "", "/w")
	must.Do(t, r.Session("s").Name(ctx, "  made\x1b up ", true))
	says("s", "made up", "auto", "/w")
	must.Do(t, r.Session("s").Name(ctx, "Mine", false))
	must.Is(t, r.Session("s").Name(ctx, "made up again", true), client.ErrTitled, "an automatic title after the user's")
	says("s", "Mine", "user", "/w")
	for _, source := range []string{"", `,"source":"auto"`} {
		p := r.Publisher(client.PublisherConfig{})
		body := []byte(`{"type":"title_change","title":"Entry's"` + source + `}`)
		must.Do(t, must.Get(p.Publish(ctx, client.Entry{Thread: main, Dialect: "omp", Body: body}))(t).Applied(ctx))
		says("s", "Mine", "user", "/w")
	}
	put := func() artifacts.Record {
		t.Helper()
		return must.Get(r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("bytes")))(t)
	}
	before, agent := put(), must.Get(r.Session("s").TakeAgentID(ctx, "", "Review"))(t)
	must.Do(t, r.Session("s").Move(ctx, "/elsewhere"))
	says("s", "Mine", "user", "/elsewhere")
	if after := put(); before.Seq != "0" || after.Seq != "1" {
		t.Errorf("artifacts before and behind the move have the numbers %s and %s, want 0 and 1", before.Seq, after.Seq)
	}
	if next := must.Get(r.Session("s").TakeAgentID(ctx, "", "Review"))(t); agent != "0-Review" || next != "1-Review" {
		t.Errorf("agents before and behind the move are %s and %s, want 0-Review and 1-Review", agent, next)
	}
	got := must.Get(r.Session("s").Resolve(ctx, "artifact://0", artifacts.Lines{}))(t)
	if b := must.Get(io.ReadAll(got.Body))(t); string(b) != "bytes" {
		t.Errorf("behind the move artifact://0 is %q", b)
	}
	must.Do(t, got.Body.Close())

	must.Do(t, r.Session("s").Fork(ctx, "fork", client.SessionFork{}))
	says("fork", "Mine", "user", "/elsewhere")
	must.Do(t, r.Session("fork").Name(ctx, "Its own", false))
	says("fork", "Its own", "user", "/elsewhere")
	says("s", "Mine", "user", "/elsewhere")

	must.Do(t, r.Thread(main).End(ctx, events.End{}))
	must.Do(t, r.Session("s").Name(ctx, "Done", false))
	says("s", "Done", "user", "/elsewhere")
	if head := must.Get(r.Thread(main).Head(ctx))(t); head.Status != threads.StatusCompleted {
		t.Errorf("a named thread is %s, want %s", head.Status, threads.StatusCompleted)
	}
}

// Any thread of a session carries its name; what has none is refused, and nothing is published.
func TestNameSessionRefused(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	side := events.Thread{Session: "s", Name: "side"}
	must.Do(t, r.Thread(side).Start(ctx, events.Start{Name: "x"}))
	must.Do(t, r.Session("s").Name(ctx, "Side", false))
	if got := must.Get(r.Sessions(ctx, "s"))(t)[0].Title; got != "Side" {
		t.Errorf("title %q, want that which its only thread carried", got)
	}
	long := strings.Repeat("x", 5000)
	for name, tt := range map[string]struct{ got, want error }{
		"no title":     {r.Session("s").Name(ctx, " \n\t ", false), events.ErrControl},
		"a long title": {r.Session("s").Name(ctx, long, false), events.ErrControl},
		"no directory": {r.Session("s").Move(ctx, ""), events.ErrControl},
		"no session":   {r.Session("none").Name(ctx, "x", false), threads.ErrNoThread},
		"a bad id":     {r.Session("a b").Move(ctx, "/w"), events.ErrToken},
	} {
		must.Is(t, tt.got, tt.want, "%s", name)
	}
	if letters := must.Get(r.EverySession().DeadLetters(ctx))(t); len(letters) > 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}

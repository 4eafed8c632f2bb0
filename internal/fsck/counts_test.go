package fsck_test

import (
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// A session whose record counts fewer or more threads than it has, ended ones too, is named, and a repair has it count them: a page that
// has read as many heads as the record counts looks for no others.
func TestCountOfThreads(t *testing.T) {
	w := newWorld(t)
	main, sub := events.Thread{Session: "s", Name: events.MainThread}, events.Thread{Session: "s", Name: "sub"}
	w.steps(main, 1, 3)
	w.steps(sub, 1, 3)
	must.Do(t, w.cl.Thread(sub).End(t.Context(), events.End{}))
	w.steps(events.Thread{Session: "other", Name: events.MainThread}, 1, 3)
	w.settle()
	w.stop()
	w.wantClean()
	key := events.SessionKey("s")
	read := func() sessions.Info {
		return must.Get(sessions.DecodeInfo(must.Get(w.conn.Records().Records(t.Context(), key))(t)[0].Value))(t)
	}
	was := read()
	must.Same(t, was.Threads, 2, "the record counts %d threads, want %d")
	for _, wrong := range []int64{1, 5} {
		info := was
		info.Threads = wrong
		w.put(key, info.Encode())
		found := w.check().Findings
		if len(found) != 1 || found[0].Kind != fsck.Inconsistent || found[0].Record != key {
			t.Errorf("findings of a count of %d = %v, want one of %s", wrong, found, key)
		}
		rep := must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(t)
		if len(rep.Repairs) != 1 || rep.Repairs[0].Record != key {
			t.Errorf("repairs of a count of %d = %+v, want one of %s", wrong, rep.Repairs, key)
		}
		must.Same(t, read(), was, "the record is %+v, want %+v")
		w.wantClean()
	}
	page := must.Get(client.New(w.conn).SessionPage(t.Context(), client.SessionQuery{
		Query: sessions.Query{Unanswered: true, Limit: 5}, Prefix: "s",
	}))(t)
	must.Same(t, len(page.Sessions[0].Threads), 2, "the page has %d threads, want %d")
}

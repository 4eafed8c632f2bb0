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

// A session whose record cannot be read, and is made again, counts the threads and producers that there are: another thread is one more. A
// page shows all of them.
func TestUnreadableSessionCounts(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{events.MainThread, "sub"} {
		w.steps(events.Thread{Session: "s", Name: name}, 1, 3)
	}
	w.settle()
	w.stop()
	key := events.SessionKey("s")
	w.put(key, []byte("{"))
	must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(t)
	w.start()
	w.steps(events.Thread{Session: "s", Name: "third"}, 1, 3)
	w.settle()
	w.stop()
	info := must.Get(sessions.DecodeInfo(must.Get(w.conn.Records().Records(t.Context(), key))(t)[0].Value))(t)
	must.Same(t, info.Threads, 3, "the record counts %d threads, want %d")
	page := must.Get(client.New(w.conn).SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}}))(t)
	must.Same(t, len(page.Sessions[0].Threads), 3, "the page has %d threads, want %d")
	w.wantClean()
}

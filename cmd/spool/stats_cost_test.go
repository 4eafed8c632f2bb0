package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/events"
)

// Figures are of what the index has: spool stats asks for the heads of those sessions alone that moved since it was asked before, however
// many others there are.
func TestStatsCost(t *testing.T) {
	s, conn := plain(t)
	const n = 1500
	manySessions(t, conn, n, 0)
	for i := range n {
		th := events.Thread{Session: fmt.Sprintf("s%06d", i), Name: events.MainThread}
		kind := events.TypeTurnEnd
		if i == 7 {
			kind = events.TypeText
		}
		item := fmt.Sprintf(`{"session":%q,"thread":"main","n":5,"content":[{"type":"text","text":"done"}],"metadata":{"type":%q,`+
			`"stats":{"input_tokens":2}}}`, th.Session, kind)
		must.Get(conn.JetStream().PublishAsync(events.ItemSubject(th, kind, ""), []byte(item)))(t)
	}
	<-conn.JetStream().PublishAsyncComplete()
	data := t.TempDir()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	figures := func() string {
		out, code := spool(t, "stats", "--data", data, "--nats", s.ClientURL())
		if want := fmt.Sprintf("/srv/mill %d %d 2.9k", n, n-1); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Fatalf("spool stats = %d: %s, want %q", code, out, want)
		}
		return out
	}
	figures() // which reads the items
	counts := watchRequests(t, conn)
	for range 2 {
		figures()
		if got := counts(); got.requests > 100 || got.consumers > 5 {
			t.Errorf("spool stats of %d sessions, of which one moved, asks %+v", n, got)
		}
		moved := mainHead("s000009", time.Hour)
		must.Get(conn.Records().Write(t.Context(), moved))(t)
		counts()
	}
}

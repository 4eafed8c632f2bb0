package main

import (
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// ask stores what the users of so many sessions asked for, many in a millisecond.
func ask(t *testing.T, conn *natsio.Conn, n int) {
	t.Helper()
	for i := range n {
		th := events.Thread{Session: fmt.Sprintf("s%06d", i), Name: events.MainThread}
		item := fmt.Sprintf(`{"session":%q,"thread":"main","n":1,"content":[{"type":"text","text":"mend mill %d"}]}`, th.Session, i)
		must.Get(conn.JetStream().PublishAsync(events.ItemSubject(th, events.TypeMessage, ""), []byte(item)))(t)
	}
	<-conn.JetStream().PublishAsyncComplete()
}

// The newest prompts cost what they are, also who asks for the first time: not what all sessions ever asked for. They are those of a history
// that has everything.
func TestRecentCost(t *testing.T) {
	for _, n := range []int{200, 4000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s, conn := plain(t)
			manySessions(t, conn, n, 0)
			ask(t, conn, n)
			data := t.TempDir()
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			recent := func() string {
				out, code := spool(t, "history", "recent", "--limit", "5", "--json", "--data", data, "--nats", s.ClientURL())
				must.Same(t, code, 0, "%s: spool history recent = %d, want %d", out)
				return out
			}
			counts := watchRequests(t, conn)
			first := recent()
			if got := counts(); got.requests > 1000 {
				t.Errorf("the 5 newest prompts of %d ask %+v, want some hundred requests", n, got)
			}
			out, code := spool(t, "history", "rebuild", "--data", data, "--nats", s.ClientURL())
			must.Same(t, code, 0, "%s: spool history rebuild = %d, want %d", out)
			must.Same(t, first, recent(), "the newest prompts are\n%s, want\n%s")
		})
	}
}

package httpapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestEntryReadsNothing: an entry for a thread that nobody has met costs the store one message, its own. One for a
// thread that ended before the HTTP side began, or beside it, is refused.
func TestEntryReadsNothing(t *testing.T) {
	server := natstest.Server(t)
	conn, far := natstest.Dial(t, server), natstest.Dial(t, server)
	must.Do(t, far.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(far, service.PersisterConfig{}, nil).Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl := client.New(far)
	before, beside := events.Thread{Session: "s", Name: "before"}, events.Thread{Session: "s", Name: "beside"}
	renamed := events.Thread{Session: "s", Name: "renamed"}
	for _, th := range []events.Thread{before, beside, renamed} {
		say(ctx, t, cl, th, "hello")
	}
	must.Do(t, cl.Thread(before).End(ctx, events.End{}))
	must.Do(t, cl.Thread(renamed).Rename(ctx, "other"))

	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(srv.Close)
	post := func(session, thread string) int {
		status, _, _ := do(t, srv.URL, request{kind: "application/json", body: "1",
			path: "/v1/sessions/" + session + "/threads/" + thread + "/entries?dialect=raw"})
		return status
	}
	sent := func() uint64 { return conn.JetStream().Conn().Stats().OutMsgs }
	for i, cost := 0, uint64(0); cost != 1; i++ { // until it follows the records
		was := sent()
		if status := post(fmt.Sprint("new-", i), "main"); status != 202 {
			t.Fatalf("entry = %d, want 202", status)
		}
		if cost = sent() - was; ctx.Err() != nil {
			t.Fatalf("an entry costs %d messages, want 1", cost)
		}
	}
	for _, th := range []events.Thread{before, renamed} {
		must.Same(t, post(th.Session, th.Name), 409, "entry for %s = %d, want %d", th)
	}
	must.Do(t, cl.Thread(beside).End(ctx, events.End{}))
	for status := 0; status != 409; { // until it has heard
		if status = post(beside.Session, beside.Name); ctx.Err() != nil {
			t.Fatalf("entry for %s = %d, want 409", beside, status)
		}
	}
}

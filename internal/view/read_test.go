package view_test

import (
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/view"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// A page asks for the runs and prompts of those sessions alone that have some: no consumer is made for each of the others.
func TestPageOfSessionsThatDoNotWork(t *testing.T) {
	conn := natstest.Conn(t)
	now, n := time.Now().UnixMilli(), 60
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	for i := range n {
		h := threads.Head{Updated: now}
		key := events.HeadKey(events.Thread{Session: name(i), Name: events.MainThread})
		puts := []record.Put{{Key: key, Value: h.Encode(), Expect: record.Any}}
		if i == 7 {
			run := record.Run{ID: "r", Status: artifacts.RunRunning, Lease: time.Minute.Milliseconds()}
			puts = append(puts, record.Put{Key: events.RunKey(name(i), "r"), Value: run.Encode(), Expect: record.Any})
		}
		must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
	}
	made := must.Get(conn.JetStream().Conn().SubscribeSync("$JS.API.CONSUMER.CREATE.>"))(t)
	reader := view.NewReader(client.New(conn))
	list, _, err := reader.Page(t.Context(), client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: n}}, "")
	must.Do(t, err)
	must.Same(t, len(list), n, "a page has %d sessions, want %d")
	for _, s := range list {
		want := view.Idle
		if s.ID == name(7) {
			want = view.Running
		}
		must.Same(t, s.View.State, want, s.ID+" is %s, want %s")
	}
	must.Do(t, conn.JetStream().Conn().Flush())
	if consumers, _, _ := made.Pending(); consumers > 10 {
		t.Errorf("a page of %d sessions, of which one has a run, makes %d consumers", n, consumers)
	}
}

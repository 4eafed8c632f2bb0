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

// Whoever waits for an answer, or has a run, is listed and counted wherever it is in the store: a page of few records finds it.
func TestStatesOfOldSessions(t *testing.T) {
	conn := natstest.Conn(t)
	const n, long = 2000, time.Hour
	th := func(i int) events.Thread {
		return events.Thread{Session: fmt.Sprintf("s%d", i), Name: events.MainThread}
	}
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	prompt := record.Prompt{Prompt: events.Prompt{ID: "p", Kind: "approval", Text: "Deploy?"}, Dialect: "item"}
	run := record.Run{ID: "r", Thread: events.MainThread, Status: artifacts.RunRunning, Lease: long.Milliseconds()}
	puts := []record.Put{
		{Key: events.PromptKey(th(2), "p"), Value: prompt.Encode(), Expect: record.Any},
		{Key: events.PromptKey(th(3), "p"), Value: prompt.Encode(), Expect: record.Any},
		{Key: events.RunKey("s4", "r"), Value: run.Encode(), Expect: record.Any},
	}
	for i := range n {
		h := threads.Head{Updated: time.Now().Add(-long).UnixMilli() + int64(i)}
		if i == n-1 {
			h.Updated, h.Standing = time.Now().UnixMilli(), uint8(sessions.StatusPending)
		}
		puts = append(puts, record.Put{Key: events.HeadKey(th(i)), Value: h.Encode(), Expect: record.Any})
		if len(puts) >= 300 || i == n-1 {
			must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
			puts = nil
		}
	}
	reader := view.NewReader(client.New(conn))
	q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}, Most: 300}
	counts := must.Get(reader.Count(t.Context(), q))(t)
	if !counts.More || counts.States[view.Waiting] != 2 || counts.States[view.Running] != 2 {
		t.Errorf("Count of %d records = %+v, want two that wait and two that run, and more", q.Most, counts)
	}
	for state, want := range map[string][]string{view.Waiting: {"s3", "s2"}, view.Running: {fmt.Sprint("s", n-1), "s4"}} {
		var got []string
		for q := q; ; {
			list, at, err := reader.Page(t.Context(), q, state)
			must.Do(t, err)
			for _, s := range list {
				must.Same(t, s.View.State, state, s.ID+" is %s, want %s")
				got = append(got, s.ID)
			}
			if q.After = at.Next; q.After == "" || len(list) == 0 {
				break
			}
		}
		must.SameAll(t, got, want, state+": %v, want %v")
	}
}

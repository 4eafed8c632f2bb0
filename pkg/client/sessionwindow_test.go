package client_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Of sessions of which a page has read the records and all heads on its way back, nothing is asked for once more: neither where it passes
// over them nor where it shows them.
func TestPageAsksForNothingThatItRead(t *testing.T) {
	conn := natstest.Conn(t)
	const n = 3000
	writeSessions(t, conn, n)
	cl := client.New(conn)
	for _, q := range []client.SessionQuery{
		{Query: sessions.Query{Unanswered: true, Limit: 1}, Keep: func(client.Session) bool { return false }},
		{Query: sessions.Query{Cwd: "/nowhere", Limit: 1}},
		{Query: sessions.Query{Limit: 50}},
	} {
		cost := readBy(conn, func() { must.Get(cl.SessionPage(t.Context(), q))(t) })
		t.Logf("%+v: %+v", q.Query, cost)
		if cost.requests > 150 {
			t.Errorf("a page of %+v took %+v, want no request for each session", q.Query, cost)
		}
	}
}

// A page tells of threads whose heads were stored long before those that it read, and of sessions that keep no count of their threads.
func TestPageOfThreadsBelow(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	const n = 700
	var puts []record.Put
	when := time.Now().UnixMilli() - 1_000_000
	key := func(i int, name string) string {
		return events.HeadKey(events.Thread{Session: sessionName(i), Name: name})
	}
	for i := range n {
		puts = append(puts, headAt(key(i, "sub"), i, when))
	}
	for i := range n {
		info := sessions.Info{ID: sessionName(i), Answered: true, Threads: []int64{0, 2, 1}[i%3]} // it counts from when the record was made
		if i%3 == 2 {
			puts[i].Key = events.SessionKey(info.ID)
			puts[i].Value = sessions.Info{ID: info.ID, Answered: true, Threads: 1}.Encode()
		} else {
			puts = append(puts, record.Put{Key: events.SessionKey(info.ID), Value: info.Encode(), Expect: record.Any})
		}
		puts = append(puts, headAt(key(i, events.MainThread), i, when+int64(i)*1000))
	}
	store(t, conn, puts...)
	all := map[string]client.Session{}
	for _, s := range must.Get(cl.Sessions(t.Context(), ""))(t) {
		all[s.ID] = s
	}
	client.SetBlockHeads(t, 1)
	q := client.SessionQuery{Query: sessions.Query{Limit: 20}}
	for {
		page := must.Get(cl.SessionPage(t.Context(), q))(t)
		for _, s := range page.Sessions {
			if diff := cmp.Diff(all[s.ID], s); diff != "" {
				t.Fatalf("%s on a page (-in the listing +there):\n%s", s.ID, diff)
			}
			delete(all, s.ID)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	must.Same(t, len(all), 0, "%d sessions are on no page, want %d")
}

// A session that loses a thread while a page is read is on it with those that it keeps.
func TestPageWhileAThreadGoes(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	thread := func(session, name string) string { return events.HeadKey(events.Thread{Session: session, Name: name}) }
	info := func(session string, threads int64) record.Put {
		return record.Put{Key: events.SessionKey(session), Value: sessions.Info{ID: session, Answered: true, Threads: threads}.Encode(),
			Expect: record.Any}
	}
	now := time.Now().UnixMilli() - 1_000_000
	store(t, conn, info("s", 2), headAt(thread("s", events.MainThread), 1, now), headAt(thread("s", "sub"), 1, now+1),
		info("first", 1), headAt(thread("first", events.MainThread), 2, now+2))
	gone := false
	page := must.Get(cl.SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Limit: 5}, Keep: func(client.Session) bool {
		if !gone {
			gone = true
			store(t, conn, info("s", 1), record.Put{Key: thread("s", "sub"), Expect: record.Any})
		}
		return true
	}}))(t)
	must.Same(t, len(page.Sessions), 2, "a page has %d sessions, want %d")
	for _, s := range page.Sessions {
		must.Same(t, len(s.Threads), 1, s.ID+" has %d threads, want %d")
		must.Same(t, s.Threads[0].Name, events.MainThread, s.ID+" has the thread %s, want %s")
	}
}

// A session that is being deleted in several parts is on no page, though its records were read.
func TestPageOfWhatIsBeingDeleted(t *testing.T) {
	conn := natstest.Conn(t)
	writeSessions(t, conn, 3)
	store(t, conn, record.Put{Key: events.DeletingKey(sessionName(1)), Value: []byte("{}"), Expect: record.Any})
	page := must.Get(client.New(conn).SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Limit: 5}}))(t)
	must.Same(t, len(page.Sessions), 2, "a page has %d sessions, want %d")
}

// Of what was stored since the first page a later one keeps no more than a bound, of those that are not newer than it: a session whose
// record was stored anew without an entry. All that stays where it is comes once.
func TestPagesBehindAFlood(t *testing.T) {
	client.SetMostSince(t, 5)
	conn := natstest.Conn(t)
	cl := client.New(conn)
	const n = 120
	key := func(i int) string {
		return events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread})
	}
	began := time.Now().UnixMilli() - 1_000_000
	var puts []record.Put
	for i := range n {
		puts = append(puts, headAt(key(i), i, began+int64(i)*1000))
	}
	store(t, conn, puts...)
	first := true
	seen := map[string]int{}
	for _, id := range pages(t, cl, client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 20}}, func() {
		if first {
			store(t, conn, puts[:60]...)
		}
		first = false
	}) {
		seen[id]++
	}
	again := 0
	for i := range n {
		times := seen[sessionName(i)]
		if times > 1 || i >= 60 && times != 1 {
			t.Errorf("session %d comes %d times", i, times)
		}
		if i < 60 {
			again += times
		}
	}
	// Each page keeps those that were stored last, and goes on behind what it shows of them.
	if again < 5 || again > 30 {
		t.Errorf("%d of the 60 sessions that were stored anew come, want some", again)
	}
	must.Same(t, len(pages(t, cl, client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 50}}, func() {})), n,
		"a list that begins anew has %d sessions, want %d")
}

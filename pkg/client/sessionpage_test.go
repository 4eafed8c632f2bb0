package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// pages reads sessions page by page. between is called after each page.
func pages(t *testing.T, cl *client.Client, q client.SessionQuery, between func()) (ids []string) {
	t.Helper()
	for {
		page := must.Get(cl.SessionPage(t.Context(), q))(t)
		for _, s := range page.Sessions {
			ids = append(ids, s.ID)
		}
		if len(page.Sessions) > q.Limit {
			t.Fatalf("a page has %d sessions, want %d at most", len(page.Sessions), q.Limit)
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
		between()
	}
}

// listedIDs is what a listing that reads everything gives.
func listedIDs(t *testing.T, cl *client.Client, q sessions.Query, keep func(client.Session) bool) (ids []string) {
	t.Helper()
	var rows []sessions.Row
	for _, s := range must.Get(cl.Sessions(t.Context(), ""))(t) {
		if keep == nil || keep(s) {
			rows = append(rows, s.Row())
		}
	}
	for _, r := range sessions.List(rows, q) {
		ids = append(ids, r.ID)
	}
	return ids
}

// store writes records as they are, as many at a time as a commit takes.
func store(t *testing.T, conn *natsio.Conn, puts ...record.Put) {
	t.Helper()
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	for some := range slices.Chunk(puts, record.MaxCommit) {
		must.Get(conn.Records().Commit(t.Context(), fence, some))(t)
	}
}

func headAt(key string, i int, updated int64) record.Put {
	h := sampleHead(i)
	h.Updated = updated
	return record.Put{Key: key, Value: h.Encode(), Expect: record.Any}
}

// Pages have together what a listing of everything has, in its order: whatever the times of the entries and of their records have to do
// with each other, whichever thread has the newest entry, ended or former.
func TestPagesAreTheListing(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			conn, rnd := natstest.Conn(t), rand.New(rand.NewPCG(seed, 1))
			cl := client.New(conn)
			const n = 150
			var puts []record.Put
			at := func(i int) int64 {
				switch now := time.Now().UnixMilli(); seed % 3 {
				case 0:
					return now - int64(rnd.IntN(1000))*1000 // in no order
				case 1:
					return now - int64(i)*1000 // the oldest last
				default:
					return now
				}
			}
			for i := range n {
				id := sessionName(i)
				cwd := fmt.Sprintf("/srv/%d", i%3)
				info := sessions.Info{ID: id, Cwd: cwd, Answered: i%5 > 0, Threads: int64(1 + rnd.IntN(3))}
				puts = append(puts, record.Put{Key: events.SessionKey(id), Value: info.Encode()})
				for k := range info.Threads {
					name := fmt.Sprintf("sub-%d", k)
					if k == 0 {
						name = events.MainThread
					}
					key := events.HeadKey(events.Thread{Session: id, Name: name})
					switch rnd.IntN(4) {
					case 0:
						key = events.HistoryKey("2026-11-20", events.Thread{Session: id, Name: name})
					case 1:
						key = events.HeadKey(events.Thread{Session: id, Name: "main-was-" + name})
					}
					puts = append(puts, headAt(key, i, at(i)))
				}
			}
			rnd.Shuffle(len(puts), func(i, j int) { puts[i], puts[j] = puts[j], puts[i] })
			store(t, conn, puts...)
			for _, q := range []client.SessionQuery{
				{Query: sessions.Query{Unanswered: true, Limit: 7}},
				{Query: sessions.Query{Limit: 40}},
				{Query: sessions.Query{Cwd: "/srv/1", Limit: 3}},
				{Query: sessions.Query{Unanswered: true, Limit: 1000}},
				{Query: sessions.Query{Unanswered: true, Limit: 4}, Prefix: "019AA0D2-1780-7F03-B6C1-00000000012"},
				{Query: sessions.Query{Unanswered: true, Limit: 9}, Keep: func(s client.Session) bool { return s.Created == 0 && len(s.Threads) > 1 }},
			} {
				all := q.Query
				all.Limit = 0
				want := listedIDs(t, cl, all, func(s client.Session) bool {
					return (q.Prefix == "" || s.ID[:35] == sessionName(120)[:35]) && (q.Keep == nil || q.Keep(s))
				})
				if got := pages(t, cl, q, func() {}); !slices.Equal(got, want) {
					t.Errorf("pages of %+v are\n%v, want\n%v", q.Query, got, want)
				}
				// Of pages that look at few records, it is all sessions, each once; in what order is for entries as old as their records.
				q.Most = 1
				got := pages(t, cl, q, func() {})
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("pages of %+v of few records have\n%v, want\n%v", q.Query, got, want)
				}
			}
		})
	}
}

// A session that moves between two pages goes to the front. All the others come, each once, also those whose records were written anew
// without a new entry.
func TestPagesOfWhatMoves(t *testing.T) {
	t.Run("", func(t *testing.T) { pagesOfWhatMoves(t, 0) })
	t.Run("of few records", func(t *testing.T) { pagesOfWhatMoves(t, 1) })
}

func pagesOfWhatMoves(t *testing.T, most int) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	began := time.Now().UnixMilli() - 1_000_000
	key := func(i int) string {
		return events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread})
	}
	const n = 300
	var puts []record.Put
	for i := range n {
		puts = append(puts, headAt(key(i), i, began+int64(i)*1000))
	}
	store(t, conn, puts...)
	moved, rnd := map[string]bool{}, rand.New(rand.NewPCG(1, 2))
	got := pages(t, cl, client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 20}, Most: most}, func() {
		i := rnd.IntN(n)
		moved[sessionName(i)] = true
		again := rnd.IntN(n) // with the entries that it has
		if moved[sessionName(again)] {
			again = i
		}
		store(t, conn, headAt(key(again), again, began+int64(again)*1000))
		store(t, conn, headAt(key(i), i, time.Now().UnixMilli()))
	})
	seen := map[string]int{}
	for _, id := range got {
		seen[id]++
	}
	for i := range n {
		id := sessionName(i)
		if seen[id] > 1 || seen[id] == 0 && !moved[id] {
			t.Errorf("%s comes %d times, want once; it moved: %v", id, seen[id], moved[id])
		}
	}
}

// What moves while a page is read is on it.
func TestPageWhileSessionsMove(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	key := func(i int) string {
		return events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread})
	}
	const n = 50
	for i := range n {
		store(t, conn, headAt(key(i), i, time.Now().UnixMilli()))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			h := threads.Head{Updated: time.Now().UnixMilli()}
			put := record.Put{Key: key(i % n), Value: h.Encode(), Expect: record.Any}
			if _, err := conn.Records().Write(ctx, put); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
	}()
	for range 20 {
		page := must.Get(cl.SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: n}}))(t)
		must.Same(t, len(page.Sessions), n, "a page has %d sessions, want %d")
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPageFromNowhere(t *testing.T) {
	cl := client.New(natstest.Conn(t))
	q := client.SessionQuery{Query: sessions.Query{Limit: 1}}
	page := must.Get(cl.SessionPage(t.Context(), q))(t)
	must.Same(t, len(page.Sessions)+len(page.Next), 0, "a page of nothing has %d, want %d")
	q.After = "no"
	if _, err := cl.SessionPage(t.Context(), q); !errors.Is(err, client.ErrPlace) {
		t.Errorf("a page after nothing: %v, want %v", err, client.ErrPlace)
	}
}

// read is what a call has from a server.
type read struct{ messages, bytes, requests uint64 }

func readBy(conn *natsio.Conn, f func()) read {
	nc := conn.JetStream().Conn()
	before := nc.Stats()
	f()
	after := nc.Stats()
	return read{after.InMsgs - before.InMsgs, after.InBytes - before.InBytes, after.OutMsgs - before.OutMsgs}
}

// A page costs what it shows, whatever else the store holds: the first one, and those behind it.
func TestPageCost(t *testing.T) {
	cost := map[int]read{}
	sizes := []int{1000, 20_000}
	for _, n := range sizes {
		conn := natstest.Conn(t)
		for from := 0; from < n; from += 20 {
			var puts []record.Put
			for i := from; i < from+20; i++ {
				info := sessions.Info{ID: sessionName(i), Harness: "claude", Cwd: "/srv/mill", Answered: true, Threads: 1}
				puts = append(puts, record.Put{Key: events.SessionKey(info.ID), Value: info.Encode()},
					headAt(events.HeadKey(events.Thread{Session: info.ID, Name: events.MainThread}), i, time.Now().UnixMilli()))
			}
			store(t, conn, puts...)
		}
		cl := client.New(conn)
		q := client.SessionQuery{Query: sessions.Query{Limit: 20}}
		cost[n] = readBy(conn, func() {
			for range 5 {
				page := must.Get(cl.SessionPage(t.Context(), q))(t)
				must.Same(t, len(page.Sessions), q.Limit, "a page has %d sessions, want %d")
				q.After = page.Next
			}
		})
	}
	few, many := cost[sizes[0]], cost[sizes[1]]
	t.Logf("five pages of %d sessions: %+v; of %d: %+v", sizes[0], few, sizes[1], many)
	if 2*many.messages > 3*few.messages || 2*many.bytes > 3*few.bytes || 2*many.requests > 3*few.requests {
		t.Errorf("five pages of %d sessions read %+v; of %d %+v: want no more than half as much again", sizes[0], few, sizes[1], many)
	}
}

// Whoever may see few sessions has their pages without that the others are read: none of those is asked for, and no next page tells of them.
func TestPagesOfFew(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	var puts []record.Put
	began := time.Now().UnixMilli() - 1_000_000
	for i := range 400 {
		puts = append(puts, headAt(events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread}), i, began+int64(i)*1000))
	}
	store(t, conn, puts...)
	only := func(id string) bool { return id == sessionName(3) || id == sessionName(200) }
	q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}, Only: only, Keep: func(s client.Session) bool {
		if !only(s.ID) {
			t.Errorf("%s was read", s.ID)
		}
		return true
	}}
	for _, want := range []string{sessionName(200), sessionName(3)} {
		page := must.Get(cl.SessionPage(t.Context(), q))(t)
		if len(page.Sessions) != 1 || page.Sessions[0].ID != want {
			t.Fatalf("page = %+v, want %s", page, want)
		}
		q.After = page.Next
	}
	must.Same(t, q.After, "", "next page behind the last one = %q, want %q")
}

// Where all that a page found moves while it is read, and does not belong to the list any more, others are on the page.
func TestPageOfWhatMovesOut(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	key := func(id string) string {
		return events.HeadKey(events.Thread{Session: id, Name: events.MainThread})
	}
	const n = 10
	began := time.Now().UnixMilli() - n*1000
	for i := range n {
		store(t, conn, headAt(key(sessionName(i)), i, began+int64(i)*1000))
	}
	out := map[string]bool{}
	page := must.Get(cl.SessionPage(t.Context(), client.SessionQuery{
		Query: sessions.Query{Unanswered: true, Limit: 1},
		Keep: func(s client.Session) bool {
			if was := out[s.ID]; was || len(out) == 2 {
				return !was
			}
			out[s.ID] = true
			store(t, conn, headAt(key(s.ID), n, time.Now().UnixMilli()))
			return true
		},
	}))(t)
	if len(page.Sessions) != 1 || page.Sessions[0].ID != sessionName(n-3) || page.Next == "" {
		t.Errorf("page = %+v, want %s, and more", page, sessionName(n-3))
	}
}

// A session is found by all of its id with as few requests as there are keys of its own; by the beginning of its id, without the server
// being asked for the names of all subjects where there are many: it takes longer for those than a request may.
func TestBeginningCost(t *testing.T) {
	conn := natstest.Conn(t)
	writeSessions(t, conn, 2000)
	const most = 50_000 // records, of which the names are asked for
	var puts []record.Put
	for i := range most {
		puts = append(puts, record.Put{Key: fmt.Sprintf("counter.%d", i), Value: []byte("1"), Expect: record.Any})
	}
	store(t, conn, puts...)
	listings := must.Get(conn.JetStream().Conn().SubscribeSync("$JS.API.STREAM.INFO." + events.RecordsStream))(t)
	cl := client.New(conn)
	begins := func(prefix string, want int) read {
		return readBy(conn, func() {
			found := must.Get(cl.Internal().SessionsBeginning(t.Context(), prefix))(t)
			must.Same(t, len(found), want, prefix+": %d sessions, want %d")
		})
	}
	if cost := begins(sessionName(7), 1); cost.messages > 20 || cost.bytes > 20_000 {
		t.Errorf("to find a session by its id took %+v", cost)
	}
	begins(sessionName(7)[:len(sessionName(7))-1], 10)
	begins("019AA0D2-1780-7f03-b6c1-00000000199", 10)
	begins("019aa0d2-1780-7f03-b6c1-9", 0)
	for _, none := range []string{"", "*", "019a.x", ">"} {
		begins(none, 0)
	}
	for {
		m, err := listings.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if bytes.Contains(m.Data, []byte(".*.*")) {
			t.Errorf("the server is asked for the names of all: %s", m.Data)
		}
	}
}

// A query that passes over all sessions looks at as many records as it says, and its Next goes on to the end.
func TestPageOfFew(t *testing.T) {
	conn := natstest.Conn(t)
	const n = 20_000
	writeSessions(t, conn, n)
	cl := client.New(conn)
	q := client.SessionQuery{Query: sessions.Query{Cwd: "/nowhere", Limit: 20}, Most: 1000}
	var page client.SessionPage
	cost := readBy(conn, func() { page = must.Get(cl.SessionPage(t.Context(), q))(t) })
	if len(page.Sessions) != 0 || page.Next == "" || page.Back.IsZero() {
		t.Errorf("a page of none among the newest = %+v", page)
	}
	if cost.messages > 4000 {
		t.Errorf("to look at %d records took %+v", q.Most, cost)
	}
	must.Same(t, len(pages(t, cl, q, func() {})), 0, "%d sessions are found, want %d")
}

// Where most records were overwritten since, a page takes no more requests than there are records to read.
func TestPageBehindWhatIsGone(t *testing.T) {
	conn := natstest.Conn(t)
	writeSessions(t, conn, 100)
	const n = 300_000
	puts := make([]record.Put, n)
	for i := range puts {
		puts[i] = record.Put{Key: "counter.s", Value: []byte("1"), Expect: record.Any}
	}
	store(t, conn, puts...)
	cl := client.New(conn)
	cost := readBy(conn, func() {
		page := must.Get(cl.SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}}))(t)
		must.Same(t, len(page.Sessions), 1, "a page has %d sessions, want %d")
	})
	if cost.requests > 65 {
		t.Errorf("a page of a session behind %d sequences took %+v", n, cost)
	}
	t.Logf("%+v", cost)
}

// A page of few has all threads of a session, also where its record counts fewer: one that was made anew behind a loss, or by a version
// that did not count, counts from then on.
func TestPageOfASessionThatCountsAnew(t *testing.T) {
	for name, put := range map[string]record.Put{
		"lost": {}, "of a version that did not count": {Value: (&sessions.Info{ID: "s"}).Encode()},
	} {
		t.Run(name, func(t *testing.T) {
			conn := natstest.Conn(t)
			say := func(name string) { publishApplied(limited(t), t, conn, events.Thread{Session: "s", Name: name}) }
			say(events.MainThread)
			say("sub")
			put.Key, put.Expect = events.SessionKey("s"), record.Any
			puts := []record.Put{put}
			for i := range 300 { // behind these a page of few does not look
				puts = append(puts, record.Put{Key: fmt.Sprint("counter.other", i), Value: []byte("1")})
			}
			store(t, conn, puts...)
			say("third")
			q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}}
			page := must.Get(client.New(conn).SessionPage(t.Context(), q))(t)
			must.Same(t, len(page.Sessions), 1, "a page has %d sessions, want %d")
			must.Same(t, len(page.Sessions[0].Threads), 3, "its session has %d threads, want %d")
		})
	}
}

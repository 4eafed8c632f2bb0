package client_test

import (
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
)

// storedAt is where the newest head of each session is.
func storedAt(t *testing.T, conn *natsio.Conn) map[string]uint64 {
	t.Helper()
	at := map[string]uint64{}
	must.Get(conn.Records().Scan(t.Context(), 0, func(s record.Stamped) error {
		if id := events.SessionOf(s.Record.Key); id != "" && s.Record.Exists() && s.Record.Key != events.SessionKey(id) {
			at[id] = s.Record.Seq
		}
		return nil
	}))(t)
	return at
}

// oldHistory stores sessions whose entries are older than their records, in no order, and some of one time.
func oldHistory(t *testing.T, conn *natsio.Conn, rnd *rand.Rand, n int) {
	t.Helper()
	began := time.Now().UnixMilli() - 10_000_000
	var puts []record.Put
	for i := range n {
		info := sessions.Info{ID: sessionName(i), Threads: int64(1 + rnd.IntN(3)*rnd.IntN(2))}
		puts = append(puts, record.Put{Key: events.SessionKey(info.ID), Value: info.Encode(), Expect: record.Any})
		for k := range info.Threads {
			name := events.MainThread
			if k > 0 {
				name = fmt.Sprintf("sub-%d", k)
			}
			key := events.HeadKey(events.Thread{Session: sessionName(i), Name: name})
			if rnd.IntN(5) == 0 {
				key = events.HistoryKey("2026-11-20", events.Thread{Session: sessionName(i), Name: name})
			}
			puts = append(puts, headAt(key, i, began+int64(rnd.IntN(n/3))*1000))
		}
	}
	rnd.Shuffle(len(puts), func(i, j int) { puts[i], puts[j] = puts[j], puts[i] })
	store(t, conn, puts...)
}

// Where entries are older than their records, pages of small blocks have each session once. A block has what was stored last, in the order
// of the entries' times; all that is behind it was stored before.
func TestPagesOfBlocks(t *testing.T) {
	const n = 900
	for seed := range uint64(2) {
		conn, rnd := natstest.Conn(t), rand.New(rand.NewPCG(seed, 7))
		cl := client.New(conn)
		oldHistory(t, conn, rnd, n)
		at, rows := storedAt(t, conn), map[string]sessions.Row{}
		for _, s := range must.Get(cl.Sessions(t.Context(), ""))(t) {
			if len(s.Threads) == 1 { // another one can have its newest entry in a block below: it stands by those in its own
				rows[s.ID] = s.Row()
			}
		}
		all := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 50}}
		if got, want := pages(t, cl, all, func() {}), listedIDs(t, cl, sessions.Query{Unanswered: true}, nil); !slices.Equal(got, want) {
			t.Errorf("seed %d: pages of one block are not the listing", seed)
		}
		for _, block := range []int{1, 400} {
			client.SetBlockHeads(t, block)
			for _, limit := range []int{30, 400} {
				all.Limit = limit
				got := pages(t, cl, all, func() {})
				sorted := slices.Sorted(slices.Values(got))
				if len(got) != n || len(slices.Compact(sorted)) != n {
					t.Errorf("seed %d, blocks of %d, pages of %d: %d sessions, want each of %d once", seed, block, limit, len(got), n)
				}
				got = slices.DeleteFunc(got, func(id string) bool { return rows[id].ID == "" })
				inBlocks(t, got, rows, at, block)
			}
		}
		client.SetBlockHeads(t, 20_000)
	}
}

// inBlocks holds a list against the order of blocks.
func inBlocks(t *testing.T, list []string, rows map[string]sessions.Row, at map[string]uint64, block int) {
	t.Helper()
	blocks := 1
	for i := 1; i < len(list); i++ {
		own := rows[list[i]]
		if rows[list[i-1]].Compare(own) < 0 {
			continue
		}
		blocks++
		oldest, newest := ^uint64(0), uint64(0)
		for _, id := range list[:i] {
			oldest = min(oldest, at[id])
		}
		for _, id := range list[i:] {
			newest = max(newest, at[id])
		}
		if oldest <= newest {
			t.Fatalf("%s of %v stands behind %s of %v, and what was stored up to %d is behind what was stored at %d", own.ID, own.Modified,
				list[i-1], rows[list[i-1]].Modified, newest, oldest)
		}
	}
	if blocks > 2+2*len(list)*2/block {
		t.Errorf("%d times the order of times begins anew, with blocks of %d heads", blocks, block)
	}
}

// Of sessions that stay where they are, pages of blocks leave none out and have none twice, whatever else moves between the pages.
func TestPagesOfBlocksWhileSessionsMove(t *testing.T) {
	const n = 700
	for seed := range uint64(3) {
		client.SetBlockHeads(t, []int{1, 200, 20_000}[seed])
		conn, rnd := natstest.Conn(t), rand.New(rand.NewPCG(seed, 9))
		cl, moved := client.New(conn), map[string]bool{}
		oldHistory(t, conn, rnd, n)
		move := func() {
			i := rnd.IntN(n)
			moved[sessionName(i)] = true
			when := time.Now().UnixMilli()
			if rnd.IntN(2) == 0 {
				when -= int64(rnd.IntN(10_000_000)) // its record alone, or an old entry
			}
			store(t, conn, headAt(events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread}), i, when))
		}
		q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 40}, Keep: func(client.Session) bool {
			if rnd.IntN(300) == 0 {
				move() // while the page is read
			}
			return true
		}}
		seen := map[string]int{}
		for _, id := range pages(t, cl, q, move) {
			seen[id]++
		}
		for i := range n {
			if id := sessionName(i); !moved[id] && seen[id] != 1 {
				t.Errorf("seed %d: %s comes %d times, want once: it did not move", seed, id, seen[id])
			}
		}
	}
}

// A page of a flood of sessions whose entries all say one time costs what it shows, but for their heads: those come in a few requests. For
// the names of a session's threads the server is asked twice where its record does not count them.
func TestPageOfOneTime(t *testing.T) {
	conn := natstest.Conn(t)
	const n = 3000
	var puts []record.Put
	when := time.Now().UnixMilli() - 1_000_000
	for i := range n {
		puts = append(puts, headAt(events.HeadKey(events.Thread{Session: sessionName(i), Name: events.MainThread}), i, when))
	}
	store(t, conn, puts...)
	cl := client.New(conn)
	made := must.Get(conn.JetStream().Conn().SubscribeSync("$JS.API.CONSUMER.CREATE." + events.RecordsStream + ".>"))(t)
	named := must.Get(conn.JetStream().Conn().SubscribeSync("$JS.API.STREAM.INFO." + events.RecordsStream))(t)
	q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 50}}
	for range 3 {
		cost := readBy(conn, func() {
			page := must.Get(cl.SessionPage(t.Context(), q))(t)
			must.Same(t, len(page.Sessions), q.Limit, "a page has %d sessions, want %d")
			q.After = page.Next
		})
		if cost.requests > 400 {
			t.Errorf("a page of %d of %d sessions of one time took %+v", q.Limit, n, cost)
		}
	}
	must.Do(t, conn.JetStream().Conn().Flush())
	if windows, _, _ := made.Pending(); windows > 3*3 { // for each the server goes through all subjects
		t.Errorf("three pages of %d sessions take %d consumers", q.Limit, windows)
	}
	if asked, _, _ := named.Pending(); asked > 3*(2*(q.Limit+1)+10) {
		t.Errorf("three pages of %d sessions ask the server %d times about the bucket", q.Limit, asked)
	}
}

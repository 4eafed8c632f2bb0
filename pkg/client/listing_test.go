package client_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// manySessions is how many sessions the listing is tested with; SPOOL_LIST_SESSIONS=100000 measures it.
func manySessions(t *testing.T) (n int, measured bool) {
	s := os.Getenv("SPOOL_LIST_SESSIONS")
	if s == "" {
		return 300, false
	}
	n = must.Get(strconv.Atoi(s))(t)
	return n, true
}

// A listing reads records alone (SPEC S10), and 100,000 sessions of them in less than two seconds.
func TestListManySessions(t *testing.T) {
	conn := natstest.Conn(t)
	n, measured := manySessions(t)
	writeSessions(t, conn, n)
	cl := client.New(conn)
	best := time.Hour
	for range 3 {
		began := time.Now()
		list := must.Get(cl.Sessions(t.Context(), ""))(t)
		rows := make([]sessions.Row, len(list))
		for i, s := range list {
			rows[i] = s.Row()
		}
		rows = sessions.List(rows, sessions.Query{})
		best = min(best, time.Since(began))
		if len(rows) != n {
			t.Fatalf("%d sessions, want %d", len(rows), n)
		}
		for i, r := range rows { // each session is newer than the one before
			if want := sessionName(n - 1 - i); r.ID != want || r.Name() != "Prompt of "+want || r.Messages != 40 ||
				r.Status != sessions.StatusComplete {
				t.Fatalf("row %d = %+v, want %s", i, r, want)
			}
		}
	}
	if measured {
		t.Logf("%d sessions in %v, the best of three", n, best)
		if best > 2*time.Second {
			t.Errorf("listing %d sessions took %v, want less than 2 s", n, best)
		}
	}
}

func sessionName(i int) string { return fmt.Sprintf("019aa0d2-1780-7f03-b6c1-%012d", i) }

// writeSessions commits sessions of one thread each, with records as they are after a while.
func writeSessions(t *testing.T, conn *natsio.Conn, n int) {
	t.Helper()
	const batch = 400
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	for from := 0; from < n; from += batch {
		var puts []record.Put
		for i := from; i < min(from+batch, n); i++ {
			name := sessionName(i)
			info := sessions.Info{ID: name, Harness: "claude", Cwd: "/srv/mill", Model: "opus", Host: "laptop", Created: 1,
				Prompt: "Prompt of " + name, Answered: true, Threads: 1}
			puts = append(puts,
				record.Put{Key: events.SessionKey(name), Value: info.Encode()},
				record.Put{Key: events.HeadKey(events.Thread{Session: name, Name: events.MainThread}), Value: sampleHead(i).Encode()})
		}
		must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
	}
}

func sampleHead(i int) threads.Head {
	at := func(k int) casstore.Located {
		return casstore.Located{Ref: casstore.NodeRef([32]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(k)}),
			Pack: casstore.PackID{byte(i), byte(k)}}
	}
	h := threads.Head{
		Start: at(0), Producers: []threads.Producer{{ID: "~laptop:0123456789abcdef", Epoch: 1, Seq: 80, At: 4000}}, Applied: 4000,
		N: 80, Sent: 80, Entries: 50, Status: threads.StatusActive, Leaf: sessionName(i), Dialect: "claude", Memory: make([]byte, 60),
		Updated: 1795176000000 + int64(i), Created: 1795176000000, BytesIn: 100_000, Messages: 40, Standing: uint8(sessions.StatusComplete),
	}
	for k := range threads.MaxRecent {
		h.Recent = append(h.Recent, at(k+1))
	}
	return h
}

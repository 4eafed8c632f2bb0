package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// asked is what was asked of the server.
type asked struct {
	requests  int
	consumers int
	filters   int // that match several subjects
}

// watchRequests counts what is asked of the server from now on. What it returns counts anew with each call.
func watchRequests(t *testing.T, conn *natsio.Conn) func() asked {
	t.Helper()
	var mu sync.Mutex
	var n asked
	nc := conn.JetStream().Conn()
	seen := make(chan struct{}, 1)
	sub := must.Get(nc.Subscribe("$JS.API.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Subject == "$JS.API.counted":
			seen <- struct{}{}
			return
		case strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.CREATE"):
			n.consumers++
		case bytes.Contains(m.Data, []byte("*")):
			n.filters++
		}
		n.requests++
	}))(t)
	must.Do(t, sub.SetPendingLimits(-1, -1))
	return func() asked {
		must.Do(t, nc.Publish("$JS.API.counted", nil))
		<-seen
		mu.Lock()
		defer mu.Unlock()
		was := n
		n = asked{}
		return was
	}
}

// manySessions stores the records of sessions that have an active and an ended thread each. The first ones have runs.
func manySessions(t *testing.T, conn *natsio.Conn, n, live int) {
	t.Helper()
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	write := func(of func(i int, id string) []record.Put) {
		for from := 0; from < n; from += 300 {
			var puts []record.Put
			for i := from; i < min(from+300, n); i++ {
				puts = append(puts, of(i, fmt.Sprintf("s%06d", i))...)
			}
			must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
		}
	}
	write(func(i int, id string) []record.Put {
		h := threads.Head{Status: threads.StatusCompleted, N: 5, Updated: time.Now().UnixMilli(), Dialect: "claude"}
		puts := []record.Put{
			{Key: events.HistoryKey("2026-11-01", events.Thread{Session: id, Name: "sub"}), Value: h.Encode()},
			{Key: events.SessionKey(id), Value: sessions.Info{ID: id, Cwd: "/srv/mill", Answered: true, Threads: 2}.Encode()},
		}
		if i < live {
			run := record.Run{ID: "r", Thread: events.MainThread, Status: artifacts.RunRunning, Lease: time.Hour.Milliseconds()}
			puts = append(puts, record.Put{Key: events.RunKey(id, "r"), Value: run.Encode()})
		}
		return puts
	})
	write(func(_ int, id string) []record.Put { return []record.Put{mainHead(id, 0)} })
}

// mainHead is the head of a session's main thread.
func mainHead(id string, later time.Duration) record.Put {
	h := threads.Head{Status: threads.StatusActive, N: 5, Updated: time.Now().Add(later).UnixMilli(), Dialect: "claude"}
	return record.Put{Key: events.HeadKey(events.Thread{Session: id, Name: events.MainThread}), Value: h.Encode(), Expect: record.Any}
}

// A look asks for a screen full of sessions, whatever the store holds and however many others run, and the one behind it for those that
// changed and for as many more. What it shows is what there is.
func TestTopCost(t *testing.T) {
	for _, n := range []int{2000, 30_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			conn := natstest.Conn(t)
			manySessions(t, conn, n, 400)
			cl := client.New(conn)
			counts := watchRequests(t, conn)
			l := &lookout{conn: conn, client: cl, most: 1000, step: screenful}
			var f fleet
			look := func(what string) {
				f = must.Get(l.look(t.Context()))(t)
				got := counts()
				t.Logf("%s: %+v for %d sessions, %d runs", what, got, len(f.sessions), len(f.runs))
				if got.requests > 900 || got.consumers > 8 || got.filters > 250 {
					t.Errorf("%s asks %+v, want some hundred requests", what, got)
				}
			}
			look("the first look")
			for len(f.sessions) < 1000 {
				before := len(f.sessions)
				look("the next look")
				if len(f.sessions) <= before {
					t.Fatalf("%d sessions after %d", len(f.sessions), before)
				}
			}
			for range 10 {
				must.Get(l.look(t.Context()))(t)
			}
			counts()
			changed := []string{"s000700", fmt.Sprintf("s%06d", n-20)}
			for i, id := range changed {
				must.Get(conn.Records().Write(t.Context(), mainHead(id, time.Duration(i)*time.Second)))(t)
			}
			gone := fmt.Sprintf("s%06d", n-3)
			for _, key := range []string{events.HeadKey(events.Thread{Session: gone, Name: events.MainThread}),
				events.HistoryKey("2026-11-01", events.Thread{Session: gone, Name: "sub"}), events.SessionKey(gone)} {
				must.Get(conn.Records().Write(t.Context(), record.Put{Key: key, Expect: record.Any}))(t)
			}
			look("a look when all is known")
			var ids []string
			for _, s := range f.sessions {
				if s.runs == 0 {
					ids = append(ids, s.ID)
				}
			}
			must.Same(t, fmt.Sprint(ids[:2]), fmt.Sprint([]string{changed[1], changed[0]}), "the newest are %s, want %s")
			if slices.Contains(ids, gone) {
				t.Errorf("%s is shown, which is removed", gone)
			}
		})
	}
}

// One look for so many rows reads no more of them.
func TestTopOnceCost(t *testing.T) {
	conn := natstest.Conn(t)
	manySessions(t, conn, 3000, 0)
	counts := watchRequests(t, conn)
	l := (&topCmd{Once: true, Limit: 20}).lookout(conn)
	f := must.Get(l.look(t.Context()))(t)
	got := counts()
	t.Logf("%+v", got)
	must.Same(t, len(f.sessions), 20, "%d sessions, want %d")
	if got.requests > 300 || got.filters > 100 {
		t.Errorf("a look at 20 sessions asks %+v", got)
	}
}

// A look for one row (spool top --json --limit 1) has a row as long as there is a session.
func TestTopOfOneRow(t *testing.T) {
	conn := natstest.Conn(t)
	manySessions(t, conn, 3, 0)
	l := (&topCmd{JSON: true, Limit: 1}).lookout(conn)
	look := func() (ids []string) {
		for _, s := range must.Get(l.look(t.Context()))(t).sessions {
			ids = append(ids, s.ID)
		}
		return ids
	}
	must.Same(t, len(look()), 1, "%d rows, want %d")
	other := "s000000"
	must.Get(conn.Records().Write(t.Context(), mainHead(other, time.Second)))(t)
	must.Same(t, len(look()), 1, "%d rows behind a change, want %d")
	for _, key := range []string{events.HeadKey(events.Thread{Session: other, Name: events.MainThread}),
		events.HistoryKey("2026-11-01", events.Thread{Session: other, Name: "sub"}), events.SessionKey(other)} {
		must.Get(conn.Records().Write(t.Context(), record.Put{Key: key, Expect: record.Any}))(t)
	}
	for range 3 {
		if ids := look(); len(ids) != 1 {
			t.Errorf("rows %v behind a removal of one of three sessions, want one of the two that are there", ids)
		}
	}
}

package view_test

import (
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Whoever follows the pages of one state finds all that are in it, wherever they are in the store, and each page costs the same however
// many sessions there are.
func TestStatesByPages(t *testing.T) {
	cost := map[int]uint64{}
	for _, n := range []int{1000, 5000} {
		conn := natstest.Conn(t)
		fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
		var puts []record.Put
		for i := range n {
			th := events.Thread{Session: fmt.Sprintf("s%d", i), Name: events.MainThread}
			h := threads.Head{Updated: time.Now().Add(-time.Hour).UnixMilli() + int64(i), Standing: uint8(sessions.StatusComplete)}
			key := events.HeadKey(th)
			switch i {
			case 2, 3:
				h.Standing = uint8(sessions.StatusError)
			case 4, n / 2:
				h.Status, key = threads.StatusCompleted, events.HistoryKey("2026-11-20", th)
			}
			info := sessions.Info{ID: th.Session, Answered: true, Threads: 1}
			puts = append(puts, record.Put{Key: events.SessionKey(info.ID), Value: info.Encode(), Expect: record.Any},
				record.Put{Key: key, Value: h.Encode(), Expect: record.Any})
			if len(puts) >= 300 || i == n-1 {
				must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
				puts = nil
			}
		}
		reader, nc := view.NewReader(client.New(conn)), conn.JetStream().Conn()
		for state, want := range map[string][]string{view.Failed: {"s3", "s2"}, view.Done: {fmt.Sprint("s", n/2), "s4"}} {
			var got []string
			q := client.SessionQuery{Query: sessions.Query{Limit: 5}, Most: 500}
			for more := true; more; more = q.After != "" {
				before := nc.Stats().OutMsgs
				list, at, err := reader.Page(t.Context(), q, state)
				must.Do(t, err)
				cost[n] = max(cost[n], nc.Stats().OutMsgs-before)
				for _, s := range list {
					got = append(got, s.ID)
				}
				q.After = at.Next
			}
			must.SameAll(t, got, want, state+": %v, want %v")
		}
	}
	t.Logf("the dearest page asks %v", cost)
	if cost[5000] > 2*cost[1000] {
		t.Errorf("the dearest page of so many sessions asks %v", cost)
	}
}

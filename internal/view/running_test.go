package view_test

import (
	"fmt"
	"sync"
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

// Who works writes: a session whose head is stored anew while those that run are looked for runs all the same.
func TestRunningWhileTheyWrite(t *testing.T) {
	conn := natstest.Conn(t)
	const n = 600
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	write := func(from, to int) error {
		puts := make([]record.Put, 0, to-from)
		for i := from; i < to; i++ {
			h := threads.Head{Updated: time.Now().UnixMilli(), Standing: uint8(sessions.StatusPending)}
			key := events.HeadKey(events.Thread{Session: fmt.Sprintf("s%d", i), Name: events.MainThread})
			puts = append(puts, record.Put{Key: key, Value: h.Encode(), Expect: record.Any})
		}
		_, err := conn.Records().Commit(t.Context(), fence, puts)
		return err
	}
	must.Do(t, write(0, n))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for at := 0; ; at = (at + 50) % n {
			select {
			case <-stop:
				return
			default:
			}
			if err := write(at, at+50); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer writer.Wait()
	defer close(stop)
	reader := view.NewReader(client.New(conn))
	for range 10 {
		q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: n + 1}}
		list, at, err := reader.Page(t.Context(), q, view.Running)
		must.Do(t, err)
		if len(list) != n {
			t.Fatalf("%d sessions run, next %q, back %v: want all %d, which write all the time", len(list), at.Next, at.Back, n)
		}
	}
}

// A page of what runs that ended before all was looked at goes on, or says so to who goes on by its next.
func TestRunningBehindMany(t *testing.T) {
	conn := natstest.Conn(t)
	fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
	put := func(id string, standing sessions.Status) record.Put {
		h := threads.Head{Updated: time.Now().UnixMilli(), Standing: uint8(standing)}
		return record.Put{Key: events.HeadKey(events.Thread{Session: id, Name: events.MainThread}), Value: h.Encode(), Expect: record.Any}
	}
	must.Get(conn.Records().Commit(t.Context(), fence, []record.Put{put("runs", sessions.StatusPending)}))(t)
	for k := range 4 {
		var puts []record.Put
		for i := range 300 {
			puts = append(puts, put(fmt.Sprint("idle-", 300*k+i), sessions.StatusComplete))
		}
		must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
	}
	reader := view.NewReader(client.New(conn))
	var got []string
	q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 5}, Most: 300}
	for {
		list, at, err := reader.Page(t.Context(), q, view.Running)
		must.Do(t, err)
		for _, s := range list {
			got = append(got, s.ID)
		}
		if q.After = at.Next; q.After == "" {
			break
		}
	}
	must.SameAll(t, got, []string{"runs"}, "by their next, pages of what runs have %v, want %v")
}

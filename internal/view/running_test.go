package view_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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

// A page of what runs costs what it shows, however many others wrote just now. By their next, pages have all, those too whose runs wrote nothing
// for long, each once and the newest first.
func TestRunningCost(t *testing.T) {
	for _, n := range []int{200, 4000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			conn := natstest.Conn(t)
			fence := must.Get(conn.Records().Fence(t.Context(), 0))(t)
			var want []string
			for from := 0; from < n; from += 100 {
				var puts []record.Put
				for i := from; i < from+100; i++ {
					id, updated := fmt.Sprintf("s%06d", i), time.Now().Add(time.Duration(i-n)*time.Millisecond)
					if i%50 == 0 {
						updated = updated.Add(-time.Hour)
						run := record.Run{ID: "r", Thread: events.MainThread, Status: artifacts.RunRunning, Lease: time.Hour.Milliseconds()}
						puts = append(puts, record.Put{Key: events.RunKey(id, "r"), Value: run.Encode()})
					}
					h := threads.Head{Updated: updated.UnixMilli(), Standing: uint8(sessions.StatusPending)}
					puts = append(puts, record.Put{Key: events.HeadKey(events.Thread{Session: id, Name: events.MainThread}), Value: h.Encode()})
				}
				must.Get(conn.Records().Commit(t.Context(), fence, puts))(t)
			}
			for _, old := range []bool{false, true} {
				for i := n - 1; i >= 0; i-- {
					if old == (i%50 == 0) {
						want = append(want, fmt.Sprintf("s%06d", i))
					}
				}
			}
			reader := view.NewReader(client.New(conn))
			var asked atomic.Int64
			must.Get(conn.JetStream().Conn().Subscribe("$JS.API.>", func(*nats.Msg) { asked.Add(1) }))(t)
			var got []string
			q := client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 20}}
			for first := true; first || q.After != ""; first, q.Limit = false, 500 {
				list, at, err := reader.Page(t.Context(), q, view.Running)
				must.Do(t, err)
				if most := int64(1000); first && asked.Load() > most {
					t.Errorf("a page of 20 of %d sessions that run asks %d times, want %d at most", n, asked.Load(), most)
				}
				for _, s := range list {
					got = append(got, s.ID)
				}
				q.After = at.Next
			}
			must.SameAll(t, got, want, "pages of what runs are\n%v, want\n%v")
		})
	}
}

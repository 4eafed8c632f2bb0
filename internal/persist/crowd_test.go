package persist_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// Where the queue is full of very many sessions, of each of which little comes, none of them is parked: their partitions wait. Each would
// have a goroutine, and be read from its stream again, for nothing.
func TestCrowdIsNotParked(t *testing.T) {
	warmUp(t)
	synctest.Test(t, func(t *testing.T) {
		const sessions, of = 6000, 2
		st := &gated{memoryStore: &memoryStore{records: map[string]record.Record{}}, gate: make(chan struct{}), written: map[string]int{}}
		stored := flooding{stored: map[uint64][]byte{}}
		p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st, Stored: stored}, persist.Config{QueueBytes: 1 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		var delivered atomic.Int64
		var all sync.WaitGroup
		for part := range events.Partitions {
			all.Go(func() {
				seq := uint64(0)
				for n := range uint64(of) {
					for i := part; i < sessions; i += events.Partitions {
						seq++
						e := events.Event{
							Producer: "p", Seq: n + 1, Kind: events.KindEntry, Thread: thread(i), Dialect: "omp", Body: message("e", "user", 100),
						}
						p.Deliver(ctx, persist.Message{
							Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(), Data: e.Encode(), Seq: seq, Partition: part,
							Ack: func() error { return nil },
						})
						delivered.Add(1)
					}
				}
			})
		}
		synctest.Wait()
		if n, most := delivered.Load(), int64(1<<20/(2<<10))+100; n > most {
			t.Errorf("%d events are taken while nothing is committed, want at most %d", n, most)
		}
		if n := runtime.NumGoroutine(); n > 500 {
			t.Errorf("%d goroutines", n)
		}
		close(st.gate)
		all.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		must.Same(t, p.Stats().Entries, int64(sessions*of), "%d entries are applied, want %d")
		cancel()
		must.Do(t, <-ended)
	})
}

package persist_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// However many messages of one session come, its partition is read on, and what comes of others in it is in the next
// batch: where all messages have room, where they are too large for that, and where their bodies are in the inbox. Nothing
// overtakes in a session, and an ack says no more than that all before it is through. What is removed from the stream
// before it is read again stops nothing.
func TestSessionIsParked(t *testing.T) {
	warmUp(t)
	for name, of := range map[string]flooding{
		"small":      {size: 1000, stored: map[uint64][]byte{}},
		"read again": {size: 20_000, stored: map[uint64][]byte{}},
		"removed":    {size: 20_000, stored: map[uint64][]byte{}, removed: 300},
		"inbox":      {size: 20_000, inbox: true},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sessionIsParked(t, of) }) })
	}
}

// flooding is what comes of one session.
type flooding struct {
	size    int  // of a body
	inbox   bool // bodies are there
	stored  map[uint64][]byte
	removed uint64 // an event that is not there when it is read again; 0: none
}

// Event implements persist.Stored.
func (f flooding) Event(_ context.Context, _ int, seq uint64) ([]byte, error) {
	if seq == f.removed {
		return nil, record.ErrNotFound
	}
	return f.stored[seq], nil
}

func sessionIsParked(t *testing.T, of flooding) {
	const backlog, others = 400, 24
	st := &gated{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, gate: make(chan struct{}), written: map[string]int{},
		body: message("e", "user", of.size),
	}
	deps := persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}
	if of.stored != nil {
		deps.Stored = of
	}
	p := persist.New(deps, persist.Config{QueueBytes: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	delivered, acked, none := uint64(0), uint64(0), uint64(min(of.removed, 1))
	give := func(id events.Thread, n uint64, e events.Event) {
		seq := delivered + 1
		e.Producer, e.Seq, e.Kind, e.Thread, e.Dialect = "p", n, events.KindEntry, id, "omp"
		data := e.Encode()
		if of.stored != nil {
			of.stored[seq] = data
		}
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String(), Data: data, Seq: seq,
			Ack: func() error {
				if acked = seq; int64(seq-none) > p.Stats().Entries {
					t.Errorf("ack of %d, when %d events are applied", seq, p.Stats().Entries)
				}
				return nil
			},
		})
		delivered = seq
	}
	flood := events.Event{Body: st.body}
	if of.inbox {
		flood = events.Event{Ref: &events.BodyRef{Object: "e", Size: int64(len(st.body)), Sum: sha256.Sum256(st.body)}}
	}
	go func() {
		for i := range uint64(backlog) {
			give(thread(0), i+1, flood)
		}
		for i := range others {
			give(thread(i+1), 1, events.Event{Body: message("e", "user", 1000)})
		}
	}()
	if synctest.Wait(); delivered != backlog+others {
		t.Errorf("%d of %d events are read while nothing is committed", delivered, backlog+others)
	}
	close(st.gate)
	time.Sleep(time.Minute)
	synctest.Wait()
	st.mu.Lock()
	const inPipeline = 3 // one in each stage before the last
	for i := range others {
		if n := st.written[events.HeadKey(thread(i+1))]; n == 0 || n > inPipeline+1 {
			t.Errorf("%s is in commit %d, want one up to %d", thread(i+1), n, inPipeline+1)
		}
	}
	st.mu.Unlock()
	if s := p.Stats(); s.Entries != int64(backlog+others-none) || s.Dead != 0 || s.Repeated != 0 {
		t.Errorf("Stats() = %+v, want %d entries and nothing else", s, backlog+others-none)
	}
	must.Same(t, acked, uint64(backlog+others), "%d events are acknowledged, want %d")
	cancel()
	must.Do(t, <-ended)
}

// again is a store that answers late, whatever becomes of who asks.
type again struct {
	flooding
	asked chan struct{} // closed when it is asked first
	first *sync.Once
	gate  chan struct{}
}

func (a again) Event(ctx context.Context, partition int, seq uint64) ([]byte, error) {
	a.first.Do(func() { close(a.asked) })
	<-a.gate
	return a.flooding.Event(ctx, partition, seq)
}

// A partition that was given away, and comes again while something of before is still being read, is applied: what comes then has its own
// delivery.
func TestParkedBehindAnEarlierTerm(t *testing.T) {
	warmUp(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		st := &memoryStore{records: map[string]record.Record{}}
		of := again{flooding{stored: map[uint64][]byte{}}, make(chan struct{}), new(sync.Once), make(chan struct{})}
		p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st, Stored: of}, persist.Config{QueueBytes: 1 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		for seq := range uint64(n) {
			e := events.Event{
				Producer: "p", Seq: seq + 1, Kind: events.KindEntry, Thread: thread(0), Dialect: "omp", Body: message("e", "user", 20_000),
			}
			of.stored[seq+1] = e.Encode()
		}
		acked := uint64(0)
		give := func(ctx context.Context, term uint64) {
			for seq := uint64(1); seq <= n; seq++ {
				p.Deliver(ctx, persist.Message{
					Subject: strings.TrimSuffix(events.StoredFilter(thread(0)), "*") + events.KindEntry.String(), Data: of.stored[seq],
					Seq: seq, Term: term,
					Ack: func() error { acked = max(acked, seq); return nil },
				})
			}
		}
		before, stop := context.WithCancel(ctx)
		give(before, 1) // nobody takes from the queue: the rest is parked
		go func() { ended <- p.Run(ctx) }()
		<-of.asked
		stop()
		p.Leave(before, 0)
		go give(ctx, 2)
		synctest.Wait()
		close(of.gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Stats(); s.Entries != n || acked != n {
			t.Errorf("%d of %d events are applied, and %d acknowledged", s.Entries, n, acked)
		}
		cancel()
		must.Do(t, <-ended)
	})
}

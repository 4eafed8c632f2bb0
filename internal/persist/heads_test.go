package persist_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// watchedStore looks at what the heads in memory take whenever heads are read.
type watchedStore struct {
	memoryStore
	p    *persist.Persister
	most atomic.Int64
}

func (s *watchedStore) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	if s.p != nil {
		s.most.Store(max(s.most.Load(), s.p.Stats().HeadBytes))
	}
	return s.memoryStore.Records(ctx, keys...)
}

// LastItemOf says that nothing is left to be sent.
func (s *watchedStore) LastItemOf(context.Context, events.Thread, uint64) (int64, error) {
	return 1 << 40, nil
}

// The heads of 50,000 threads at work in turn take no more memory than they may, but for those in hand, and what comes for one
// that left memory has the same outcome as for one that did not.
func TestHeadsAreBounded(t *testing.T) {
	const (
		threads = 50_000
		limit   = 4 << 20
		inHand  = 4 * 250 * 4 << 10 // of the commits that are under way
	)
	s := &watchedStore{memoryStore: memoryStore{records: map[string]record.Record{}}}
	waiting := make(chan struct{}, 4000)
	p := persist.New(persist.Deps{
		Records: s, Bulk: s, Outbox: s, Inbox: s, Packs: s,
		Committed: func(c persist.Committed) {
			for range c.Events {
				<-waiting
			}
		},
	}, persist.Config{HeadBytes: limit})
	s.p = p
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	all, seq := uint64(3*threads), uint64(0)
	through := make(chan struct{})
	give := func(id events.Thread, n uint64) {
		waiting <- struct{}{}
		seq++
		at := seq
		e := events.Event{
			Producer: "p", Seq: n, Kind: events.KindEntry, Thread: id, Dialect: "step", Body: fmt.Appendf(nil, `{"role":"user","content":"%d"}`, n),
		}
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String(), Data: e.Encode(), Seq: at,
			Ack: func() error {
				if at == all {
					close(through)
				}
				return nil
			},
		})
	}
	for _, n := range []uint64{1, 1, 2} { // the second one repeats the first
		for i := range threads {
			give(thread(i), n)
		}
	}
	<-through
	cancel()
	must.Do(t, <-ended)
	st := p.Stats()
	if st.Entries != 2*threads || st.Repeated != threads || st.Dead != 0 {
		t.Errorf("%d entries, %d repeats and %d dead letters, want %d, %d and none", st.Entries, st.Repeated, st.Dead, 2*threads, threads)
	}
	if most := s.most.Load(); most > limit+inHand || st.HeadBytes > limit+inHand {
		t.Errorf("heads take %d bytes, want at most %d and %d of those in hand", max(most, st.HeadBytes), limit, inHand)
	}
	if st.HeadMisses < 3*threads-limit/1024 || st.HeadsEvicted < st.HeadMisses-limit/1024-1000 {
		t.Errorf("%d heads were read and %d left memory, want nearly one an event", st.HeadMisses, st.HeadsEvicted)
	}
}

package persist_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// holding is a store that takes its time with what is to be dropped.
type holding struct {
	*memoryStore
	body []byte
	gate chan struct{}

	asked, dropped atomic.Int64
}

func (h *holding) OpenBody(context.Context, events.BodyRef) (io.Reader, error) {
	return bytes.NewReader(h.body), nil
}

func (h *holding) DiscardBody(ctx context.Context, _ events.BodyRef) error {
	h.asked.Add(1)
	select {
	case <-h.gate:
		h.dropped.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// While a body is discarded, which takes the store a time by its size, others' events are applied, told and acknowledged,
// and so is what comes of its own session. What is to be discarded when the persister ends is, or is the collector's.
func TestDiscardingStopsNobody(t *testing.T) {
	warmUp(t)
	for name, dropped := range map[string]int64{"ends": 3, "hangs": 0} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { discardingStopsNobody(t, dropped) }) })
	}
}

func discardingStopsNobody(t *testing.T, dropped int64) {
	const large, others = 3, 24
	st := &holding{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, body: message("e", "user", 20_000), gate: make(chan struct{}),
	}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var seq, acked atomic.Uint64
	give := func(id events.Thread, n uint64, e events.Event) {
		at := seq.Add(1)
		e.Producer, e.Seq, e.Kind, e.Thread, e.Dialect = "p", n, events.KindEntry, id, "omp"
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String(), Data: e.Encode(), Seq: at,
			Ack: func() error { acked.Store(at); return nil },
		})
		synctest.Wait()
	}
	for i := range uint64(large) {
		give(thread(0), i+1, events.Event{Ref: &events.BodyRef{Object: "e", Size: int64(len(st.body)), Sum: sha256.Sum256(st.body)}})
	}
	for i := range others {
		give(thread(i+1), 1, events.Event{Body: message("e", "user", 1000)})
	}
	must.Same(t, p.Stats().Entries, int64(large+others), "%d entries are applied and told, want %d")
	if st.asked.Load() == 0 || st.dropped.Load() != 0 {
		t.Errorf("%d bodies are being discarded, %d are", st.asked.Load(), st.dropped.Load())
	}
	if dropped > 0 {
		close(st.gate)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must.Same(t, acked.Load(), uint64(large+others), "%d events are acknowledged, want %d")
	must.Same(t, st.dropped.Load(), dropped, "%d bodies are discarded, want %d")
}

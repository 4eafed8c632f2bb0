package persist_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// BenchmarkEntries is the way of an entry of 2 KB through a persister whose store is memory: what decoding, deciding, making nodes and
// items, and sealing cost. It reports the CPU of the process, beside the time.
func BenchmarkEntries(b *testing.B) {
	for _, producers := range []int{1, 100} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) { benchmarkEntries(b, 200, producers) })
	}
}

func benchmarkEntries(b *testing.B, sessions, producers int) {
	st := &memoryStore{records: map[string]record.Record{}}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	messages := make([]persist.Message, b.N)
	for i := range messages {
		round := i / sessions
		e := events.Event{
			Producer: fmt.Sprint("p", round%producers), Seq: uint64(round + 1), Kind: events.KindEntry, Thread: thread(i % sessions), Dialect: "omp",
			Time: 1_760_000_000_000 + int64(i), Body: message(fmt.Sprintf("e%07d", i), "user", 2000),
		}
		messages[i] = persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(), Data: e.Encode(), Seq: uint64(i + 1), Ack: func() error { return nil },
		}
	}
	done := make(chan struct{})
	if b.N > 0 {
		messages[b.N-1].Ack = sync.OnceValue(func() error { close(done); return nil })
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	for _, m := range messages {
		p.Deliver(ctx, m)
	}
	<-done
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
	b.StopTimer()
	if s := p.Stats(); s.Entries != int64(b.N) || s.Dead > 0 {
		b.Fatalf("Stats() = %+v, want %d entries", s, b.N)
	}
	cancel()
	must.Do(b, <-ended)
}

// processorTime is what the process has used of the processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memoryStore is a store that answers at once and forgets packs.
type memoryStore struct {
	mu      sync.Mutex
	seq     uint64
	records map[string]record.Record
}

func (s *memoryStore) Records(_ context.Context, keys ...string) ([]record.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := make([]record.Record, len(keys))
	for i, key := range keys {
		rs[i] = s.records[key]
		rs[i].Key = key
	}
	return rs, nil
}

func (s *memoryStore) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return record.FindPack(ctx, s.Records, id)
}

func (s *memoryStore) Fence(context.Context, int) (record.Fence, error) { return record.Fence{}, nil }

func (s *memoryStore) WillCommit(record.Fence) {}

func (s *memoryStore) Commit(_ context.Context, _ record.Fence, puts []record.Put) (first uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.seq + 1
	seal := record.Seal{Store: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} // as internal/natsio has it
	for _, p := range puts {
		s.seq++
		_ = seal.Check(p.Key, p.Value)
		s.records[p.Key] = record.Record{Key: p.Key, Value: p.Value, Seq: s.seq}
	}
	return first, nil
}

func (s *memoryStore) UploadPack(_ context.Context, _ casstore.PackID, header, _ []byte) (record.Pack, error) {
	return record.Pack{Header: int64(len(header))}, nil
}

func (s *memoryStore) UploadBlob(context.Context, casstore.Ref, []byte) (record.Blob, error) {
	return record.Blob{}, nil
}

func (s *memoryStore) Holds(context.Context, record.Object) (bool, error) { return true, nil }

func (s *memoryStore) NewBlob(context.Context) record.Upload { return nil }

func (s *memoryStore) DropBlob(context.Context, record.Object) error { return nil }

func (s *memoryStore) PublishItems(context.Context, []events.Posted) error { return nil }

func (s *memoryStore) LastItemOf(context.Context, events.Thread, uint64) (int64, error) {
	return 0, nil
}

func (s *memoryStore) Dead(context.Context, []events.Dead) error { return nil }
func (s *memoryStore) HaveDead(_ context.Context, letters []events.Dead) ([]bool, error) {
	return make([]bool, len(letters)), nil
}

func (s *memoryStore) OpenBody(context.Context, events.BodyRef) (io.Reader, error) {
	return nil, record.ErrNotFound
}

func (s *memoryStore) DiscardBody(context.Context, events.BodyRef) error { return nil }

func (s *memoryStore) Pack(context.Context, casstore.PackID) (*casstore.Pack, error) {
	return nil, casstore.ErrNotFound
}

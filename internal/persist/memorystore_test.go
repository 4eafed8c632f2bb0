package persist_test

import (
	"context"
	"io"
	"sync"
	"syscall"
	"time"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

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

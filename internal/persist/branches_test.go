package persist_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// scale is a store in memory that keeps packs, and counts what is written to it and read from it.
type scale struct {
	memoryStore
	packs                           *casstore.Memory
	written, commits, records, read atomic.Int64
}

func (m *scale) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	m.commits.Add(1)
	for _, p := range puts {
		m.written.Add(int64(len(p.Value)))
		m.records.Add(int64(len(p.Value)))
	}
	return m.memoryStore.Commit(ctx, f, puts)
}

func (m *scale) UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error) {
	m.written.Add(int64(len(header) + len(body)))
	return record.Pack{Header: int64(len(header))}, m.packs.PutPack(ctx, id, header, body)
}

func (m *scale) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	m.read.Add(1)
	return m.packs.Pack(ctx, id)
}

// costs is what entries cost: bytes written, of these in records by a commit, packs read, and time of the processor.
type costs struct {
	written, record, read int64
	processor             time.Duration
}

// An entry costs no more in a session of twenty thousand branches than in one of a hundred: wherever it branches,
// whoever wrote it, and also where each entry is a commit of its own.
func TestCostOfABranch(t *testing.T) {
	t.Parallel()
	const far, step, window = 20_000, 500, 1000
	for name, c := range map[string]struct {
		far       int
		parent    func(i int) string
		producers int
	}{
		"roots, in batches":           {far, func(int) string { return "null" }, 1},
		"from the first one, alone":   {far / 4, func(int) string { return `"e0000000"` }, 1},
		"roots, of a producer each":   {far, func(int) string { return "null" }, far * 2},
		"roots, of producers in turn": {far, func(int) string { return "null" }, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			m := &scale{memoryStore: memoryStore{records: map[string]record.Record{}}, packs: casstore.NewMemory()}
			deps := persist.Deps{Records: m, Bulk: m, Outbox: m, Inbox: m, Packs: casstore.NewPackCache(m, 8<<20)}
			p := persist.New(deps, persist.Config{BatchEvents: step})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			sent := 0
			apply := func(to int) (cost costs) {
				written, records, commits := m.written.Load(), m.records.Load(), m.commits.Load()
				read, processor := m.read.Load(), processorTime()
				for ; sent < to; sent += step {
					for i := sent; i < sent+step; i++ {
						body := fmt.Appendf(nil, `{"type":"message","id":"e%07d","parentId":%s,`+
							`"message":{"role":"user","content":"x"}}`, i, c.parent(i))
						e := events.Event{
							Producer: fmt.Sprint("p", i%c.producers), Seq: uint64(i + 1), Kind: events.KindEntry,
							Thread: thread(0), Dialect: "omp", Time: 1_760_000_000_000 + int64(i), Body: body,
						}
						p.Deliver(ctx, persist.Message{
							Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(),
							Data:    e.Encode(), Seq: uint64(i + 1), Ack: func() error { return nil },
						})
					}
					must.Until(t, "all is applied", func() bool { return p.Stats().Applied >= int64(sent+step) }) // its ack would wait for others
				}
				return costs{
					m.written.Load() - written, (m.records.Load() - records) / (m.commits.Load() - commits),
					m.read.Load() - read, processorTime() - processor,
				}
			}
			apply(step)
			near := apply(step + window)
			apply(c.far)
			away := apply(c.far + window)
			t.Logf("%d entries behind %d: %+v, behind %d: %+v", window, step, near, c.far, away)
			if away.written > 2*near.written || away.record > 2*near.record+4<<10 || away.read > 2*near.read+window/10 {
				t.Errorf("at %d branches they cost %+v, want at most twice of %+v", c.far, away, near)
			}
			key := events.HeadKey(thread(0))
			rs, _ := m.Records(ctx, key)
			h, err := threads.DecodeHead(rs[0].Value)
			if err != nil || int(h.Entries) != c.far+window || len(rs[0].Value) > threads.MaxHead/2 {
				t.Errorf("the head has %d bytes and %d entries, %v", len(rs[0].Value), h.Entries, err)
			}
			cancel()
			must.Do(t, <-ended)
		})
	}
}

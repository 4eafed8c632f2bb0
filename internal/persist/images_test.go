package persist_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// counting is a store whose first commits wait at a gate. It counts the bytes of blobs and packs that were stored before the
// head of a thread was written.
type counting struct {
	*memoryStore
	gate  chan struct{}
	until string // the head's record

	mu     sync.Mutex
	stored int
	before int // as of when the head was written
}

func (c *counting) UploadBlob(_ context.Context, _ casstore.Ref, b []byte) (record.Blob, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored += len(b)
	return record.Blob{Object: record.Object{Size: int64(len(b))}}, nil
}

func (c *counting) UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored += len(header) + len(body)
	return c.memoryStore.UploadPack(ctx, id, header, body)
}

func (c *counting) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	<-c.gate
	c.mu.Lock()
	for _, put := range puts {
		if put.Key == c.until && c.before == 0 {
			c.before = c.stored
		}
	}
	c.mu.Unlock()
	return c.memoryStore.Commit(ctx, f, puts)
}

// Images take of a session's turns, and of a batch, as much as other bytes: a small session waits for no more of a flood of images
// than of one of text.
func TestImagesTakeTurns(t *testing.T) {
	warmUp(t)
	before := map[string]int{}
	for kind, part := range map[string]string{
		"text":   `{"type":"text","text":"%s"}`,
		"images": `{"type":"image","mimeType":"image/png","data":"%s"}`,
	} {
		synctest.Test(t, func(t *testing.T) { before[kind] = storedBefore(t, part) })
	}
	t.Logf("bytes of the flood before a small session: %v", before)
	if before["text"] == 0 || before["images"] > before["text"]*3/2 {
		t.Errorf("bytes of the flood before a small session: %v, want about as many of images as of text", before)
	}
}

// storedBefore is how many bytes of a flood are stored before a small session has its turn.
func storedBefore(t *testing.T, part string) int {
	const backlog, size = 120, 300 << 10
	small := thread(1)
	st := &counting{
		memoryStore: &memoryStore{records: map[string]record.Record{}}, gate: make(chan struct{}), until: events.HeadKey(small),
	}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st}, persist.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	seq := uint64(0)
	give := func(id events.Thread, n int, body string) {
		seq++
		e := events.Event{Producer: "p", Seq: uint64(n), Kind: events.KindEntry, Thread: id, Dialect: "item",
			Body: []byte(`{"content":[` + body + `]}`)}
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(id), "*") + e.Kind.String(), Data: e.Encode(), Seq: seq,
			Ack: func() error { return nil },
		})
	}
	random := rand.NewChaCha8([32]byte{1})
	some := make([]byte, size/4*3)
	for i := range backlog {
		must.Get(random.Read(some))(t)
		give(thread(0), i+1, fmt.Sprintf(part, base64.StdEncoding.EncodeToString(some)))
	}
	synctest.Wait()
	give(small, 1, `{"type":"text","text":"x"}`)
	close(st.gate)
	synctest.Wait()
	if s := p.Stats(); s.Entries != backlog+1 || s.Dead != 0 {
		t.Errorf("Stats() = %+v, want %d entries", s, backlog+1)
	}
	cancel()
	must.Do(t, <-ended)
	return st.before
}

package persist_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
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

// bodies is a store of bodies that takes a millisecond for each piece that is read. It counts how many are read at a time, and how
// much of each.
type bodies struct {
	*memoryStore
	mu     sync.Mutex
	of     map[string][]byte
	now    int
	most   int
	read   map[string]int
	ends   map[string]int // passes that are through
	beside int            // bytes of the others that were read when the small one was through
}

func (b *bodies) OpenBody(_ context.Context, ref events.BodyRef) (io.Reader, error) {
	return &bodyReader{b: b, name: ref.Object, in: bytes.NewReader(b.of[ref.Object])}, nil
}

type bodyReader struct {
	b    *bodies
	name string
	in   io.Reader
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.b.mu.Lock()
	r.b.now++
	r.b.most = max(r.b.most, r.b.now)
	r.b.mu.Unlock()
	time.Sleep(time.Millisecond)
	n, err := r.in.Read(p)
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.now--
	r.b.read[r.name] += n
	if err == io.EOF {
		if r.b.ends[r.name]++; r.name == "small" && r.b.ends[r.name] == 2 {
			for name, n := range r.b.read {
				if name != r.name {
					r.b.beside += n
				}
			}
		}
	}
	return n, err
}

// Entries that are read as streams leave half of the processors to what is small, and the shortest of them does not wait for the
// longest.
func TestGiantsTakeTurns(t *testing.T) {
	warmUp(t)
	synctest.Test(t, giantsTakeTurns)
}

func giantsTakeTurns(t *testing.T) {
	const giants, parts, few = 6, 40, 6
	st := &bodies{
		memoryStore: &memoryStore{records: map[string]record.Record{}},
		of:          map[string][]byte{}, read: map[string]int{}, ends: map[string]int{},
	}
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st},
		persist.Config{QueueBytes: 1 << 30, StreamBytes: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	random := rand.NewChaCha8([32]byte{2})
	some := make([]byte, 180<<10)
	give := func(name string, i, parts int) int {
		var body strings.Builder
		body.WriteString(`{"content":[{"type":"text","text":"x"}`)
		for range parts {
			must.Get(random.Read(some))(t)
			fmt.Fprintf(&body, `,{"type":"image","mimeType":"image/png","data":"%s"}`, base64.StdEncoding.EncodeToString(some))
		}
		body.WriteString("]}")
		b := []byte(body.String())
		st.mu.Lock()
		st.of[name] = b
		st.mu.Unlock()
		e := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Thread: thread(i), Dialect: "item",
			Ref: &events.BodyRef{Object: name, Size: int64(len(b)), Sum: sha256.Sum256(b)}}
		p.Deliver(ctx, persist.Message{
			Subject: strings.TrimSuffix(events.StoredFilter(e.Thread), "*") + e.Kind.String(), Data: e.Encode(), Seq: uint64(i + 1),
			Ack: func() error { return nil },
		})
		return len(b)
	}
	all := 0
	for i := range giants {
		all += 2 * give(fmt.Sprint("giant", i), i, parts)
	}
	give("small", giants, few)
	time.Sleep(time.Hour)
	synctest.Wait()
	if s := p.Stats(); s.Entries != giants+1 || s.Dead != 0 {
		t.Errorf("Stats() = %+v, want %d entries", s, giants+1)
	}
	if half := max(1, runtime.GOMAXPROCS(0)/2); st.most > half {
		t.Errorf("%d bodies are read at a time, want %d at most", st.most, half)
	}
	if st.beside == 0 || st.beside > all/2 {
		t.Errorf("%d bytes of the others are read before the small one is through, of %d", st.beside, all)
	}
	cancel()
	must.Do(t, <-ended)
}

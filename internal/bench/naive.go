package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"spool/pkg/events"
)

// naive does what one would write first with the client API: it consumes an entry, puts its nodes, the content and the state
// as in Spool, into an object store under their hashes, updates the thread's head in a key-value bucket, publishes the
// item, and acks with a confirmation. It does so with several entries side by side, those of a thread in order.
type naive struct {
	*raw
	nc       *nats.Conn
	js       jetstream.JetStream
	objects  jetstream.ObjectStore
	heads    jetstream.KeyValue
	consume  jetstream.ConsumeContext
	queues   []chan jetstream.Msg // of each worker
	workers  errgroup.Group
	finished atomic.Int64
}

const (
	naiveNodes = "bench_nodes"
	naiveHeads = "bench_heads"
	sideBySide = 8 // workers; more were not faster on two cores
)

func openNaive(ctx context.Context, r *rig) (pipeline, error) {
	in, err := newRaw(ctx, r)
	if err != nil {
		return nil, err
	}
	nc, js, err := r.connect()
	if err != nil {
		in.close()
		return nil, err
	}
	p := &naive{raw: in, nc: nc, js: js, queues: make([]chan jetstream.Msg, sideBySide)}
	if err := p.start(ctx, r); err != nil {
		in.close()
		nc.Close()
		return nil, err
	}
	return p, nil
}

func (p *naive) start(ctx context.Context, r *rig) error {
	err := r.stream(ctx, p.js, itemsStream, itemPrefix+">")
	if err != nil {
		return err
	}
	if p.objects, err = p.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: naiveNodes, MaxBytes: r.limit}); err != nil {
		return err
	}
	if p.heads, err = p.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: naiveHeads}); err != nil {
		return err
	}
	cons, err := p.js.CreateConsumer(ctx, inStream, jetstream.ConsumerConfig{
		Durable: "naive", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: fastWindow,
	})
	if err != nil {
		return err
	}
	for i := range p.queues {
		p.queues[i] = make(chan jetstream.Msg, slowWindow)
		p.workers.Go(func() error { return p.work(ctx, p.queues[i]) })
	}
	p.consume, err = cons.Consume(func(m jetstream.Msg) {
		h := fnv.New32a()
		h.Write([]byte(m.Subject()))
		p.queues[h.Sum32()%uint32(len(p.queues))] <- m
	})
	return err
}

// state is the second node that the naive pipeline stores of an entry; the first is the entry itself.
type state struct {
	Parent  string `json:"parent"`
	N       int64  `json:"n"`
	Content string `json:"content"`
}

// head is what the naive pipeline's key-value bucket holds of a thread.
type head struct {
	Node string `json:"node"`
	N    int64  `json:"n"`
}

// naiveThread is what a worker remembers of a thread.
type naiveThread struct {
	node     string
	n        int64
	revision uint64
}

// work stops at the first error; the flow then sees that nothing is done any more.
func (p *naive) work(ctx context.Context, queue <-chan jetstream.Msg) error {
	threads := map[events.Thread]*naiveThread{}
	var failed error
	for m := range queue {
		if failed == nil {
			failed = p.entry(ctx, threads, m)
		}
	}
	return failed
}

func (p *naive) entry(ctx context.Context, threads map[events.Thread]*naiveThread, m jetstream.Msg) error {
	e, err := events.Decode(m.Data())
	if err != nil {
		return err
	}
	t := threads[e.Thread]
	if t == nil {
		t = &naiveThread{}
		threads[e.Thread] = t
	}
	content, err := p.put(ctx, e.Body)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(state{Parent: t.node, N: t.n + 1, Content: content})
	if err != nil {
		return err
	}
	name, err := p.put(ctx, encoded)
	if err != nil {
		return err
	}
	value, err := json.Marshal(head{Node: name, N: t.n + 1})
	if err != nil {
		return err
	}
	if t.revision, err = p.heads.Update(ctx, e.Thread.Session, value, t.revision); err != nil {
		return fmt.Errorf("update head: %w", err)
	}
	t.node, t.n = name, t.n+1
	if _, err := p.js.Publish(ctx, itemPrefix+e.Thread.Session, e.Body); err != nil {
		return fmt.Errorf("publish item: %w", err)
	}
	if err := m.DoubleAck(ctx); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	p.finished.Add(1)
	return nil
}

// put stores a node under its hash.
func (p *naive) put(ctx context.Context, node []byte) (name string, err error) {
	sum := sha256.Sum256(node)
	name = hex.EncodeToString(sum[:])
	if _, err := p.objects.PutBytes(ctx, name, node); err != nil {
		return "", fmt.Errorf("put node: %w", err)
	}
	return name, nil
}

func (p *naive) done() int64 { return p.finished.Load() }

// verify counts items, objects (two an entry, a chunk and a meta each) and what the heads say.
func (p *naive) verify(ctx context.Context, n int64) error {
	err := errors.Join(p.raw.verify(ctx, n), count(ctx, p.js, itemsStream, n), count(ctx, p.js, "OBJ_"+naiveNodes, 4*n))
	keys, e := p.heads.Keys(ctx)
	if err := errors.Join(err, e); err != nil {
		return err
	}
	var sum int64
	for _, k := range keys {
		v, err := p.heads.Get(ctx, k)
		if err != nil {
			return err
		}
		var h head
		if err := json.Unmarshal(v.Value(), &h); err != nil {
			return err
		}
		sum += h.N
	}
	if sum != n {
		return fmt.Errorf("the heads of %s count %d entries, want %d", strings.Join(keys[:1], ""), sum, n)
	}
	return nil
}

func (p *naive) close() {
	p.consume.Stop()
	<-p.consume.Closed()
	for _, q := range p.queues {
		close(q)
	}
	_ = p.workers.Wait() // an error has shown as entries that were not done
	p.nc.Close()
	p.raw.close()
}

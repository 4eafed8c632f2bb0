package persist_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A repair sets a head back and publishes again what the thread lost, while a persister has the head in memory that is no more. It takes
// them, and does not hold them against what it remembers.
func TestHeadSetBackBesideAPersister(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	id := thread(0)
	r.publish(pub, id, 0, 6)
	r.await(id, "p", 6)
	was := r.record(events.HeadKey(id))
	r.publish(pub, id, 6, 10)
	r.await(id, "p", 10)
	r.items(id, 10)
	for range 3 {
		r.put(events.HeadKey(id), was.Value)
		r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), id, 6, 10)
		r.await(id, "p", 10)
	}
	r.publish(pub, id, 10, 12)
	r.await(id, "p", 12)
	r.check(id, 12)
}

// What a producer publishes again for want of an ack is looked up once for all that came together, not once an event.
func TestRepeatedEventsCostNoLook(t *testing.T) {
	r := newRig(t)
	n := &counted{bucket: r.conn.Records()}
	p := r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = n })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 500)
	r.await(thread(0), "p", 500)
	before := n.reads.Load()
	for range 4 {
		r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(0), 0, 500)
	}
	must.Until(t, "2000 events are repeated", func() bool { return p.Stats().Repeated >= 2000 })
	if reads := n.reads.Load() - before; reads > 200 {
		t.Errorf("%d looks at the head for 2000 events, want a few", reads)
	}
	r.check(thread(0), 500)
}

// counted counts reads of heads.
type counted struct {
	bucket
	reads atomic.Int64
}

func (c *counted) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	c.reads.Add(1)
	return c.bucket.Records(ctx, keys...)
}

// A thread whose head could not be read takes events again when the head has been mended, and when its packs have, after a while.
func TestLatchIsLifted(t *testing.T) {
	r := newRig(t)
	first := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	id := thread(0)
	r.publish(pub, id, 0, 3)
	head := r.await(id, "p", 3)
	_ = first.stop()

	good := r.record(events.HeadKey(id))
	r.put(good.Key, append([]byte{good.Value[0], 0x7f}, good.Value[2:]...)) // of a later version
	p := r.start(nil)
	refused := r.Publisher(client.PublisherConfig{Producer: "refused"})
	say := func(seq uint64) {
		t.Helper()
		body := fmt.Appendf(nil, `{"type":"message","id":"x%d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[]}}`, seq)
		must.Get(refused.Publish(t.Context(), client.Entry{Thread: id, Dialect: "omp", Body: body, Seq: seq}))(t)
	}
	dead := func(want int64) {
		t.Helper()
		must.Until(t, "there are dead letters", func() bool { return p.Stats().Dead >= want })
		if n := p.Stats().Dead; n != want {
			t.Fatalf("%d dead letters, want %d", n, want)
		}
	}
	say(1)
	dead(1)
	r.put(good.Key, good.Value)
	r.publish(pub, id, 3, 4)
	r.await(id, "p", 4)
	dead(1)

	// The pack that the next entry builds on is lost; with a collector in the system that is noticed.
	must.Get(r.conn.Records().Fences(t.Context()))(t)
	head = r.head(id)
	pack := r.record(events.PackKey(head.Head().Pack.String()))
	r.put(pack.Key, nil)
	say(2)
	dead(2)
	r.put(pack.Key, pack.Value)
	p.LatchesAreDue()
	r.publish(pub, id, 4, 6)
	r.await(id, "p", 6)
	dead(2)
	r.check(id, 6)
	if h := r.head(id); h.Start != head.Start {
		t.Errorf("the thread begins at %s, want %s", h.Start, head.Start)
	}
}

// A collector that begins while a deletion ends does not keep it from ending.
func TestDeletionWhileACollectorBegins(t *testing.T) {
	r := newRig(t)
	first := r.start(nil)
	r.furnish("s")
	_ = first.stop()
	b := &beginning{bucket: r.conn.Records(), begin: r.conn.Records().Fences}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = b })
	ctx := brief(t)
	must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
	r.gone("s")
	if n := b.n.Load(); n < 4 {
		t.Errorf("%d commits, want two for the records and two for the end", n)
	}
}

// beginning moves the fences before every other commit.
type beginning struct {
	bucket
	begin func(context.Context) (uint64, error)
	n     atomic.Int64
}

func (b *beginning) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if b.n.Add(1)%2 == 1 {
		if _, err := b.begin(ctx); err != nil {
			return 0, err
		}
	}
	return b.bucket.Commit(ctx, f, puts)
}

func (r *rig) record(key string) record.Record {
	r.t.Helper()
	rs, err := r.conn.Records().Records(r.t.Context(), key)
	if err != nil || !rs[0].Exists() {
		r.t.Fatalf("record %s = %+v, %v", key, rs, err)
	}
	return rs[0]
}

func (r *rig) put(key string, value []byte) {
	r.t.Helper()
	must.Get(r.conn.Records().Write(r.t.Context(), record.Put{Key: key, Value: value, Expect: record.Any}))(r.t)
}

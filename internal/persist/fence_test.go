package persist_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

const lane = 5

// moveFence does what a collector does when it starts.
func (r *rig) moveFence() {
	if _, err := r.conn.Records().Write(r.t.Context(),
		record.Put{Key: events.FenceKey(lane), Value: []byte("x"), Expect: record.Any}); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) pack(id casstore.PackID) (record.Record, record.Pack) {
	r.t.Helper()
	rs := must.Get(r.conn.Records().Records(r.t.Context(), events.PackKey(id.String())))(r.t)
	p, err := record.DecodePack(rs[0].Value)
	if err != nil {
		r.t.Fatalf("record of pack %s: %v", id, err)
	}
	return rs[0], p
}

// TestFenceMovedUnderACommit: a commit that was prepared before a collector started is refused, once, and prepared
// again; then it touches the pack that it builds on, which keeps its order; what is young is left alone (DESIGN 8, 9).
func TestFenceMovedUnderACommit(t *testing.T) {
	r := newRig(t)
	var moves atomic.Int64
	p := r.start(func(d *persist.Deps, c *persist.Config) {
		c.Lane = lane
		d.At = func(s persist.Step) error {
			if s == persist.StepBulk && moves.Add(-1) == 0 {
				r.moveFence()
			}
			return nil
		}
	})
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 10)
	base := headOf(r.await(thread(0), "p", 10)).Pack
	was, _ := r.pack(base)
	if n := p.Stats().Refused; n != 0 {
		t.Fatalf("Stats().Refused = %d before the fence moved, want 0", n)
	}

	moves.Store(1)
	r.publish(pub, thread(0), 10, 20)
	next := headOf(r.await(thread(0), "p", 20)).Pack
	must.Same(t, p.Stats().Refused, 1, "Stats().Refused = %d, want %d")
	now, touched := r.pack(base)
	if now.Seq <= was.Seq || touched.Order != was.Seq {
		t.Errorf("pack of the base: revision %d, order %d, want it touched: above %d, order %d", now.Seq, touched.Order, was.Seq, was.Seq)
	}

	young, _ := r.pack(next)
	r.publish(pub, thread(0), 20, 30)
	r.await(thread(0), "p", 30)
	if again, _ := r.pack(next); again.Seq != young.Seq {
		t.Errorf("a young pack's record moved from %d to %d, want it left alone", young.Seq, again.Seq)
	}
	if again, _ := r.pack(base); again.Seq != now.Seq {
		t.Errorf("the old pack's record moved again from %d to %d: it is no base any more", now.Seq, again.Seq)
	}

	r.moveFence() // and a second touch keeps the order of the first
	head := r.head(thread(0))
	stale, _ := r.pack(head.Head().Pack)
	r.publish(pub, thread(0), 30, 40)
	r.await(thread(0), "p", 40)
	r.moveFence()
	r.publish(r.Publisher(client.PublisherConfig{Producer: "q"}), thread(1), 0, 1) // another thread touches nothing of this one
	r.await(thread(1), "q", 1)
	if rec, pack := r.pack(head.Head().Pack); rec.Seq <= stale.Seq || pack.Order != stale.Seq {
		t.Errorf("second base: revision %d, order %d, want above %d, order %d", rec.Seq, pack.Order, stale.Seq, stale.Seq)
	}
	r.check(thread(0), 40)
}

// headOf is where the newest state of a thread is.
func headOf(h threads.Head) casstore.Located { return h.Head() }

// movePack does by hand what a repack does: the same nodes under a new id.
func (r *rig) movePack(from casstore.PackID) (to casstore.PackID) {
	r.t.Helper()
	ctx, store := r.t.Context(), r.conn.Store(lane)
	was, old := r.pack(from)
	raw := must.Get(r.conn.Objects().Read(ctx, old.Object))(r.t)
	to = casstore.PackID{0xaa, from[0], from[1]}
	moved := must.Get(store.UploadPack(ctx, to, raw[:old.Header], raw[old.Header:]))(r.t)
	if moved.Order = old.Order; moved.Order == 0 {
		moved.Order = was.Seq
	}
	fence := must.Get(r.conn.Records().Fence(ctx, lane))(r.t)
	must.Get(r.conn.Records().Commit(ctx, fence, []record.Put{
		{Key: events.PackKey(to.String()), Value: moved.Encode(), Expect: 0},
		{Key: events.MovedKey(from.String()), Value: record.Moved{To: to}.Encode(), Expect: 0},
		{Key: events.PackKey(from.String()), Value: record.Pack{Gone: true, Object: old.Object}.Encode(), Expect: was.Seq},
	}))(r.t)
	return to
}

// TestCommitOnAMovedPack: after a repack a commit touches the pack that has the nodes now, and readers find them there.
func TestCommitOnAMovedPack(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, c *persist.Config) { c.Lane = lane })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 20)
	first := headOf(r.await(thread(0), "p", 20)).Pack
	second := r.movePack(first)
	third := r.movePack(second)
	order, _ := r.pack(third)
	tombstone, _ := r.pack(first)
	r.moveFence()
	r.publish(pub, thread(0), 20, 30)
	r.await(thread(0), "p", 30)

	if rec, pack := r.pack(third); rec.Seq <= order.Seq || pack.Gone || pack.Order == 0 || pack.Order >= order.Seq {
		t.Errorf("pack that has the nodes now: revision %d, %+v, want it touched: above %d, with the order of the first",
			rec.Seq, pack, order.Seq)
	}
	if rec, pack := r.pack(first); rec.Seq != tombstone.Seq || !pack.Gone {
		t.Errorf("tombstone: revision %d, gone %v, want it as it was: %d", rec.Seq, pack.Gone, tombstone.Seq)
	}
	fresh := client.New(r.conn) // without the packs that others have in memory
	head := r.head(thread(0))
	must.Is(t, threads.Verify(t.Context(), fresh.Reader(), head), nil, "Verify")
	var out bytes.Buffer
	if n, err := fresh.Thread(thread(0)).Export(t.Context(), &out); err != nil || n != 30 {
		t.Errorf("Export = %d entries, %v, want 30", n, err)
	}
}

// TestThreadOnACollectedPackIsLatched: when the pack that a thread stands on is gone, its events go to the dead letters
// and other threads go on.
func TestThreadOnACollectedPackIsLatched(t *testing.T) {
	r := newRig(t)
	p := r.start(func(_ *persist.Deps, c *persist.Config) { c.Lane = lane })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, thread(0), 0, 5)
	id := headOf(r.await(thread(0), "p", 5)).Pack
	_, pack := r.pack(id)
	pack.Gone = true
	must.Get(r.conn.Records().Write(t.Context(), record.Put{Key: events.PackKey(id.String()), Value: pack.Encode(), Expect: record.Any}))(t)
	r.moveFence()
	must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: message("e", "user", 10)}))(t)
	other := r.Publisher(client.PublisherConfig{Producer: "q"})
	r.publish(other, thread(1), 0, 50)
	r.await(thread(1), "q", 50)
	r.check(thread(1), 50)
	for it := range must.All(t, r.letters()) {
		if it.Subject != events.DeadSubject("s0", "main", "entry") {
			t.Errorf("dead letter on %s, want one of %s", it.Subject, thread(0))
		}
		break
	}
	if n := p.Stats().Entries; n < 55 {
		t.Errorf("Stats().Entries = %d, want 55 at least", n)
	}
}

// TestDuplicatesAndFencedProducers: what a producer publishes again adds nothing, and a greater epoch ends the lower
// ones: what comes of these behind it is a dead letter, once, but for what was applied before.
func TestDuplicatesAndFencedProducers(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	for range 3 {
		r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(0), 0, 30)
	}
	r.await(thread(0), "p", 30)
	say := func(epoch, seq uint64, id string) {
		t.Helper()
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p", Epoch: epoch}).Publish(t.Context(),
			client.Entry{Thread: thread(0), Dialect: "omp", Body: message(id, "user", 100), Seq: seq}))(t)
	}
	say(2, 1, "e00030")
	say(0, 31, "fenced")
	say(0, 31, "fenced")
	say(1, 99, "fenced")
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(0), 0, 30)
	say(2, 1, "another entry has its sequence")
	say(2, 2, "e00031")
	must.Do(t, r.Thread(thread(0)).Await(t.Context(), "p", 2, 2))
	r.check(thread(0), 32)
	must.Until(t, "three are dead", func() bool { return p.Stats().Dead == 3 }) // it counts behind its commit
	s := p.Stats()
	if s.Repeated != 91 || s.Entries != 32 || s.Dead != 3 {
		t.Errorf("Stats() = %+v, want 91 repeated, 32 entries, 3 dead", s)
	}
}

package persist_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// busyPurge is where the events of sessions cannot be purged for a while: a partition's consumer has no leader.
type busyPurge struct {
	persist.Sessions
	asked, free chan struct{}
	once        *sync.Once
}

func (b busyPurge) PurgeEvents(ctx context.Context, session string, partition int, seq uint64) (bool, error) {
	b.once.Do(func() { close(b.asked) })
	select {
	case <-b.free:
		return b.Sessions.PurgeEvents(ctx, session, partition, seq)
	default:
		return false, fmt.Errorf("%w: the consumer has no leader", record.ErrBusy)
	}
}

// While the events of a deleted session cannot be purged, other sessions go on, in other partitions and behind it.
func TestOthersGoOnWhileEventsCannotBePurged(t *testing.T) {
	r := newRig(t)
	ctx, id := t.Context(), thread(1)
	busy := busyPurge{asked: make(chan struct{}), free: make(chan struct{}), once: new(sync.Once)}
	r.start(func(d *persist.Deps, _ *persist.Config) { busy.Sessions = d.Sessions; d.Sessions = busy })
	free := sync.OnceFunc(func() { close(busy.free) })
	defer free()
	r.steps(id, r.Publisher(client.PublisherConfig{Producer: "p"}), 1, 6)
	del := r.Publisher(client.PublisherConfig{Producer: "eraser"})
	must.Do(t, del.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	must.Receive(t, busy.asked, "nothing is purged")
	for i := range 10 { // of any partition
		other := thread(10 + i)
		r.steps(other, r.Publisher(client.PublisherConfig{Producer: "q"}), 1, 3)
		r.items(other, 2)
	}
	free()
	at := must.Get(r.conn.Events().NewestEvent(ctx, id))(t)
	natstest.AwaitAckFloor(t, r.conn, at.Partition, at.Seq)
	if n := r.stored(events.EventsStream, events.StoredOfSession(id.Session)); n != 1 {
		t.Errorf("SPOOL_EVENTS holds %d messages of a deleted session, want the deletion alone", n)
	}
}

// A deletion that was done, and behind which processes died, is a repeat that nobody tries any more: the session's events go all the same.
func TestEventsGoOfADeletionOverWhichProcessesDied(t *testing.T) {
	r := newRig(t)
	ctx, id := t.Context(), thread(1)
	first := r.start(nil)
	r.steps(id, r.Publisher(client.PublisherConfig{Producer: "p"}), 1, 6)
	_ = first.stop()
	del := r.Publisher(client.PublisherConfig{Producer: "eraser"})
	must.Do(t, del.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(persist.StepPurge, 2) }).killed(t) // the first are items
	at := must.Get(r.conn.Events().NewestEvent(ctx, id))(t)
	rs := must.Get(r.conn.Records().Records(ctx, events.DeletedKey(id.Session)))(t)
	rec := must.Get(record.DecodeDeleted(rs[0].Value))(t)
	must.Same(t, rec.State, record.Done, "the deletion is %d, want %d")
	died := record.Tried{Lo: at.Seq, Hi: at.Seq, Alone: true, Stored: rec.Stored, Life: record.Life{3}, Died: []record.Life{{1}, {2}}}
	fence := must.Get(r.conn.Records().Fence(ctx, 0))(t)
	must.Get(r.conn.Records().Commit(ctx, fence, []record.Put{
		{Key: events.TriedKey(at.Partition), Value: died.Encode(), Expect: record.Any}}))(t)
	r.start(nil)
	natstest.AwaitAckFloor(t, r.conn, at.Partition, at.Seq)
	if n := r.stored(events.EventsStream, events.StoredOfSession(id.Session)); n != 1 {
		t.Errorf("SPOOL_EVENTS holds %d messages of a deleted session, want the deletion alone", n)
	}
}

// A deletion that the store refuses for good when it has begun is a dead letter: what the session has in SPOOL_EVENTS stays until it is
// deleted again.
func TestDeletionRefusedHalfWay(t *testing.T) {
	r := newRig(t)
	first := r.start(nil)
	ctx := t.Context()
	const many = 1000
	var es []client.Entry
	for i := range many {
		es = append(es, client.Entry{Thread: events.Thread{Session: "s", Name: fmt.Sprint("t", i)}, Dialect: "step",
			Body: []byte(`{"role":"coder","content":"x","timestamp":1795176000000}`), Seq: uint64(i + 1)})
	}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(ctx, es...))(t)
	r.await(es[many-1].Thread, "p", many)
	_ = first.stop()
	had := r.stored(events.EventsStream, events.StoredOfSession("s"))
	var batches atomic.Int64
	p := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepRemove && batches.Add(1) == 2 {
				return fmt.Errorf("%w: the second batch", record.ErrRefused)
			}
			return nil
		}
	})
	del := r.Publisher(client.PublisherConfig{Producer: "eraser"})
	must.Do(t, del.Control(ctx, es[0].Thread, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	at := must.Get(r.conn.Events().NewestEvent(ctx, events.Thread{Session: "s", Name: events.EveryThread}))(t)
	natstest.AwaitAckFloor(t, r.conn, at.Partition, at.Seq)
	must.Same(t, p.Stats().Dead, 1, "%d dead letters, want %d")
	if n := r.stored(events.EventsStream, events.StoredOfSession("s")); n != had+1 {
		t.Errorf("SPOOL_EVENTS holds %d messages of a session whose deletion was refused, want %d and the deletion", n, had)
	}
}

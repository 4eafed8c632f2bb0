package persist_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

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

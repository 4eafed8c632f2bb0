package persist_test

import (
	"context"
	"fmt"
	"sync"
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

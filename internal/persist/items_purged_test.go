package persist_test

import (
	"context"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// notTold does not hear that items were stored, and stands still before it tries again.
type notTold struct {
	persist.Outbox
	stands, goOn chan struct{}
	calls        atomic.Int64
}

func (o *notTold) PublishItems(ctx context.Context, items []events.Posted) error {
	err := o.Outbox.PublishItems(ctx, items)
	if err == nil && o.calls.Add(1) == 1 {
		close(o.stands)
		<-o.goOn
		err = record.ErrUnknown
	}
	return err
}

// A persister does not learn that its items are stored, stands still, and another one deletes their session. When it goes on it does
// not store again what was purged.
func TestItemsOfADeletedSessionStayPurged(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	o := &notTold{stands: make(chan struct{}), goOn: make(chan struct{})}
	a := r.deaf(func(d *persist.Deps, _ *persist.Config) { o.Outbox, d.Outbox = d.Outbox, o })
	b := r.deaf()
	r.linked(id, 1, 0)
	r.control(id, "operator", deletion())
	r.give(a, 1, 1)
	<-o.stands
	r.give(b, 1, 2)
	r.through(b, 2)
	close(o.goOn)
	r.through(a, 1)
	if n, _ := must.Two(r.conn.Items().LastItem(t.Context(), id))(t); n != 0 || o.calls.Load() != 1 {
		t.Errorf("item %d of the deleted session is there, behind %d publishes", n, o.calls.Load())
	}
}

package persist_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

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

package persist_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/apply"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

func (r *rig) linked(id events.Thread, seq, prev uint64) {
	r.t.Helper()
	r.store(&events.Event{
		Producer: "p", Seq: seq, Prev: prev, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1,
		Body: message(fmt.Sprintf("e%05d", seq-1), "user", 10),
	})
}

// store publishes an event with the link that it has, as one from another language.
func (r *rig) store(e *events.Event) {
	r.t.Helper()
	m := &nats.Msg{Subject: events.EventSubject(e.Thread, e.Kind), Data: e.Encode()}
	must.Get(r.conn.JetStream().PublishMsg(r.t.Context(), m))(r.t)
}

// What is linked to an event that was never stored is skipped, and counted: its producer was told, and publishes both again.
func TestSuperseded(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	id := thread(0)
	r.linked(id, 1, 0)
	r.linked(id, 3, 2) // 2 was lost
	r.linked(id, 4, 3)
	r.give(p, 1, 2)
	r.through(p, 2)
	p2 := r.deaf() // has seen nothing of it
	r.give(p2, 3, 3)
	r.through(p2, 1)
	if s, s2 := p.Stats(), p2.Stats(); s.Superseded != 1 || s2.Superseded != 1 || s.Repeated+s2.Repeated != 0 {
		t.Errorf("superseded %d and %d, repeated %d and %d, want 1 and 1, 0 and 0", s.Superseded, s2.Superseded, s.Repeated, s2.Repeated)
	}
	r.linked(id, 2, 1)
	r.linked(id, 3, 2)
	r.linked(id, 4, 3)
	r.give(p, 4, 6)
	r.await(id, "p", 4)
	r.wantEntries(id, 4)
	r.noDead()
}

// An event whose predecessor may have been stored, and is in EVENTS no more, is a dead letter that says so; what its producer
// publishes again is taken.
func TestUnlinked(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	id := thread(0)
	for i := range 3 {
		r.linked(thread(7), uint64(i+1), 0)
	}
	r.linked(id, 2, 1)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
	r.give(p, 4, 4)
	r.through(p, 1)
	if why := r.whyDead(); len(why) != 1 || !strings.Contains(why[0], apply.ErrUnlinked.Error()) {
		t.Errorf("dead letters %q, want one that says %q", why, apply.ErrUnlinked)
	}
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	r.give(p, 5, 6)
	r.await(id, "p", 2)
	r.wantEntries(id, 2)
}

// An event that is linked to an operation which was refused under a name without a thread is applied also where EVENTS
// has that one no more, as in a restored store.
func TestLinkedToARefusalThatEventsForgot(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	r.control(id, "p", events.Control{Op: events.OpRemove, Remove: &events.Remove{}}) // there is no thread
	first := r.deaf()
	r.give(first, 1, 1)
	r.through(first, 1)
	r.linked(id, 2, 1)
	r.linked(id, 3, 2)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(2)))
	second := r.deaf()
	r.give(second, 2, 3)
	r.through(second, 2)
	if why := r.whyDead(); len(why) != 1 || strings.Contains(why[0], apply.ErrUnlinked.Error()) {
		t.Errorf("dead letters %q, want the one of the operation", why)
	}
	if h, err := r.Thread(id).Head(t.Context()); err != nil || h.Entries != 2 {
		t.Errorf("the thread: %+v, %v, want two entries", h, err)
	}
}

// A batch in the middle of which its session is deleted: the rest of it is not skipped without a word.
func TestLinkedOverADeletion(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	id := thread(0)
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	must.Do(t, q.Control(t.Context(), id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	r.linked(id, 3, 2)
	r.linked(id, 4, 3)
	r.give(p, 1, 5)
	r.through(p, 5)
	why := r.whyDead()
	if len(why) != 2 || !strings.Contains(why[0], apply.ErrUnlinked.Error()) || !strings.Contains(why[1], apply.ErrUnlinked.Error()) {
		t.Errorf("dead letters %q, want two that say %q", why, apply.ErrUnlinked)
	}
	r.linked(id, 5, 0)
	r.give(p, 6, 6)
	r.await(id, "p", 5)
}

// The same where the thread has seen a later event of the producer since: that one says nothing of what the deletion took.
func TestLinkedOverADeletionInASuccessor(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		r := newRig(t)
		p := r.deaf()
		id, other := events.Thread{Session: "s", Name: "b"}, events.Thread{Session: "s", Name: "c"}
		r.linked(id, 1, 0)
		r.control(id, "q", deletion())
		if renamed {
			r.linked(other, 2, 0)
			r.control(other, "mv", renameTo(id.Name))
		} else {
			r.linked(id, 2, 0)
		}
		r.linked(id, 3, 1)
		r.giveAll(p)
		if why := r.whyDead(); len(why) != 1 || !strings.Contains(why[0], apply.ErrUnlinked.Error()) {
			t.Errorf("renamed %v: dead letters %q, want one that says %q", renamed, why, apply.ErrUnlinked)
		}
	}
}

// An event of a thread that was removed, and whose name was taken again, is not applied to the new one when it comes again.
func TestNothingOfAFormerLife(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	id := thread(0)
	r.linked(id, 1, 0)
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	must.Do(t, q.Control(t.Context(), id, 1, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	r.publish(r.Publisher(client.PublisherConfig{Producer: "x"}), id, 0, 1)
	r.give(p, 1, 3)
	r.await(id, "x", 1)
	again := r.deaf()
	r.give(again, 1, 3)
	r.through(again, 3)
	if h := r.head(id); h.Entries != 1 {
		t.Errorf("%d entries, want the one of the new thread", h.Entries)
	}
	r.linked(id, 2, 1) // linked to one that the former thread had
	r.give(again, 4, 4)
	r.await(id, "p", 2)
	r.noDead()
}

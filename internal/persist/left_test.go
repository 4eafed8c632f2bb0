package persist_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A persister that remembers a renamed thread of a session that another one deleted refuses nothing that went with the
// session: its dead letters were purged with it.
func TestRenamedInADeletedSession(t *testing.T) {
	r := newRig(t)
	a, b := r.deaf(), r.deaf()
	id := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	r.publish(pub, id, 0, 1)
	q := r.Publisher(client.PublisherConfig{Producer: "q"})
	rename := events.Control{Op: events.OpRename, Rename: &events.Rename{To: "elsewhere"}}
	must.Do(t, q.Control(t.Context(), id, 1, rename))
	r.publish(pub, id, 1, 2)
	r.publish(pub, id, 2, 3)
	r.give(a, 1, 3)
	r.through(a, 3)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	late := must.Get(s.GetMsg(t.Context(), 4))(t)
	remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
	must.Do(t, q.Control(t.Context(), events.Thread{Session: id.Session, Name: "main"}, 2, remove))
	r.give(b, 1, 4)
	r.through(b, 4)
	if n := len(r.whyDead()); n != 2 {
		t.Fatalf("%d dead letters before the deletion, want those of the two entries under the old name", n)
	}
	r.give(b, 5, 5)
	r.through(b, 5)

	a.Deliver(t.Context(), persist.Message{
		Subject: late.Subject, Data: late.Data, Seq: 4, Stored: late.Time.UnixNano(), Ack: func() error { return nil },
	})
	r.through(a, 4)
	if s := a.Stats(); s.Dead != 1 {
		t.Errorf("%d dead letters, want that from before the deletion alone", s.Dead)
	}
	r.noDead()
}

// What was refused before a deletion in the same batch is a dead letter: the deletion itself does not put it in doubt.
func TestRefusedBeforeADeletion(t *testing.T) {
	r := newRig(t)
	hold, held := make(chan struct{}), make(chan struct{})
	armed := true
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepCommit && armed {
				armed = false
				close(held)
				<-hold
			}
			return nil
		}
	})
	id := thread(0)
	pub, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	r.publish(pub, id, 0, 1)
	r.give(p, 1, 1)
	<-held
	rename := events.Control{Op: events.OpRename, Rename: &events.Rename{To: "elsewhere"}}
	must.Do(t, q.Control(t.Context(), id, 1, rename))
	r.publish(pub, id, 1, 2)
	remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
	must.Do(t, q.Control(t.Context(), id, 2, remove))
	r.give(p, 2, 4) // the last two are in one batch behind the rename
	close(hold)
	r.through(p, 4)
	if s := p.Stats(); s.Dead != 1 {
		t.Errorf("%d dead letters, want that of the entry under the old name", s.Dead)
	}
	r.noDead() // it was purged with the session
}

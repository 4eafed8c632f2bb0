package persist_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/events"
)

// slowSessions stops a persister while it finishes a deletion, once.
type slowSessions struct {
	persist.Sessions
	at      string
	stalled chan struct{}
	goOn    chan struct{}
	once    sync.Once
}

func newSlowSessions(at string) *slowSessions {
	return &slowSessions{at: at, stalled: make(chan struct{}), goOn: make(chan struct{})}
}

func (s *slowSessions) stall(at string) {
	if s.at == at {
		s.once.Do(func() {
			close(s.stalled)
			<-s.goOn
		})
	}
}

func (s *slowSessions) SessionEnds(ctx context.Context) (items, dead uint64, err error) {
	s.stall("before the look at the streams")
	items, dead, err = s.Sessions.SessionEnds(ctx)
	s.stall("behind the look at the streams")
	return items, dead, err
}

func (s *slowSessions) PurgeSession(ctx context.Context, session string, how record.Deleted) error {
	s.stall("before the purge")
	return s.Sessions.PurgeSession(ctx, session, how)
}

// control stores an operation as it is.
func (r *rig) control(in events.Thread, producer string, op events.Control) {
	r.t.Helper()
	r.store(&events.Event{Producer: producer, Seq: 1, Kind: events.KindControl, Thread: in, Time: 1, Body: op.Encode()})
}

func deletion() events.Control {
	return events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
}

func (r *rig) refusedIn(seq uint64) {
	r.t.Helper()
	must.Until(r.t, fmt.Sprintf("event %d is noted as refused", seq), func() bool {
		rs := must.Get(r.conn.Records().Records(r.t.Context(), events.RefusedKey(0)))(r.t)
		v, err := record.DecodeRefused(rs[0].Value)
		return rs[0].Exists() && err == nil && v.Top >= seq
	})
}

// The next life of a session keeps its dead letters, wherever a persister is slow that finishes the deletion, and however many do: a
// letter of an event behind the deletion is not among what goes with the life before.
func TestLetterBehindADeletion(t *testing.T) {
	for _, at := range []string{"nowhere", "before the look at the streams", "behind the look at the streams", "before the purge"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			id := thread(0)
			slow := newSlowSessions(at)
			a := r.deaf(func(d *persist.Deps, _ *persist.Config) { slow.Sessions, d.Sessions = d.Sessions, slow })
			release := sync.OnceFunc(func() { close(slow.goOn) })
			defer release()
			r.linked(id, 1, 0)
			r.control(id, "operator", deletion())
			r.control(id, "agent", events.Control{Op: events.OpEnd, End: &events.End{}}) // there is no thread
			r.linked(id, 2, 0)
			r.give(a, 1, 4)
			if at != "nowhere" {
				<-slow.stalled
				r.refusedIn(3) // the next commit is on its way
				b := r.deaf()
				r.give(b, 1, 4)
				r.through(b, 4)
				release()
			}
			r.through(a, 4)
			if why := r.whyDead(); len(why) != 1 {
				t.Errorf("dead letters %q, want the one of the event behind the deletion", why)
			}
		})
	}
}

// Whoever goes on with a deletion keeps what another persister refused of the session's next life: that one may send its letter yet.
func TestRefusedBehindADeletion(t *testing.T) {
	r := newRig(t)
	id, late := thread(0), events.Thread{Session: thread(0).Session, Name: "late"}
	slow := newSlowSessions("before the purge")
	a := r.deaf(func(d *persist.Deps, _ *persist.Config) { slow.Sessions, d.Sessions = d.Sessions, slow })
	release := sync.OnceFunc(func() { close(slow.goOn) })
	defer release()
	r.linked(id, 1, 0)
	r.control(id, "operator", deletion())
	passings[0].publish(r, late) // the thread is not there yet that it forks
	r.give(a, 1, 3)
	<-slow.stalled
	r.refusedIn(3)
	passings[0].settle(r)
	b := r.deaf()
	r.give(b, 1, 3)
	r.through(b, 3)
	release()
	r.through(a, 3)
	if why := r.whyDead(); passings[0].applied(r, late) || len(why) != 1 {
		t.Errorf("applied: %v, dead letters %q, want it refused", passings[0].applied(r, late), why)
	}
}

// Of two persisters that have a deletion, one of which refuses it and the other deletes the session, the first one counts for both.
func TestDeletionRefusedByOneDoneByTheOther(t *testing.T) {
	for _, refusalFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("refused first: ", refusalFirst), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			id, none := thread(0), events.Thread{Session: thread(0).Session, Name: "none"}
			r.linked(id, 1, 0)
			r.give(r.deaf(), 1, 1)
			r.await(id, "p", 1)
			r.control(none, "operator", deletion()) // no head notes it
			refuses, refuse, atCommit := holdAt(persist.StepCommit)
			deletes, remove, atRemove := holdAt(persist.StepRemove)
			defer refuse()
			defer remove()
			a := r.deaf(atCommit, func(d *persist.Deps, _ *persist.Config) { d.Sessions = nil })
			b := r.deaf(atRemove)
			r.give(a, 2, 2)
			<-refuses
			r.give(b, 2, 2)
			<-deletes
			if refusalFirst {
				r.inTurn(a, b, refuse, remove)
			} else {
				r.inTurn(b, a, remove, refuse)
			}
			_, err := r.Thread(id).Head(t.Context())
			if why := r.whyDead(); err == nil != refusalFirst || len(why) > 0 != refusalFirst {
				t.Errorf("the thread: %v; dead letters %q", err, why)
			}
		})
	}
}

// stuckSessions refuses for good to finish the deletion of any session.
type stuckSessions struct{ persist.Sessions }

func (stuckSessions) PurgeSession(context.Context, string, record.Deleted) error {
	return fmt.Errorf("%w: it is not to be purged", record.ErrRefused)
}

// A deletion that cannot be finished stops no other session.
func TestDeletionThatCannotBeFinished(t *testing.T) {
	r := newRig(t)
	p := r.deaf(func(d *persist.Deps, _ *persist.Config) { d.Sessions = stuckSessions{d.Sessions} })
	r.linked(thread(0), 1, 0)
	r.control(thread(0), "operator", deletion())
	r.linked(thread(1), 1, 0)
	r.linked(thread(0), 2, 0)
	r.give(p, 1, 4)
	r.through(p, 4)
	r.wantEntries(thread(1), 1)
	next := r.deaf()
	r.control(thread(0), "operator again", deletion())
	r.give(next, 5, 5)
	r.through(next, 1)
	if n := r.stored(events.ItemsStream, events.ItemsOfSession(thread(0).Session)); n != 0 {
		t.Errorf("%d items are left when it is deleted again, want none", n)
	}
}

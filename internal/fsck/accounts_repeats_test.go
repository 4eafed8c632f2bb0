package fsck_test

import (
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/pkg/events"
)

// TestAccountOfRepeats: what a producer sends again is a repeat, whatever became of the names of its threads and of its
// dead letters meanwhile.
func TestAccountOfRepeats(t *testing.T) {
	id, other := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "o"}
	event := func(t events.Thread, seq uint64, text string) events.Event {
		return events.Event{Thread: t, Producer: "p", Seq: seq, Body: step(text)}
	}
	letters := func(do func(*world, uint64) error) func(*world) {
		return func(w *world) {
			for _, d := range must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w) {
				must.Do(w, do(w, d.At))
			}
		}
	}
	replay := letters(func(w *world, at uint64) error {
		must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w)
		return w.cl.Admin().RemoveDeadLetters(w.Context(), at)
	})
	remove := letters(func(w *world, at uint64) error { return w.cl.Admin().RemoveDeadLetters(w.Context(), at) })
	for _, c := range []struct {
		name   string
		before []events.Event
		then   func(*world)
		again  []events.Event
		want   fsck.Accounts
	}{
		{
			"in a name that another thread was renamed into",
			[]events.Event{event(id, 1, "one"), event(other, 2, "two"), event(id, 3, "three"), event(other, 4, "four")},
			func(w *world) {
				must.Do(w, w.cl.Thread(id).Remove(w.Context()))
				must.Do(w, w.cl.Thread(other).Rename(w.Context(), "main"))
			},
			[]events.Event{event(id, 3, "three"), event(id, 1, "one"), event(id, 5, "five"), event(id, 3, "three")},
			fsck.Accounts{Events: 10, Applied: 3, Noted: 1, Repeated: 3, Removed: 3},
		},
		{
			"of both threads, in a name that another thread with the same sequences was renamed into",
			[]events.Event{event(id, 1, "one"), event(id, 2, "two"), event(other, 1, "uno"), event(other, 2, "due")},
			func(w *world) {
				must.Do(w, w.cl.Thread(id).Remove(w.Context()))
				must.Do(w, w.cl.Thread(other).Rename(w.Context(), "main"))
			},
			[]events.Event{event(id, 2, "two"), event(id, 3, "three"), event(id, 2, "due"), event(id, 1, "one"), event(id, 1, "uno")},
			fsck.Accounts{Events: 11, Applied: 3, Noted: 1, Repeated: 2, Refused: 2, Removed: 3},
		},
		{
			"under the old name of a thread whose new one was removed",
			[]events.Event{event(id, 1, "one"), event(id, 2, "two")},
			func(w *world) {
				must.Do(w, w.cl.Thread(id).Rename(w.Context(), "o"))
				must.Do(w, w.cl.Thread(other).Remove(w.Context()))
			},
			[]events.Event{event(id, 2, "two")},
			fsck.Accounts{Events: 5, Repeated: 1, Removed: 4},
		},
		{
			"of a dead letter that was published again",
			[]events.Event{event(id, 1, "one"), event(id, 2, "two"), event(id, 1, "other")}, replay,
			[]events.Event{event(id, 1, "other")},
			fsck.Accounts{Events: 5, Applied: 3, Refused: 1, Repeated: 1},
		},
		{
			"of a dead letter that was removed",
			[]events.Event{event(id, 1, "one"), event(id, 2, "two"), event(id, 1, "other")}, remove,
			[]events.Event{event(id, 1, "other")},
			fsck.Accounts{Events: 4, Applied: 2, Refused: 1, Repeated: 1},
		},
		{
			"of a late dead letter that was removed",
			[]events.Event{event(id, 1, "one"), event(id, 3, "three"), event(id, 2, "two")}, remove,
			[]events.Event{event(id, 2, "two")},
			fsck.Accounts{Events: 4, Applied: 2, Refused: 1, Repeated: 1},
		},
		{
			"of a dead letter that was published again, and EVENTS forgot",
			[]events.Event{event(id, 1, "one"), event(id, 3, "three"), event(id, 2, "two")},
			func(w *world) {
				replay(w)
				w.settle()
				s := must.Get(w.conn.JetStream().Stream(w.Context(), events.EventsStream))(w)
				for seq := range uint64(3) {
					must.Do(w, s.DeleteMsg(w.Context(), seq+1))
				}
			},
			[]events.Event{event(id, 2, "two")},
			fsck.Accounts{Events: 2, Applied: 1, Repeated: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.raw(c.before...)
			w.settle()
			c.then(w)
			w.settle()
			w.raw(c.again...)
			w.wantAccounts(c.want)
		})
	}
}

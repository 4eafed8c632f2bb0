package fsck_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// account waits until all is applied, and accounts for it.
func (w *world) account() *fsck.Accounts {
	w.Helper()
	w.settle()
	return must.Get(fsck.Account(w.Context(), natsadmin.Of(w.conn), w.cl.Internal().Source()))(w)
}

// wantAccounts fails unless that is counted, and nothing found.
func (w *world) wantAccounts(want fsck.Accounts) {
	w.Helper()
	got := w.account()
	same(w.T, got, want)
	must.Same(w, len(got.Findings), 0, "%v: %d findings, want %d", got.Findings)
}

// wantNoFindings fails where an event is not accounted for, also of those that no persister is said to have applied.
func (w *world) wantNoFindings() {
	w.Helper()
	if a := w.accountLost(lostLedger{}); len(a.Findings) > 0 {
		w.Errorf("findings %v in a healthy system: %+v", a.Findings, a)
	}
}

// settle waits until persisters have acknowledged every event.
func (w *world) settle() {
	w.Helper()
	must.Do(w, faulttest.Settle(w.Context(), w.conn))
}

// raw publishes events as another program may, and waits for nothing.
func (w *world) raw(evs ...events.Event) {
	w.Helper()
	for _, e := range evs {
		if e.Dialect == "" {
			e.Dialect = "step"
		}
		e.Kind = max(e.Kind, events.KindEntry)
		must.Get(w.conn.JetStream().Publish(w.Context(), events.EventSubject(e.Thread, e.Kind), e.Encode()))(w)
	}
}

func step(text string) []byte {
	return fmt.Appendf(nil, `{"id":"%s","role":"coder","content":"%s"}`, text, text)
}

// same compares what is counted.
func same(t *testing.T, got *fsck.Accounts, want fsck.Accounts) {
	t.Helper()
	if d := cmp.Diff(want, *got, cmpopts.IgnoreFields(fsck.Accounts{}, "Findings", "Unaccounted")); d != "" {
		t.Errorf("accounts differ (-want +got):\n%s%v", d, got.Findings)
	}
	addsUp(t, got)
}

// addsUp fails unless each event counts as one thing.
func addsUp(t *testing.T, a *fsck.Accounts) {
	t.Helper()
	sum := a.Applied + a.Noted + a.Repeated + a.Refused + a.Superseded + a.Fenced + a.Removed + a.Unknown + a.Unaccounted
	if sum != a.Events || a.Unaccounted < int64(len(a.Findings)) {
		t.Errorf("Account() = %+v, want counts that add up to %d events, not to %d, and no more findings than events that are unaccounted for",
			a, a.Events, sum)
	}
}

func TestAccountOfEverything(t *testing.T) {
	w := newWorld(t)
	w.fill()
	a := w.account()
	if len(a.Findings) > 0 || a.Applied == 0 || a.Noted == 0 || a.Events != a.Applied+a.Noted+a.Repeated+a.Refused+a.Superseded+a.Removed {
		t.Errorf("Account() = %+v, want all events of a healthy system accounted for", a)
	}
}

func TestAccountClasses(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	one := events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")}
	w.raw(one)
	w.raw(one)                                                                            // its ack was lost
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Body: []byte("{")})             // refused
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 3, Prev: 2, Body: step("three")})  // behind a refused one
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 6, Prev: 5, Body: step("six")})    // 5 was not stored
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 7, Prev: 6, Body: step("seven")})  // … and the rest of its call
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 5, Body: step("five")})            // all three again
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 6, Prev: 5, Body: step("six, b")}) // other bytes, to tell it from the first
	gone := events.Thread{Session: "s", Name: "gone"}
	w.raw(events.Event{Thread: gone, Producer: "p", Seq: 1, Body: step("gone")})
	w.settle()
	must.Do(w, w.cl.Thread(gone).Remove(w.Context()))
	w.wantAccounts(fsck.Accounts{Events: 10, Applied: 4, Repeated: 1, Refused: 1, Superseded: 2, Removed: 2})
}

// An entry with another one's sequence is a dead letter; both are a repeat when they are sent again.
func TestAccountOfReusedSequences(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	for _, text := range []string{"one", "two", "one", "three", "two", "three"} {
		w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step(text)})
	}
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Body: step("four")})
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")})
	w.settle()
	w.wantAccounts(fsck.Accounts{Events: 8, Applied: 2, Repeated: 4, Refused: 2})
}

// A line that is sent again with another end is the same entry; the thread has it as it came first.
func TestAccountOfOtherLineEnds(t *testing.T) {
	for _, dialect := range []string{"step", "raw"} {
		t.Run(dialect, func(t *testing.T) {
			w := newWorld(t)
			id := events.Thread{Session: "s", Name: "main"}
			send := func(seq uint64, body string) {
				w.raw(events.Event{Thread: id, Producer: "p", Seq: seq, Dialect: dialect, Body: []byte(body)})
			}
			one, two := string(step("one")), string(step("two"))
			for _, end := range []string{"\r", "", " \t\n"} {
				send(1, one+end)
			}
			send(1, two)
			for _, end := range []string{"", "\r"} {
				send(2, two+end)
				send(1, one+end)
				send(1, two+end) // which is a dead letter
			}
			w.wantAccounts(fsck.Accounts{Events: 10, Applied: 2, Repeated: 7, Refused: 1})
			var out strings.Builder
			must.Get(w.cl.Thread(id).Export(t.Context(), &out))(w)
			must.Same(t, out.String(), one+"\r\n"+two+"\n", "export %q, want %q")
		})
	}
}

// Operations that are sent again behind the beginning of another thread: one that was refused is refused again, a removal is a repeat, and
// the thread stays.
func TestAccountOfRepeatedOperations(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	remove := func(producer string) {
		op := events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
		must.Do(w, w.cl.Publisher(client.PublisherConfig{Producer: producer}).Control(w.Context(), id, 1, op))
	}
	remove("early") // there is no thread
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")})
	remove("early")
	remove("op")
	w.raw(events.Event{Thread: id, Producer: "q", Seq: 1, Body: step("two")})
	remove("op")
	remove("early")
	w.settle()
	w.wantAccounts(fsck.Accounts{Events: 7, Applied: 1, Refused: 2, Removed: 2, Noted: 2})
}

// A letter that an operator removed leaves a note, so that its event is told from one that was lost.
func TestAccountOfRemovedLetters(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: []byte("{")})
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Body: []byte("[")})
	w.settle()
	letters := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)
	if len(letters) != 2 {
		t.Fatalf("%d dead letters, want 2", len(letters))
	}
	must.Do(w, w.cl.Admin().RemoveDeadLetters(w.Context(), letters[0].At, letters[1].At))
	w.wantAccounts(fsck.Accounts{Events: 2, Refused: 2})
}

// A refused event that is published again behind a later one, in a store that has its letter and not its first message,
// as one that was restored: the letter tells of it.
func TestAccountOfARefusedEventPublishedAgain(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	bad := events.Event{Thread: id, Producer: "p", Seq: 1, Body: []byte("{")}
	w.raw(bad)
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Body: step("two")})
	w.settle()
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.EventsStream))(w)
	must.Do(w, s.DeleteMsg(w.Context(), 1))
	w.raw(bad)
	w.wantAccounts(fsck.Accounts{Events: 2, Applied: 1, Repeated: 1})
}

// A producer that gives the sequence of an entry to an operation: that is a dead letter.
func TestAccountTellsReusedSequences(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")})
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Kind: events.KindControl,
		Body: events.Control{Op: events.OpEnd, End: &events.End{}}.Encode()})
	w.wantAccounts(fsck.Accounts{Events: 2, Applied: 1, Refused: 1})
}

// Two operations of one kind under one sequence, of which the second one says something else: that is a dead letter.
func TestAccountTellsReusedOperations(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")})
	for _, title := range []string{"x", "y"} {
		w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Kind: events.KindControl,
			Body: events.Control{Op: events.OpName, Name: &events.Name{Title: title}}.Encode()})
	}
	w.settle()
	same(t, w.account(), fsck.Accounts{Events: 3, Applied: 1, Noted: 1, Refused: 1})
}

// A head that is set back, with its entries acked, is a loss: each entry is named, whatever dead letters other sessions have.
func TestAccountFindsWhatIsLost(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	p := w.cl.Publisher(client.PublisherConfig{Producer: "p"})
	publish := func(text string) {
		must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step", Body: step(text)}))(w)
		w.settle()
	}
	publish("kept")
	rs, err := w.conn.Records().Records(w.Context(), events.HeadKey(id))
	must.Do(w, err)
	publish("lost")
	publish("lost too")
	other := events.Thread{Session: "other", Name: "main"}
	for i, text := range []string{"kept", "its own", "lost"} { // the third has the sequence of the second
		w.raw(events.Event{Thread: other, Producer: "p", Seq: uint64(min(i+1, 2)), Body: step(text)})
	}
	w.settle()
	w.stop()
	now, err := w.conn.Records().Records(w.Context(), events.HeadKey(id))
	must.Do(w, err)
	fence, err := w.conn.Records().Fence(w.Context(), 0)
	must.Do(w, err)
	_, err = w.conn.Records().Commit(w.Context(), fence, []record.Put{{Key: events.HeadKey(id), Value: rs[0].Value, Expect: now[0].Seq}})
	must.Do(w, err)
	a := w.account()
	same(t, a, fsck.Accounts{Events: 6, Applied: 3, Refused: 1})
	w.finds(a, "SPOOL_EVENTS 2", "neither in its thread nor in the dead letters")
	w.finds(a, "SPOOL_EVENTS 3", "neither in its thread nor in the dead letters")
}

// What is not applied yet is nobody's loss.
func TestAccountLeavesWhatWaits(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")})
	w.settle()
	w.stop()
	w.raw(events.Event{Thread: id, Producer: "p", Seq: 2, Body: step("two")})
	a := must.Get(fsck.Account(w.Context(), natsadmin.Of(w.conn), w.cl.Internal().Source()))(w)
	same(t, a, fsck.Accounts{Events: 1, Applied: 1, Waiting: 1})
}

// The entries of a thread that cannot be read whole are named once, and each of them counts.
func TestAccountOfAThreadThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	for i := range 3 {
		w.raw(events.Event{Thread: id, Producer: "p", Seq: uint64(i + 1), Body: step(strconv.Itoa(i))})
	}
	w.settle()
	w.stop()
	nodes := must.Get(w.conn.JetStream().Stream(w.Context(), "OBJ_spool_nodes"))(w)
	must.Do(w, nodes.Purge(w.Context()))
	a := must.Get(fsck.Account(w.Context(), natsadmin.Of(w.conn), w.cl.Internal().Source()))(w)
	same(t, a, fsck.Accounts{Events: 3})
	w.finds(a, "SPOOL_EVENTS", "s/main: the thread cannot be read whole")
	if a.Unaccounted != 3 || len(a.Findings) != 1 {
		t.Errorf("Account() = %+v, want one finding, and 3 events unaccounted for", a)
	}
}

// finds fails unless one finding is of that record and says that.
func (w *world) finds(a *fsck.Accounts, record, says string) {
	w.Helper()
	for _, f := range a.Findings {
		if f.Record == record && f.Kind == fsck.Unaccounted && strings.Contains(f.Detail, says) {
			return
		}
	}
	w.Errorf("no finding of %s says %q: %v", record, says, a.Findings)
}

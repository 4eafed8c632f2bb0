package fsck_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/redact"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Seams of accounting: the sentence above a test says how a loss could be taken for something else, or something else for a loss.

var (
	thA = events.Thread{Session: "s", Name: "a"}
	thB = events.Thread{Session: "s", Name: "b"}
	thO = events.Thread{Session: "s", Name: "o"}
)

func opOf(t events.Thread, producer string, seq, prev uint64, op events.Control) events.Event {
	return events.Event{Kind: events.KindControl, Thread: t, Producer: producer, Seq: seq, Prev: prev, Body: op.Encode()}
}

func endOp() events.Control {
	return events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}
}

func (w *world) wantNamed(lost events.Event) {
	w.Helper()
	if before := w.accountLost(lostLedger{}); len(before.Findings) > 0 {
		w.Fatalf("findings before anything is lost: %v", before.Findings)
	}
	if a := w.accountLost(lostLedger{lost: &lost}); len(a.Findings) == 0 {
		w.Errorf("Account() = %+v, want the lost event named", a)
	}
}

// The loss of a linked entry behind a rename is "superseded": what it is linked to was seen under the old name.
func TestAccountSeamLinkedBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 2, 1, "two"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.wantNamed(entryOf(thA, "p", 3, 2, "three"))
}

// The thread's entries are counted for each of its names: one that was published under the old name stands for a lost one under the new.
func TestAccountSeamSameBodyUnderAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "same"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.wantNamed(entryOf(thA, "p", 3, 0, "same"))
}

// A dead letter of another thread of the session stands for a lost event.
func TestAccountSeamLetterOfAnotherThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "q", 1, 0, "x"))
	w.raw(opOf(thA, "q", 2, 0, endOp()))
	w.raw(entryOf(thA, "p", 1, 0, "hello")) // the thread has ended: a dead letter
	w.raw(entryOf(thB, "q", 1, 0, "y"))
	w.settle()
	w.wantNamed(entryOf(thB, "p", 1, 0, "hello"))
}

// A dead letter of the removed thread stands for what its successor lost.
func TestAccountSeamLetterOfARemovedThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "two")) // late
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.wantNamed(entryOf(thA, "p", 2, 0, "two"))
}

// The same where the letter was removed by its operator.
func TestAccountSeamRemovedLetterOfARemovedThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "two")) // late
	w.settle()
	for _, d := range must.Get(w.cl.DeadLetters(w.Context(), ""))(w) {
		must.Do(w, w.cl.RemoveDeadLetters(w.Context(), d.At))
	}
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.wantNamed(entryOf(thA, "p", 2, 0, "two"))
}

// A sequence that the successor of a removed thread gave to another entry: the persister makes the old one a dead letter; where that
// is lost, it is "repeated".
func TestAccountSeamReusedOfASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 1, 0, "other"))
	w.settle()
	w.wantNamed(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	t.Logf("what the persister makes of it: %d letters", len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)))
}

// An entry of an epoch that ended is a dead letter; where that is lost, it is "fenced".
func TestAccountSeamLostOfALateEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	next := entryOf(thA, "p", 1, 0, "two")
	next.Epoch = 1
	w.raw(next)
	w.settle()
	w.wantNamed(entryOf(thA, "p", 2, 1, "late"))
}

// An operation that is lost, whose sequence the removed thread of the name had, is "noted".
func TestAccountSeamOperationOfASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	w.wantNamed(opOf(thA, "p", 2, 1, endOp()))
}

// An operation that is dropped under a used sequence, behind a rename, is "noted".
func TestAccountSeamDroppedOperationBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(opOf(thA, "p", 1, 0, endOp()))
	a := w.accountLost(lostLedger{})
	h := must.Get(w.cl.Thread(w.Context(), thA))(w)
	n := len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w))
	if h.Ended() == "" && n == 0 {
		t.Errorf("the end was acked and dropped without a dead letter")
		if len(a.Findings) == 0 {
			t.Errorf("… and Account() = %+v does not name it", a)
		}
	}
}

// The removal of a thread under a sequence that its producer gave to an entry of the removed thread that had the name.
func TestAccountSeamDroppedRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "q", 1, 0, "anew"))
	w.settle()
	w.raw(opOf(thA, "p", 1, 0, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	a := w.accountLost(lostLedger{})
	_, err := w.cl.Thread(w.Context(), thA)
	n := len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w))
	if err == nil && n == 0 {
		t.Errorf("the removal was acked and dropped without a dead letter")
		if len(a.Findings) == 0 {
			t.Errorf("… and Account() = %+v does not name it", a)
		}
	}
}

// An entry of an ended epoch behind a rename: dropped without a letter, and "unknown".
func TestAccountSeamLateEpochBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 2, 1, "two"))
	next := entryOf(thO, "p", 1, 0, "of the successor")
	next.Epoch = 1
	w.raw(next)
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 3, 2, "late"))
	a := w.accountLost(lostLedger{})
	if n := len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)); n == 0 {
		t.Errorf("an entry was acked and dropped without a dead letter")
		if len(a.Findings) == 0 {
			t.Errorf("… and Account() = %+v does not name it", a)
		}
	}
}

// A letter of an event of before SPOOL_EVENTS was made anew stands for the event that has its number now.
func TestAccountSeamLetterOfANumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := entryOf(thA, "p", 1, 0, "x")
	bad.Body = []byte("{")
	w.raw(bad)
	w.settle()
	lost := entryOf(thA, "q", 1, 0, "lost")
	if a := w.accountLost(lostLedger{replace: map[uint64]*events.Event{1: &lost}}); len(a.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost event named", a)
	}
}

func (w *world) wantNoFinding() {
	w.Helper()
	if a := w.accountLost(lostLedger{}); len(a.Findings) > 0 {
		w.Errorf("findings %v in a healthy system: %+v", a.Findings, a)
	}
}

// wantLetterOrNamed: an event that is no repeat was acked and is in no thread.
func (w *world) wantLetterOrNamed() {
	w.Helper()
	a := w.accountLost(lostLedger{})
	if len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)) > 0 {
		return
	}
	w.Errorf("an event was acked and dropped without a dead letter")
	if len(a.Findings) == 0 {
		w.Errorf("… and Account() = %+v does not name it", a)
	}
}

// An entry that is superseded takes the entry of another producer that says the same, which is a finding then.
func TestAccountSeamSupersededTakesAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 6, 5, "continue")) // 5 was not stored: its producer was told
	w.raw(entryOf(thA, "q", 1, 0, "continue"))
	w.wantNoFinding()
}

// A repeat of what a removed thread had takes an entry of its successor that says the same.
func TestAccountSeamRepeatTakesAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 2, 0, "continue"))
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "continue")) // sent again: late, and the removed thread had it
	w.raw(entryOf(thA, "q", 1, 0, "continue"))
	w.wantNoFinding()
}

// A late tail is dropped, for the later event says all that it does.
func TestAccountSeamLateTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tail := func(text string) events.Control {
		return events.Control{Op: events.OpTail, Tail: &events.Tail{Bytes: []byte(text), Open: true}}
	}
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(opOf(thA, "p", 3, 0, tail("ab")))
	w.raw(opOf(thA, "p", 2, 0, tail("a")))
	w.wantNoFinding()
}

// An entry is sent again under the old name, to a thread of which the new name went on to a later epoch.
func TestAccountSeamRepeatsBehindRenames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.Context()
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 2, 1, "two"))
	w.settle()
	must.Do(w, w.cl.Rename(ctx, thO, "a"))
	w.raw(entryOf(thO, "p", 2, 1, "two")) // under the old name
	w.raw(entryOf(thA, "p", 2, 1, "two")) // … and the new one
	w.raw(entryOf(thA, "p", 3, 2, "three"))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Rename(ctx, thA, "b"))
	w.raw(entryOf(thB, "p", 3, 2, "three"))
	w.raw(entryOf(thB, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 3, 2, "three"))
	w.settle()
	must.Do(w, w.cl.Rename(ctx, thB, "a"))
	w.raw(entryOf(thA, "p", 3, 2, "three"))
	w.raw(entryOf(thA, "p", 4, 3, "four"))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 2, 1, "two"))
	w.raw(entryOf(thB, "p", 3, 2, "three"))
	w.wantNoFinding()
}

// The same, behind a removal of the renamed thread whose name begins anew.
func TestAccountSeamRepeatOfARenamedInASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.Context()
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 2, 1, "two"))
	w.settle()
	must.Do(w, w.cl.Rename(ctx, thO, "a"))
	w.raw(entryOf(thA, "p", 3, 2, "three"))
	w.settle()
	must.Do(w, w.cl.Remove(ctx, thA))
	w.raw(entryOf(thA, "p", 4, 3, "four"))
	w.raw(entryOf(thA, "p", 2, 1, "two")) // sent again, under the name that the thread had last
	w.settle()
	t.Logf("%d letters", len(must.Get(w.cl.DeadLetters(ctx, ""))(w)))
	w.wantNoFinding()
}

// An operation that is worded otherwise when it is made again is taken for a repeat.
func TestAccountSeamOperationWordedOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	op := opOf(thA, "p", 2, 1, events.Control{Op: events.OpName, Name: &events.Name{Title: "x"}})
	w.raw(op)
	op.Body = append(op.Body, ' ')
	w.raw(op)
	w.wantNoFinding()
}

// Another thread of the session has an entry of the same sequence that says the same: behind a rename the one that is new is dropped.
func TestAccountSeamSameInAnotherThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thB, "p", 1, 0, "hello"))
	w.raw(entryOf(thO, "p", 1, 0, "other"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 1, 0, "hello"))
	w.wantLetterOrNamed()
}

// An operation under the sequence of an entry.
func TestAccountSeamOperationUnderASequenceOfAnEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(opOf(thA, "p", 1, 0, endOp()))
	w.wantLetterOrNamed()
}

// A message of two entries with one sequence.
func TestAccountSeamOneSequenceTwiceInAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := entryOf(thA, "p", 1, 0, "one")
	e.More = []events.Entry{{Seq: 1, Body: step("other")}}
	w.raw(e)
	w.wantLetterOrNamed()
}

// The same, the first of which is refused: the letter is taken for both.
func TestAccountSeamOneSequenceTwiceInAMessageRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := entryOf(thA, "p", 1, 0, "one")
	e.Body = []byte("{")
	e.More = []events.Entry{{Seq: 1, Body: step("good")}}
	w.raw(e)
	a := w.accountLost(lostLedger{})
	n := len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w))
	h, err := w.cl.Thread(w.Context(), thA)
	t.Logf("%d letters, %d entries, %v, %+v", n, h.Entries, err, a)
	if n < 2 && a.Applied == 0 && len(a.Findings) == 0 {
		t.Errorf("an entry was dropped with no letter of its own and no finding")
	}
}

// atLedger is a ledger in which a message is another event.
type atLedger struct {
	lostLedger
	at   uint64 // becomes another event
	lost events.Event
}

func (l atLedger) Messages(ctx context.Context, stream string, from uint64, f func(uint64, string, []byte) error) error {
	return l.Ledger.Messages(ctx, stream, from, func(seq uint64, subject string, data []byte) error {
		if seq == l.at {
			return f(seq, fmt.Sprintf("spool.v1.p.0.%s.%s.%s", l.lost.Thread.Session, l.lost.Thread.Name, l.lost.Kind), l.lost.Encode())
		}
		return f(seq, subject, data)
	})
}

// What comes under the old name of a thread is a dead letter; where that is lost it is "removed", once the new name was removed.
func TestAccountSeamLostUnderAnOldName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thA, "b"))
	w.raw(entryOf(thO, "z", 1, 0, "its place")) // EVENTS 3
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thB))
	w.settle()
	l := atLedger{at: 3, lost: entryOf(thA, "z", 1, 0, "lost")}
	l.Ledger = natsadmin.Of(w.conn)
	a := must.Get(fsck.Account(w.Context(), l, w.cl.Source()))(w)
	t.Logf("%+v", a)
	if len(a.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost event named", a)
	}
}

// EVENTS was trimmed up to what an event is linked to, which its thread's head knows as the last one.
func TestAccountSeamLinkedToATrimmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.settle()
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.EventsStream))(w)
	must.Do(w, s.DeleteMsg(w.Context(), 1))
	w.wantNamed(entryOf(thA, "p", 2, 1, "two"))
}

// An entry of a lost stretch whose bytes an operation made.
func TestAccountSeamEntryOfAnOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(opOf(thA, "p", 2, 1, events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "short"}}))
	w.settle()
	lost := entryOf(thA, "p", 3, 2, "")
	lost.Body = []byte(`{"role":"__compact__","compact":"short"}`)
	w.wantNamed(lost)
}

func (w *world) dropLetters(replay bool) {
	w.Helper()
	for _, d := range must.Get(w.cl.DeadLetters(w.Context(), ""))(w) {
		if replay {
			must.Get(w.cl.ReplayDeadLetter(w.Context(), d.At))(w)
		}
		must.Do(w, w.cl.RemoveDeadLetters(w.Context(), d.At))
	}
	w.settle()
}

// A late entry whose letter was removed, or replayed, before its thread was renamed, is sent again under the new name.
func TestAccountSeamLetterThenRename(t *testing.T) {
	t.Parallel()
	for _, replay := range []bool{false, true} {
		w := newWorld(t)
		w.raw(entryOf(thO, "p", 1, 0, "one"))
		w.raw(entryOf(thO, "p", 3, 0, "three"))
		w.raw(entryOf(thO, "p", 2, 0, "two"))
		w.settle()
		w.dropLetters(replay)
		must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
		w.raw(entryOf(thA, "p", 4, 0, "four"))
		w.raw(entryOf(thA, "p", 2, 0, "two"))
		w.settle()
		t.Logf("replayed %v: %d letters", replay, len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)))
		w.wantNoFinding()
	}
}

// A plain repeat under the new name, behind a later entry there.
func TestAccountSeamPlainRepeatBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thO, "p", 2, 0, "two"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.wantNoFinding()
}

// An entry whose body is masked differently is a repeat: nothing trimmed.
func TestAccountSeamMaskedRepeatBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.restart(redact.New(redact.Default(), true))
	two := entryOf(thO, "p", 2, 0, "key "+leaked)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(two)
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	two.Thread = thA
	w.raw(two)
	w.wantNoFinding()
}

// An operation that comes late in a thread, under a sequence that an entry of the removed thread of the name had.
func TestAccountSeamLateOperationOfASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.settle()
	must.Do(w, w.cl.Remove(w.Context(), thA))
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(opOf(thA, "p", 2, 0, endOp()))
	w.wantLetterOrNamed()
}

// A linked entry under a used sequence of an epoch that ended, linked to one of before a rename: see TestAccountSeamLateEpochBehindARename.
// Here without any link: the repeat of an old epoch behind a rename is a dead letter, which says that it is new.
func TestAccountSeamRepeatOfALateEpochBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	next := entryOf(thO, "p", 1, 0, "of the successor")
	next.Epoch = 1
	w.raw(next)
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	if n := len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)); n > 0 {
		t.Errorf("%d dead letters of a repeat", n)
	}
	w.wantNoFinding()
}

// A replay that was refused, and whose own letter was removed, cannot be made again: the letter is said to have been published.
func TestAccountSeamReplayOfAMendedLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	// Late, so a letter; its replay is applied, and the thread removed and begun anew: what is said of the earlier life?
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.settle()
	at := must.Get(w.cl.DeadLetters(w.Context(), ""))(w)[0].At
	if had := must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w); had {
		t.Errorf("the first replay: had")
	}
	w.settle()
	if had := must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w); !had {
		t.Errorf("the second replay: not had")
	}
	must.Do(w, w.cl.Remove(w.Context(), thA))
	if had := must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w); had {
		t.Errorf("a replay into a removed thread: had")
	}
	w.settle()
	h := must.Get(w.cl.Thread(w.Context(), thA))(w)
	t.Logf("%d entries", h.Entries)
	w.wantNoFinding()
}

// In a session that begins anew, an entry that is linked to one that went with the session is a dead letter (unlinked); where
// that is lost, it is "superseded".
func TestAccountSeamLinkedToADeletedSession(t *testing.T) {
	t.Parallel()
	for _, lose := range []bool{false, true} {
		w := newWorld(t)
		w.raw(entryOf(events.Thread{Session: "first", Name: "main"}, "p", 1, 0, "first"))
		w.raw(entryOf(thA, "p", 1, 0, "one"))
		w.raw(entryOf(thA, "p", 2, 1, "two"))
		w.settle()
		must.Get(w.cl.DeleteSession(w.Context(), "s", client.Deletion{}))(w)
		w.settle()
		if lost := entryOf(thA, "p", 3, 2, "three"); lose {
			w.wantNamed(lost)
		} else {
			w.raw(lost)
			w.settle()
			h, err := w.cl.Thread(w.Context(), thA)
			t.Logf("what the persister makes of it: %d letters, %d entries, %v", len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)), h.Entries, err)
			w.wantNoFinding()
		}
	}
}

// A late entry in a session that begins anew is a dead letter; where that is lost it is "unknown".
func TestAccountSeamLateInASessionAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Get(w.cl.DeleteSession(w.Context(), "s", client.Deletion{}))(w)
	w.raw(entryOf(thA, "p", 9, 0, "nine"))
	w.settle()
	w.wantNamed(entryOf(thA, "p", 8, 0, "eight"))
}

// What is fenced behind a rename, and lost, is "unknown".
func TestAccountSeamLostEpochBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	next := entryOf(thO, "p", 1, 0, "two")
	next.Epoch = 1
	w.raw(next)
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	w.wantNamed(entryOf(thA, "p", 2, 0, "late"))
}

// A whole linked message behind a rename.
func TestAccountSeamLinkedMessageBehindARename(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Rename(w.Context(), thO, "a"))
	e := entryOf(thA, "p", 2, 1, "two")
	e.More = []events.Entry{{Seq: 3, Body: step("three")}, {Seq: 4, Body: step("four")}}
	w.wantNamed(e)
}

// A letter was replayed and kept, and came back; the copy is removed, what was wrong is mended: the letter is "had", and is removed.
func TestAccountSeamReplayOfALetterThatCameBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	blob := []byte("a blob that comes later")
	e := entryOf(thA, "p", 2, 0, "")
	e.Body = fmt.Appendf(nil, `{"id":"x","role":"coder","content":"x","refs":[%q]}`, casstore.BlobRef(sha256.Sum256(blob)))
	w.raw(e)
	w.settle()
	at := must.Get(w.cl.DeadLetters(w.Context(), ""))(w)[0].At
	must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w) // --keep
	w.settle()
	for _, d := range must.Get(w.cl.DeadLetters(w.Context(), ""))(w) {
		if d.At != at {
			must.Do(w, w.cl.RemoveDeadLetters(w.Context(), d.At))
		}
	}
	must.Get(w.cl.PutBlob(w.Context(), blob))(w)
	had := must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w)
	w.settle()
	if h := must.Get(w.cl.Thread(w.Context(), thA))(w); had && h.Entries != 2 {
		t.Errorf("had = %v, and the thread has %d entries, want 2", had, h.Entries)
	}
}

// Replays of operations, kept, twice.
func TestAccountSeamReplayOfOperations(t *testing.T) {
	t.Parallel()
	for _, op := range []events.Control{endOp(), {Op: events.OpRename, Rename: &events.Rename{To: "b"}}, {Op: events.OpRemove, Remove: &events.Remove{}}} {
		w := newWorld(t)
		w.raw(entryOf(thA, "p", 1, 0, "one"))
		w.raw(entryOf(thA, "p", 3, 0, "three"))
		w.raw(opOf(thA, "p", 2, 0, op)) // late
		w.settle()
		at := must.Get(w.cl.DeadLetters(w.Context(), ""))(w)[0].At
		for range 3 {
			had, err := w.cl.ReplayDeadLetter(w.Context(), at)
			w.settle()
			t.Logf("%s: had %v, %v, letters %d", op.Op, had, err, len(must.Get(w.cl.DeadLetters(w.Context(), ""))(w)))
		}
		if op.Op == events.OpRemove {
			w.raw(entryOf(thA, "q", 1, 0, "anew"))
			w.settle()
			must.Get(w.cl.ReplayDeadLetter(w.Context(), at))(w)
			w.settle()
			_, err := w.cl.Thread(w.Context(), thA)
			must.Do(t, err)
		}
		w.wantNoFinding()
	}
}

// A deletion that is sent again is neither in a thread nor a dead letter, whichever deleted the session last.
func TestAccountSeamDeletionThatComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deletion := events.Control{Op: events.OpDelete, Delete: &events.Delete{}}
	for _, by := range []string{"alice", "bob"} {
		w.raw(entryOf(thO, "p", 1, 0, "one"))
		w.settle()
		w.raw(opOf(thO, by, 1, 0, deletion))
		w.settle()
	}
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(opOf(thO, "alice", 1, 0, deletion))
	w.raw(opOf(thO, "bob", 1, 0, deletion))
	w.settle()
	w.wantNamed(entryOf(thO, "p", 2, 0, "two"))
}

// A repeat of what went with a renamed thread is skipped, for as long as nobody has its old name.
func TestAccountSeamRepeatUnderTheNameOfARemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(opOf(thO, "p", 2, 0, renaming("a")))
	w.raw(opOf(thA, "q", 1, 0, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	w.raw(entryOf(thO, "p", 1, 0, "one"))
	w.raw(entryOf(thA, "p", 3, 0, "another"))
	w.raw(opOf(thA, "r", 1, 0, renaming(thO.Name)))
	w.settle()
	w.wantNamed(entryOf(thO, "p", 4, 0, "two"))
}

func renaming(to string) events.Control {
	return events.Control{Op: events.OpRename, Rename: &events.Rename{To: to}}
}

// An operation of an epoch that ended in a trimmed stream, and what its producer gave the same sequence to: a dead letter.
func TestAccountSeamUnknownThenReused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thO, "p", 1, 0, "zero"))
	w.raw(entryOf(thA, "q", 1, 0, "one"))
	w.raw(opOf(thA, "q", 3, 0, endOp()))
	w.raw(entryOf(thA, "q", 3, 0, "two"))
	w.raw(opOf(thA, "q", 3, 0, endOp()))
	late := entryOf(thA, "q", 6, 0, "three")
	late.Epoch = 1
	w.raw(late)
	w.settle()
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.EventsStream))(w)
	must.Do(w, s.DeleteMsg(w.Context(), 1))
	w.wantNoFinding()
}

package fsck_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/redact"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

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

func deleteOp() events.Control {
	return events.Control{Op: events.OpDelete, Delete: &events.Delete{}}
}

func removeOp() events.Control {
	return events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
}

func renameOp(to string) events.Control {
	return events.Control{Op: events.OpRename, Rename: &events.Rename{To: to}}
}

func inEpoch(epoch uint64, e events.Event) events.Event {
	e.Epoch = epoch
	return e
}

// with adds to a message of one entry others of these sequences.
func with(e events.Event, seqs ...uint64) events.Event {
	for _, seq := range seqs {
		e.More = append(e.More, events.Entry{Seq: seq, Body: step(fmt.Sprint("more", seq))})
	}
	return e
}

// play publishes the events, and does the rest once what came before is settled.
func (w *world) play(steps ...any) {
	w.Helper()
	for _, s := range steps {
		switch s := s.(type) {
		case events.Event:
			w.raw(s)
		case func(*world):
			w.settle()
			s(w)
		}
	}
	w.settle()
}

func renames(t events.Thread, to string) func(*world) {
	return func(w *world) { must.Do(w, w.cl.Thread(t).Rename(w.Context(), to)) }
}

func removes(t events.Thread) func(*world) {
	return func(w *world) { must.Do(w, w.cl.Thread(t).Remove(w.Context())) }
}

func deletesSession(w *world) {
	must.Get(w.cl.Session("s").Delete(w.Context(), client.Deletion{}))(w)
}

// spared is a deletion that is refused without a letter: its session was written to since.
func spared(t events.Thread) events.Event {
	return opOf(t, "cleaner", 1, 0, events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}})
}

func runOp(state string) events.Control {
	return events.Control{Op: events.OpRun, Run: &events.Run{ID: "run", State: state, Lease: 60_000}}
}

// deletesUnchanged asks for the deletion of the session unless somebody writes to it from now on.
func deletesUnchanged(w *world) {
	for _, s := range must.Get(natsadmin.Of(w.conn).StreamStates(w.Context()))(w) {
		if s.Stream == events.RecordsStream {
			w.raw(opOf(thA, "cleaner", 1, 0, events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: s.Last}}))
		}
	}
}

// settles waits for what came before.
func settles(*world) {}

func trimsTheFirst(w *world) {
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.EventsStream))(w)
	must.Do(w, s.DeleteMsg(w.Context(), 1))
}

// dropsLetters removes the dead letters, having published them again or not.
func dropsLetters(replay bool) func(*world) {
	return func(w *world) {
		for _, d := range must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w) {
			if replay {
				must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), d.At))(w)
			}
			must.Do(w, w.cl.Admin().RemoveDeadLetters(w.Context(), d.At))
		}
	}
}

func (w *world) letters() int {
	w.Helper()
	return len(must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w))
}

// What is lost and would be taken for something else: it is named, and before it is lost nothing is.
func TestAccountNamesWhatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		steps []any
		lost  events.Event
	}{
		"linked to what was seen under the old name": {
			[]any{entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"), renames(thO, "a")},
			entryOf(thA, "p", 3, 2, "three"),
		},
		"a linked message behind a rename": {
			[]any{entryOf(thO, "p", 1, 0, "one"), renames(thO, "a")},
			with(entryOf(thA, "p", 2, 1, "two"), 3, 4),
		},
		"says what another entry says, published under the old name": {
			[]any{entryOf(thO, "p", 1, 0, "same"), renames(thO, "a"), entryOf(thA, "p", 2, 0, "two")},
			entryOf(thA, "p", 3, 0, "same"),
		},
		"another thread has a letter of its like": {
			[]any{
				entryOf(thA, "q", 1, 0, "x"), opOf(thA, "q", 2, 0, endOp()), entryOf(thA, "p", 1, 0, "hello"), entryOf(thB, "q", 1, 0, "y"),
			},
			entryOf(thB, "p", 1, 0, "hello"),
		},
		"the removed thread of its name has a letter of its like": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), entryOf(thA, "p", 3, 0, "three"), entryOf(thA, "p", 2, 0, "two"), removes(thA),
				entryOf(thA, "p", 1, 0, "one"),
			},
			entryOf(thA, "p", 2, 0, "two"),
		},
		"the removed thread of its name had such a letter": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), entryOf(thA, "p", 3, 0, "three"), entryOf(thA, "p", 2, 0, "two"), dropsLetters(false), removes(thA),
				entryOf(thA, "p", 1, 0, "one"),
			},
			entryOf(thA, "p", 2, 0, "two"),
		},
		"its sequence is another one's in the successor of its thread": {
			[]any{entryOf(thA, "p", 1, 0, "one"), removes(thA), entryOf(thA, "p", 1, 0, "other")},
			entryOf(thA, "p", 1, 0, "one"),
		},
		"an operation under a sequence of the removed thread of its name": {
			[]any{entryOf(thA, "p", 1, 0, "one"), entryOf(thA, "p", 2, 0, "two"), removes(thA), entryOf(thA, "p", 1, 0, "one")},
			opOf(thA, "p", 2, 1, endOp()),
		},
		"its epoch has ended": {
			[]any{entryOf(thA, "p", 1, 0, "one"), inEpoch(1, entryOf(thA, "p", 1, 0, "two"))},
			entryOf(thA, "p", 2, 1, "late"),
		},
		"its epoch has ended, behind a rename": {
			[]any{entryOf(thO, "p", 1, 0, "one"), inEpoch(1, entryOf(thO, "p", 1, 0, "two")), renames(thO, "a")},
			entryOf(thA, "p", 2, 0, "late"),
		},
		"linked to what EVENTS has no more": {
			[]any{entryOf(thA, "p", 1, 0, "one"), entryOf(thO, "p", 1, 0, "one"), trimsTheFirst},
			entryOf(thA, "p", 2, 1, "two"),
		},
		"says what an operation has made": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"),
				opOf(thA, "p", 2, 1, events.Control{Op: events.OpCompact, Compact: &events.Compact{Summary: "short"}}),
			},
			events.Event{Kind: events.KindEntry, Dialect: "step", Thread: thA, Producer: "p", Seq: 3, Prev: 2,
				Body: []byte(`{"role":"__compact__","compact":"short"}`)},
		},
		"linked to what went with the session": {
			[]any{
				entryOf(events.Thread{Session: "first", Name: "main"}, "p", 1, 0, "first"), entryOf(thA, "p", 1, 0, "one"),
				entryOf(thA, "p", 2, 1, "two"), deletesSession,
			},
			entryOf(thA, "p", 3, 2, "three"),
		},
		"behind deletions that are sent again, whichever deleted the session last": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), settles, opOf(thO, "alice", 1, 0, deleteOp()), settles,
				entryOf(thO, "p", 1, 0, "one"), settles, opOf(thO, "bob", 1, 0, deleteOp()), settles,
				entryOf(thO, "p", 1, 0, "one"), opOf(thO, "alice", 1, 0, deleteOp()), opOf(thO, "bob", 1, 0, deleteOp()),
			},
			entryOf(thO, "p", 2, 0, "two"),
		},
		"behind a repeat under the old name of a removed thread": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), opOf(thO, "p", 2, 0, renameOp("a")), opOf(thA, "q", 1, 0, removeOp()),
				entryOf(thO, "p", 1, 0, "one"), entryOf(thA, "p", 3, 0, "another"), opOf(thA, "r", 1, 0, renameOp("o")),
			},
			entryOf(thO, "p", 4, 0, "two"),
		},
		"linked to what its thread had under another name": {
			[]any{entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"), renames(thO, "a")},
			entryOf(thA, "p", 3, 2, "three"),
		},
		"linked, of an epoch that has ended, behind a rename": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"), inEpoch(1, entryOf(thO, "p", 1, 0, "next")), renames(thO, "a"),
			},
			entryOf(thA, "p", 3, 2, "three"),
		},
		"an operation behind the rename to its name": {
			[]any{entryOf(thB, "p", 1, 0, "one"), renames(thB, "o")},
			opOf(thO, "p", 2, 1, endOp()),
		},
		"another deletion than the one that was refused": {
			[]any{entryOf(thO, "p", 1, 0, "one"), settles, spared(thA), spared(thA)},
			opOf(thA, "other", 1, 0, events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}}),
		},
		"a later epoch was refused before there was a thread": {
			[]any{inEpoch(1, opOf(thO, "q", 1, 0, endOp())), entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "q", 1, 0, "two")},
			entryOf(thO, "q", 2, 1, "three"),
		},
		"of a later epoch, behind a deletion": {
			[]any{entryOf(thO, "p", 1, 0, "one"), deletesSession, entryOf(thO, "p", 2, 0, "two")},
			inEpoch(1, entryOf(thO, "p", 1, 0, "three")),
		},
		"late in a session that began anew": {
			[]any{entryOf(thA, "p", 1, 0, "one"), deletesSession, entryOf(thA, "p", 9, 0, "nine")},
			entryOf(thA, "p", 8, 0, "eight"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.play(c.steps...)
			w.wantNoFindings()
			if a := w.accountLost(lostLedger{lost: &c.lost}); len(a.Findings) == 0 {
				w.Errorf("Account() = %+v, want the lost event named", a)
			}
		})
	}
}

// What is in order and could be taken for a loss: nothing is named, and there are so many dead letters.
func TestAccountNamesNothingElse(t *testing.T) {
	tail := func(text string) events.Control {
		return events.Control{Op: events.OpTail, Tail: &events.Tail{Bytes: []byte(text), Open: true}}
	}
	title := opOf(thA, "p", 2, 1, events.Control{Op: events.OpName, Name: &events.Name{Title: "x"}})
	worded := title
	worded.Body = append(worded.Body[:len(worded.Body):len(worded.Body)], ' ')
	late := []any{entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 3, 0, "three"), entryOf(thO, "p", 2, 0, "two")}
	lateAgain := []any{renames(thO, "a"), entryOf(thA, "p", 4, 0, "four"), entryOf(thA, "p", 2, 0, "two")}
	masked := func(t events.Thread) events.Event { return entryOf(t, "p", 2, 0, "key "+leaked) }
	for name, c := range map[string]struct {
		steps   []any
		letters int
	}{
		"superseded, and another producer says the same": {
			[]any{entryOf(thA, "p", 1, 0, "one"), entryOf(thA, "p", 6, 5, "continue"), entryOf(thA, "q", 1, 0, "continue")}, 0, // 5 was not stored
		},
		"a repeat of the removed thread's, and another producer says the same": {
			[]any{
				entryOf(thA, "p", 2, 0, "continue"), removes(thA), entryOf(thA, "p", 3, 0, "three"), entryOf(thA, "p", 2, 0, "continue"),
				entryOf(thA, "q", 1, 0, "continue"),
			}, 0,
		},
		"a late tail": {[]any{entryOf(thA, "p", 1, 0, "one"), opOf(thA, "p", 3, 0, tail("ab")),
			opOf(thA, "p", 2, 0, tail("a"))}, 0},
		"an operation worded otherwise": {[]any{entryOf(thA, "p", 1, 0, "one"), title, worded}, 0},
		"repeats behind renames, under each name": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"),
				renames(thO, "a"), entryOf(thO, "p", 2, 1, "two"), entryOf(thA, "p", 2, 1, "two"), entryOf(thA, "p", 3, 2, "three"),
				entryOf(thA, "p", 1, 0, "one"),
				renames(thA, "b"), entryOf(thB, "p", 3, 2, "three"), entryOf(thB, "p", 1, 0, "one"), entryOf(thA, "p", 3, 2, "three"),
				renames(thB, "a"), entryOf(thA, "p", 3, 2, "three"), entryOf(thA, "p", 4, 3, "four"), entryOf(thA, "p", 1, 0, "one"),
				entryOf(thA, "p", 2, 1, "two"), entryOf(thB, "p", 3, 2, "three"),
			}, 1, // the last: its thread has another name
		},
		"a repeat in the successor of a renamed thread": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"), renames(thO, "a"), entryOf(thA, "p", 3, 2, "three"),
				removes(thA), entryOf(thA, "p", 4, 3, "four"), entryOf(thA, "p", 2, 1, "two"),
			}, 0,
		},
		"repeats behind a rename": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 0, "two"), renames(thO, "a"), entryOf(thA, "p", 3, 0, "three"),
				entryOf(thA, "p", 2, 0, "two"), entryOf(thA, "p", 2, 0, "two"),
			}, 0,
		},
		"a repeat of what was masked, behind a rename": {
			[]any{
				func(w *world) { w.restart(redact.New(redact.Default(), true)) }, entryOf(thO, "p", 1, 0, "one"), masked(thO),
				renames(thO, "a"), entryOf(thA, "p", 3, 0, "three"), masked(thA),
			}, 0,
		},
		"a repeat of an epoch that ended, behind a rename": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), inEpoch(1, entryOf(thO, "p", 1, 0, "of the successor")), renames(thO, "a"),
				entryOf(thA, "p", 1, 0, "one"),
			}, 0,
		},
		"late, its letter removed, and sent again behind a rename": {
			slices.Concat(late, []any{dropsLetters(false)}, lateAgain), 0,
		},
		"late, its letter published again, and sent again behind a rename": {
			slices.Concat(late, []any{dropsLetters(true)}, lateAgain), 0,
		},
		"linked to what went with the session": {
			[]any{
				entryOf(events.Thread{Session: "first", Name: "main"}, "p", 1, 0, "first"), entryOf(thA, "p", 1, 0, "one"),
				entryOf(thA, "p", 2, 1, "two"), deletesSession, entryOf(thA, "p", 3, 2, "three"),
			}, 1,
		},
		"an operation of an epoch that ended where EVENTS was trimmed, and an entry under its sequence": {
			[]any{
				entryOf(thO, "p", 1, 0, "zero"), entryOf(thA, "q", 1, 0, "one"), opOf(thA, "q", 3, 0, endOp()), entryOf(thA, "q", 3, 0, "two"),
				opOf(thA, "q", 3, 0, endOp()), inEpoch(1, entryOf(thA, "q", 6, 0, "three")), trimsTheFirst,
			}, 2,
		},
		"a deletion that was refused, sent again where no thread has the name": {
			[]any{entryOf(thO, "p", 1, 0, "one"), settles, spared(thA), spared(thA)}, 0,
		},
		"a deletion that was refused under a name to which its thread comes back": {
			[]any{entryOf(thA, "p", 1, 0, "one"), renames(thA, "b"), spared(thA), renames(thB, "a")}, 0,
		},
		"a deletion that was refused under a name of two lives to which its thread comes back": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), removes(thA), entryOf(thA, "q", 1, 0, "two"), renames(thA, "b"), spared(thA), renames(thB, "a"),
			}, 0,
		},
		"a deletion that was refused under a name that another thread takes": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), renames(thA, "b"), spared(thA), removes(thB), entryOf(thO, "p", 1, 0, "two"), renames(thO, "b"),
				renames(thB, "a"),
			}, 0,
		},
		"a deletion that was refused under a name that a thread takes and leaves": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), settles, spared(thA), opOf(thO, "r", 1, 0, renameOp("a")), opOf(thA, "r", 2, 1, renameOp("o")),
			}, 0,
		},
		"the letter of a deletion is published again, and somebody wrote meanwhile": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), opOf(thA, "r", 1, 0, runOp("running")), deletesUnchanged, opOf(thA, "r", 2, 0, runOp("completed")),
				dropsLetters(true),
			}, 0,
		},
		"linked to what was never sent, under a name that a thread takes later": {
			[]any{entryOf(thB, "p", 1, 0, "one"), opOf(thO, "p", 2, 1, endOp()), renames(thB, "o")}, 0,
		},
		"linked to what was never sent, and its sequence was refused before": {
			[]any{opOf(thA, "p", 3, 0, endOp()), entryOf(thA, "p", 3, 2, "three")}, 1,
		},
		"linked to what was never sent, behind a deletion": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), deletesSession, entryOf(thO, "p", 2, 0, "two"), inEpoch(1, entryOf(thO, "p", 3, 2, "three")),
			}, 0,
		},
		"a later epoch was refused before there was a thread": {
			[]any{inEpoch(1, opOf(thO, "q", 1, 0, endOp())), entryOf(thO, "p", 1, 0, "one"), opOf(thO, "q", 1, 0, endOp())}, 1,
		},
		// What is no repeat, and in no thread, has a letter.
		"an end under the sequence of an entry": {[]any{entryOf(thA, "p", 1, 0, "one"), opOf(thA, "p", 1, 0, endOp())}, 1},
		"an end under the sequence of an entry, behind a rename": {
			[]any{entryOf(thO, "p", 1, 0, "one"), renames(thO, "a"), opOf(thA, "p", 1, 0, endOp())}, 1,
		},
		"an end, late, under a sequence that the removed thread had": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), entryOf(thA, "p", 2, 0, "two"), removes(thA), entryOf(thA, "p", 3, 0, "three"),
				opOf(thA, "p", 2, 0, endOp()),
			}, 1,
		},
		"a removal under a sequence that the removed thread had": {
			[]any{
				entryOf(thA, "p", 1, 0, "one"), removes(thA), entryOf(thA, "q", 1, 0, "anew"),
				opOf(thA, "p", 1, 0, removeOp()),
			}, 1,
		},
		"of an epoch that ended, behind a rename": {
			[]any{
				entryOf(thO, "p", 1, 0, "one"), entryOf(thO, "p", 2, 1, "two"), inEpoch(1, entryOf(thO, "p", 1, 0, "of the successor")),
				renames(thO, "a"), entryOf(thA, "p", 3, 2, "late"),
			}, 1,
		},
		"another thread of the session has the same under the same sequence": {
			[]any{
				entryOf(thB, "p", 1, 0, "hello"), entryOf(thO, "p", 1, 0, "other"), renames(thO, "a"), entryOf(thA, "p", 1, 0, "hello"),
			}, 1,
		},
		"two entries of a message with one sequence": {[]any{with(entryOf(thA, "p", 1, 0, "one"), 1)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.play(c.steps...)
			w.wantNoFindings()
			must.Same(t, w.letters(), c.letters, "%d dead letters, want %d")
		})
	}
}

// A letter of an event of before SPOOL_EVENTS was made anew stands for the event that has its number now.
func TestAccountLetterOfANumber(t *testing.T) {
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

// The same, the first of which is refused: the letter is taken for both.
func TestAccountOneSequenceTwiceInAMessageRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := entryOf(thA, "p", 1, 0, "one")
	e.Body = []byte("{")
	e.More = []events.Entry{{Seq: 1, Body: step("good")}}
	w.raw(e)
	a := w.accountLost(lostLedger{})
	n := len(must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w))
	h, err := w.cl.Thread(thA).Head(w.Context())
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
func TestAccountLostUnderAnOldName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Thread(thA).Rename(w.Context(), "b"))
	w.raw(entryOf(thO, "z", 1, 0, "its place")) // EVENTS 3
	w.settle()
	must.Do(w, w.cl.Thread(thB).Remove(w.Context()))
	w.settle()
	l := atLedger{at: 3, lost: entryOf(thA, "z", 1, 0, "lost")}
	l.Ledger = natsadmin.Of(w.conn)
	a := must.Get(fsck.Account(w.Context(), l, w.cl.Internal().Source()))(w)
	t.Logf("%+v", a)
	if len(a.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost event named", a)
	}
}

// A replay that was refused, and whose own letter was removed, cannot be made again: the letter is said to have been published.
func TestAccountReplayOfAMendedLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	// Late, so a letter; its replay is applied, and the thread removed and begun anew: what is said of the earlier life?
	w.raw(entryOf(thA, "p", 3, 0, "three"))
	w.raw(entryOf(thA, "p", 2, 0, "two"))
	w.settle()
	at := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)[0].At
	if had := must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w); had {
		t.Errorf("the first replay: had")
	}
	w.settle()
	if had := must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w); !had {
		t.Errorf("the second replay: not had")
	}
	must.Do(w, w.cl.Thread(thA).Remove(w.Context()))
	if had := must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w); had {
		t.Errorf("a replay into a removed thread: had")
	}
	w.settle()
	h := must.Get(w.cl.Thread(thA).Head(w.Context()))(w)
	t.Logf("%d entries", h.Entries)
	w.wantNoFindings()
}

// A letter was replayed and kept, and came back; the copy is removed, what was wrong is mended: the letter is "had", and is removed.
func TestAccountReplayOfALetterThatCameBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw(entryOf(thA, "p", 1, 0, "one"))
	blob := []byte("a blob that comes later")
	e := entryOf(thA, "p", 2, 0, "")
	e.Body = fmt.Appendf(nil, `{"id":"x","role":"coder","content":"x","refs":[%q]}`, casstore.BlobRef(sha256.Sum256(blob)))
	w.raw(e)
	w.settle()
	at := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)[0].At
	must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w) // --keep
	w.settle()
	for _, d := range must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w) {
		if d.At != at {
			must.Do(w, w.cl.Admin().RemoveDeadLetters(w.Context(), d.At))
		}
	}
	must.Get(w.cl.PutBlob(w.Context(), blob))(w)
	had := must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w)
	w.settle()
	if h := must.Get(w.cl.Thread(thA).Head(w.Context()))(w); had && h.Entries != 2 {
		t.Errorf("had = %v, and the thread has %d entries, want 2", had, h.Entries)
	}
}

// Replays of operations, kept, twice.
func TestAccountReplayOfOperations(t *testing.T) {
	t.Parallel()
	for _, op := range []events.Control{endOp(), {Op: events.OpRename, Rename: &events.Rename{To: "b"}},
		{Op: events.OpRemove, Remove: &events.Remove{}}} {
		w := newWorld(t)
		w.raw(entryOf(thA, "p", 1, 0, "one"))
		w.raw(entryOf(thA, "p", 3, 0, "three"))
		w.raw(opOf(thA, "p", 2, 0, op)) // late
		w.settle()
		at := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)[0].At
		for range 3 {
			had, err := w.cl.Admin().ReplayDeadLetter(w.Context(), at)
			w.settle()
			t.Logf("%s: had %v, %v, letters %d", op.Op, had, err, len(must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)))
		}
		if op.Op == events.OpRemove {
			w.raw(entryOf(thA, "q", 1, 0, "anew"))
			w.settle()
			must.Get(w.cl.Admin().ReplayDeadLetter(w.Context(), at))(w)
			w.settle()
			_, err := w.cl.Thread(thA).Head(w.Context())
			must.Do(t, err)
		}
		w.wantNoFindings()
	}
}

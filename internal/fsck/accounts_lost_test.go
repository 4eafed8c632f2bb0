package fsck_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spool/internal/apply"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// lostLedger is a ledger whose SPOOL_EVENTS has one acked event more, of which nothing is stored anywhere, or other data for a message.
type lostLedger struct {
	fsck.Ledger
	lost    *events.Event
	replace map[uint64]*events.Event
}

func (l lostLedger) Messages(ctx context.Context, stream string, from uint64, f func(uint64, string, []byte) error) error {
	last := uint64(0)
	err := l.Ledger.Messages(ctx, stream, from, func(seq uint64, subject string, data []byte) error {
		last = seq
		if e := l.replace[seq]; e != nil {
			data = e.Encode()
		}
		return f(seq, subject, data)
	})
	if err == nil && l.lost != nil {
		err = f(last+1, fmt.Sprintf("spool.v1.p.0.%s.%s.%s", l.lost.Thread.Session, l.lost.Thread.Name, l.lost.Kind), l.lost.Encode())
	}
	return err
}

func (l lostLedger) Unapplied(ctx context.Context) (uint64, error) { return 1 << 40, nil }

func (w *world) accountLost(l lostLedger) *fsck.Accounts {
	w.Helper()
	w.settle()
	l.Ledger = natsadmin.Of(w.conn)
	return must.Get(fsck.Account(w.Context(), l, w.cl.Internal().Source()))(w)
}

func entryOf(t events.Thread, producer string, seq, prev uint64, body string) events.Event {
	return events.Event{Kind: events.KindEntry, Dialect: "step", Thread: t, Producer: producer, Seq: seq, Prev: prev, Body: step(body)}
}

// A message of three entries, the second of which is refused: the others are applied, not refused.
func TestAccountOfAMessageWithOneRefusedEntry(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	e := entryOf(id, "p", 1, 0, "one")
	e.More = []events.Entry{{Seq: 2, Body: []byte("{")}, {Seq: 3, Body: step("three")}}
	w.raw(e)
	w.wantAccounts(fsck.Accounts{Events: 3, Applied: 2, Refused: 1})
}

// A lost entry of such a message must be found.
func TestAccountFindsALostEntryBesideARefusedOne(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	e := entryOf(id, "p", 1, 0, "one")
	e.More = []events.Entry{{Seq: 2, Body: []byte("{")}}
	w.raw(e)
	w.settle()
	e.More = append(e.More, events.Entry{Seq: 3, Body: step("lost")})
	a := w.accountLost(lostLedger{replace: map[uint64]*events.Event{1: &e}})
	if len(a.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost entry found", a)
	}
}

// A lost entry of a fork is found although the thread that it was forked from has the same bytes.
func TestAccountFindsALostEntryOfAFork(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(a, "p", 2, 0, "two"))
	w.settle()
	must.Do(w, w.cl.Thread(b).Fork(w.Context(), events.Fork{Session: "s", Thread: "a", Index: 1}))
	lost := entryOf(b, "q", 1, 0, "one")
	got := w.accountLost(lostLedger{lost: &lost})
	if len(got.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost entry of the fork found", got)
	}
}

// A thread is removed, and its source imported again under its name: an entry that is lost then is no repeat of the removed one.
func TestAccountFindsALostEntryOfAReusedName(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(a, "p", 2, 0, "two"))
	must.Do(w, w.cl.Thread(a).Await(w.Context(), "p", 0, 2))
	must.Do(w, w.cl.Thread(a).Remove(w.Context()))
	w.raw(entryOf(a, "p", 1, 0, "one"))
	must.Do(w, w.cl.Thread(a).Await(w.Context(), "p", 0, 1))
	lost := entryOf(a, "p", 2, 0, "two")
	got := w.accountLost(lostLedger{lost: &lost})
	if len(got.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost entry of the new thread found", got)
	}
}

// What was imported again under the name of a removed thread is applied.
func TestAccountOfAReusedName(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Thread(a).Remove(w.Context()))
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.wantAccounts(fsck.Accounts{Events: 3, Applied: 1, Removed: 2})
}

// A name that went from thread to thread: renamed away and back, forked, ended, reopened by a fork; nothing is lost.
func TestAccountOfRenamesThereAndBack(t *testing.T) {
	w := newWorld(t)
	ctx := w.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.settle()
	must.Do(w, w.cl.Thread(a).Rename(ctx, "b"))
	w.raw(entryOf(b, "p", 2, 0, "two"))
	w.settle()
	must.Do(w, w.cl.Thread(b).Rename(ctx, "a"))
	w.raw(entryOf(a, "p", 3, 0, "three"))
	w.settle()
	must.Do(w, w.cl.Thread(a).Rename(ctx, "c"))
	c := events.Thread{Session: "s", Name: "c"}
	must.Do(w, w.cl.Thread(events.Thread{Session: "t", Name: "f"}).Fork(ctx, events.Fork{Session: "s", Thread: "c", Index: 1}))
	must.Do(w, w.cl.Thread(c).End(ctx, events.End{Summary: "x"}))
	must.Do(w, w.cl.Thread(c).Remove(ctx))
	w.raw(entryOf(c, "p", 9, 0, "nine"))
	w.settle()
	w.wantNoFindings()
}

// Events of a lower epoch that come late are dead letters.
func TestAccountOfALateEpoch(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	next := entryOf(a, "p", 1, 0, "two")
	next.Epoch = 1
	w.raw(next)
	w.raw(entryOf(a, "p", 2, 0, "late"))
	w.wantAccounts(fsck.Accounts{Events: 3, Applied: 2, Refused: 1})
}

// gaps has a producer leave out more sequences, one at a time, than its thread remembers: 1 and 2 are forgotten.
func (w *world) gaps(a events.Thread) {
	w.Helper()
	for seq := uint64(3); seq <= 3+2*threads.GapsOfProducer; seq += 2 {
		w.raw(entryOf(a, "p", seq, 0, fmt.Sprint(seq)))
	}
	must.Do(w, w.cl.Thread(a).Await(w.Context(), "p", 0, 3+2*threads.GapsOfProducer))
}

// What comes behind a later event of its producer, in a gap that is forgotten, is a dead letter: an operation, and an
// entry whose body waits beside its event, too. Where SPOOL_EVENTS tells no more that it is new, it is taken for a repeat,
// and fsck must not say that its thread had it.
func TestAccountOfWhatComesInAForgottenGap(t *testing.T) {
	a := events.Thread{Session: "s", Name: "a"}
	op := events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}
	for _, trimmed := range []bool{false, true} {
		for name, late := range map[string]func(*world) events.Event{
			"operation": func(*world) events.Event {
				return events.Event{Kind: events.KindControl, Thread: a, Producer: "p", Seq: 2, Body: op.Encode()}
			},
			"giant": func(w *world) events.Event {
				ref := must.Get(w.conn.Inbox().CheckIn(w.Context(), strings.NewReader(string(step("two")))))(w)
				return events.Event{Thread: a, Producer: "p", Seq: 2, Ref: &ref}
			},
		} {
			t.Run(fmt.Sprint(name, " trimmed: ", trimmed), func(t *testing.T) {
				w := newWorld(t)
				w.gaps(a)
				if trimmed {
					trimsTheFirst(w)
				}
				w.raw(late(w))
				got := w.account()
				if letters := w.letters(); (letters == 0) != trimmed || (got.Unknown > 0) != trimmed || got.Applied != got.Events-1 {
					t.Errorf("%d dead letters, Account() = %+v", letters, got)
				}
			})
		}
	}
}

// The events of a removed thread whose name a renamed one has now are removed, not lost.
func TestAccountOfARenameToARemovedName(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(b, "p", 1, 0, "old"))
	w.raw(entryOf(a, "p", 1, 0, "new"))
	w.settle()
	must.Do(w, w.cl.Thread(b).Remove(w.Context()))
	must.Do(w, w.cl.Thread(a).Rename(w.Context(), "b"))
	w.wantNoFindings()
}

// A conditional deletion that is refused, addressed to a thread that is not there, is no lost event.
func TestAccountOfARefusedDeletion(t *testing.T) {
	w := newWorld(t)
	a, main := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "main"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.settle()
	op := events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}}
	must.Do(w, w.cl.Publisher(client.PublisherConfig{Producer: "d"}).Control(w.Context(), main, 1, op))
	w.wantNoFindings()
}

// A thread that was renamed and then removed is gone, also when another thread has its last name now.
func TestAccountOfARenamedAndRemovedThread(t *testing.T) {
	w := newWorld(t)
	ctx := w.Context()
	a, b, c := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}, events.Thread{Session: "s", Name: "c"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(c, "p", 1, 0, "other"))
	must.Do(w, w.cl.Thread(a).Await(ctx, "p", 0, 1))
	must.Do(w, w.cl.Thread(c).Await(ctx, "p", 0, 1))
	must.Do(w, w.cl.Thread(a).Rename(ctx, "b"))
	must.Do(w, w.cl.Thread(b).Remove(ctx))
	must.Do(w, w.cl.Thread(c).Rename(ctx, "b"))
	if _, err := w.cl.Thread(a).Head(ctx); err != nil {
		t.Logf("who asks for s/a is told: %v", err)
	}
	w.wantNoFindings()
}

// TestAccountOfRepeatsBehindARemoval: an event that comes again behind the removal of what had its first copy is a repeat of that, and
// is no loss. With its session the first copy itself is gone: behind a later one it is a dead letter.
func TestAccountOfRepeatsBehindARemoval(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	one := events.Event{Thread: id, Producer: "p", Seq: 1, Body: step("one")}
	two := events.Event{Thread: id, Producer: "p", Seq: 2, Body: step("two")}
	later := events.Event{Thread: id, Producer: "p", Seq: 3, Body: step("later")}
	remove := func(w *world) { must.Do(w, w.cl.Thread(id).Remove(w.Context())) }
	del := func(w *world) {
		must.Get(w.cl.Session("s").Delete(w.Context(), client.Deletion{}))(w)
	}
	for _, c := range []struct {
		name   string
		away   func(*world)
		behind []events.Event
		want   fsck.Accounts
	}{
		{"thread", remove, []events.Event{two}, fsck.Accounts{Events: 4, Applied: 1, Removed: 3}},
		{"thread that begins anew", remove, []events.Event{later, two}, fsck.Accounts{Events: 5, Applied: 1, Repeated: 1, Removed: 3}},
		{"session that begins anew", del, []events.Event{later, two}, fsck.Accounts{Events: 3, Applied: 1, Refused: 1, Removed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.raw(one)
			w.raw(two)
			w.settle()
			c.away(w)
			w.raw(c.behind...)
			w.wantAccounts(c.want)
		})
	}
}

// The same where the producer gives a sequence of the removed thread to another entry, in between: what is a repeat of the removed one
// is none of the other, and what nobody has any more is a dead letter.
func TestAccountOfReusedSequencesBehindARemoval(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	event := func(seq uint64, text string) events.Event {
		return events.Event{Thread: id, Producer: "p", Seq: seq, Body: step(text)}
	}
	one, two, other, later := event(1, "one"), event(2, "two"), event(2, "other"), event(3, "later")
	stay := func(*world) {}
	remove := func(w *world) { must.Do(w, w.cl.Thread(id).Remove(w.Context())) }
	del := func(w *world) { must.Get(w.cl.Session("s").Delete(w.Context(), client.Deletion{}))(w) }
	for _, c := range []struct {
		name           string
		before, behind []events.Event
		away           func(*world)
		want           fsck.Accounts
	}{
		{"late in a thread that stays", nil, []events.Event{later, other, two, other, two}, stay,
			fsck.Accounts{Events: 5, Applied: 1, Refused: 2, Repeated: 2}},
		{"thread", []events.Event{one, two}, []events.Event{later, other, two}, remove,
			fsck.Accounts{Events: 6, Applied: 1, Refused: 1, Repeated: 1, Removed: 3}},
		{"both in the thread", []events.Event{one, two, other}, []events.Event{later, other, two}, remove,
			fsck.Accounts{Events: 7, Applied: 1, Repeated: 2, Removed: 3, Refused: 1}},
		{"session", []events.Event{one, two}, []events.Event{later, other, two, two}, del,
			fsck.Accounts{Events: 5, Applied: 1, Refused: 2, Repeated: 1, Removed: 1}},
		{"thread and session", []events.Event{one, two}, []events.Event{later, two, other}, func(w *world) { remove(w); del(w) },
			fsck.Accounts{Events: 4, Applied: 1, Refused: 2, Removed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.raw(c.before...)
			w.settle()
			c.away(w)
			w.raw(c.behind...)
			w.wantAccounts(c.want)
		})
	}
}

// What is refused because its session may have no more is accounted for, and nothing is found to be missing.
func TestAccountOfQuotas(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.startWith(service.PersisterConfig{Config: persist.Config{Limits: apply.Limits{Threads: 1, Producers: 1}}})
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(b, "p", 1, 0, "of another thread"))
	w.raw(entryOf(b, "p", 2, 1, "behind it"))
	w.raw(entryOf(a, "q", 1, 0, "of another producer"))
	w.raw(entryOf(a, "q", 2, 1, "behind it"))
	w.raw(entryOf(a, "p", 2, 1, "two"))
	w.wantAccounts(fsck.Accounts{Events: 6, Applied: 2, Refused: 4})
	w.wantClean()
}

// What a thread had of an output is kept while the output is open, in its result or in its artifact; else it is lost, and
// said to be.
func TestAccountOfOutputs(t *testing.T) {
	w := newWorld(t)
	begin := func(name string) (*client.Output, events.Thread) {
		id := events.Thread{Session: "s", Name: name}
		o := must.Get(w.cl.Thread(id).Output(w.Context(), client.OutputConfig{ID: name, Lease: time.Hour}))(t)
		must.Get(io.WriteString(o, "precious\n"))(t)
		must.Do(t, o.Begun(w.Context()))
		for open := ([]client.OpenOutput)(nil); len(open) == 0 || open[0].Bytes == 0; {
			open = must.Get(w.cl.Thread(id).Outputs(w.Context()))(t)
		}
		return o, id
	}
	begin("open")
	whole, _ := begin("whole")
	must.Do(t, whole.Close(client.OutputEnd{}))
	must.Do(t, whole.Wait(w.Context()))
	_, renamed := begin("renamed")
	must.Do(t, w.cl.Thread(renamed).Rename(w.Context(), "other", client.Force(true)))
	_, ended := begin("ended")
	must.Do(t, w.cl.Thread(ended).End(w.Context(), events.End{}))
	_, removed := begin("removed")
	must.Do(t, w.cl.Thread(removed).Remove(w.Context(), client.Force(true)))
	if a := w.account(); len(a.Findings) > 0 || a.Removed == 0 {
		t.Fatalf("Account() = %+v, want all that came of outputs kept, or removed with its thread", a)
	}
	_, dropped := begin("dropped")
	must.Do(t, w.cl.Thread(dropped).End(w.Context(), events.End{}))
	w.drop(events.OutputKey("s", "dropped")) // as a version did that closed it without a result
	a := w.account()
	if len(a.Findings) != 1 || a.Unaccounted != 1 || !strings.Contains(a.Findings[0].Detail, "output dropped is not open") {
		t.Errorf("Account() = %+v, want the piece of one output found to be lost", a)
	}
	addsUp(t, a)
}

package persist_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/internal/redact"
	"spool/pkg/events"
)

// unread gives an event the letter of one over which so many died that it is not looked at again.
func (r *rig) unread(seq uint64, index int) {
	r.t.Helper()
	tried := record.Tried{Life: record.Life{9}, Lo: seq, Hi: seq, Alone: true, Index: index, Stored: r.message(seq, 1).Stored}
	for i := range byte(4) {
		tried.Died = append(tried.Died, record.Life{i + 1})
	}
	r.put(events.TriedKey(0), tried.Encode())
	r.acked()
	l := r.lives(nil)
	l.open = r.lastSeq(events.EventsStream)
	l.floor.Store(seq - 1)
	l.all()
}

// acked has the partitions' consumers say that all is acknowledged.
func (r *rig) acked() {
	r.t.Helper()
	for part := range events.Partitions {
		must.Get(r.conn.JetStream().ResetConsumerToSequence(r.t.Context(), events.EventsStream, events.PartitionConsumer(part),
			r.lastSeq(events.EventsStream)+1))(r.t)
	}
}

// An event that is not looked at again, and that nobody applied, does not stand for another one that says the same.
func TestUnreadIsNoOther(t *testing.T) {
	r := newRig(t)
	for _, producer := range []string{"p", "q"} {
		r.store(&events.Event{Producer: producer, Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: thread(0),
			Body: stepEntry(thread(0), 1, "x").Body})
	}
	r.unread(1, 0)
	if h := r.head(thread(0)); h.Entries != 1 || len(r.dead()) != 1 {
		t.Fatalf("%d entries, dead letters %q; want 1 of each", h.Entries, r.whyDead())
	}
	r.account(fsck.Accounts{Events: 2, Applied: 1, Refused: 1})
}

// Of a message with several events one that is not looked at again says nothing of those beside it: what is lost of them is found.
func TestUnreadIsNoneBesideIt(t *testing.T) {
	r := newRig(t)
	th := thread(0)
	e := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: th, Body: stepEntry(th, 1, "one").Body}
	e.More = []events.Entry{{Seq: 2, Body: stepEntry(th, 2, "two").Body}}
	r.store(&e)
	r.unread(1, 1)
	r.account(fsck.Accounts{Events: 2, Applied: 1, Refused: 1})
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.RecordsStream))(t)
	m := must.Get(s.GetLastMsgForSubject(t.Context(), events.RecordSubject(events.HeadKey(th))))(t)
	must.Do(t, s.DeleteMsg(t.Context(), m.Sequence))
	r.account(fsck.Accounts{Events: 2, Refused: 1, Unaccounted: 1})
}

// account is what fsck --events counts, without its findings.
func (r *rig) account(want fsck.Accounts) {
	r.t.Helper()
	got := *must.Get(fsck.Account(r.t.Context(), natsadmin.Of(r.conn), r.Internal().Source()))(r.t)
	got.Findings = nil
	must.Same(r.t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), "the account is %s, want %s")
}

// What an agent writes makes no refused event one that nobody looked at: its letter quotes it.
func TestQuotedInALetter(t *testing.T) {
	r := newRig(t)
	r.entry(thread(0), 1, 1)
	r.control(thread(0), "q", events.Control{Op: "x: it was not looked at again: if one of them had applied it, its thread has it"})
	p := r.deaf()
	r.give(p, 1, 2)
	r.through(p, 2)
	if why := r.whyDead(); len(why) != 1 || !strings.Contains(why[0], "it was not looked at again") {
		t.Fatalf("the dead letters are for %q, want one that quotes the operation", why)
	}
	r.acked()
	r.account(fsck.Accounts{Events: 2, Applied: 1, Refused: 1})
}

// An event has its letter for what it was refused for, by whoever sends the letter, also where nobody knows any more what was tried.
func TestUnreadIsKept(t *testing.T) {
	r, th := newRig(t), thread(0)
	r.entry(th, 1, 1)
	p := r.deaf()
	r.give(p, 1, 1)
	r.through(p, 1)
	refused := record.Refused{Top: 1, Latest: r.message(1, 1).Stored, Events: []record.RefusedEvent{{
		Seq: 1, Stored: r.message(1, 1).Stored, Session: record.SessionMark(th.Session), Reason: "poison", Index: record.WholeMessage, Unread: true}}}
	r.put(events.RefusedKey(r.message(1, 1).Partition), refused.Encode(1<<20))
	next := r.deaf()
	r.give(next, 1, 1)
	r.through(next, 1)
	if n := len(r.dead()); n != 1 {
		t.Fatalf("%d dead letters, want 1", n)
	}
	r.acked()
	r.account(fsck.Accounts{Events: 1, Applied: 1})
}

// Where an operator removed the letter of an event that nobody looked at, what its thread has is applied all the same, and what it has
// not is refused.
func TestUnreadAndRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		applied bool
		want    fsck.Accounts
	}{
		"applied": {true, fsck.Accounts{Events: 2, Applied: 2}},
		"not":     {false, fsck.Accounts{Events: 2, Applied: 1, Refused: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, producer := range []string{"p", "q"} {
				r.store(&events.Event{Producer: producer, Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: thread(0),
					Body: stepEntry(thread(0), 1, producer).Body})
			}
			if c.applied {
				p := r.deaf()
				r.give(p, 1, 2)
				r.through(p, 2)
			}
			r.unread(1, 0)
			r.account(c.want)
			for _, d := range must.Get(r.EverySession().DeadLetters(t.Context()))(t) {
				must.Do(t, r.Admin().RemoveDeadLetters(t.Context(), d.At))
			}
			if n := len(r.dead()); n != 0 {
				t.Fatalf("%d dead letters are left", n)
			}
			r.account(c.want)
		})
	}
}

// A message that is not looked at again has one letter, also where it comes again to who reads it, and its record forgot it.
func TestUnreadHasOneLetter(t *testing.T) {
	for _, secrets := range []bool{false, true} {
		t.Run(fmt.Sprint("secrets=", secrets), func(t *testing.T) {
			r := newRig(t)
			th := thread(0)
			e := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: th, Body: stepEntry(th, 1, "one").Body}
			e.More = []events.Entry{{Seq: 2, Body: stepEntry(th, 2, "two").Body}}
			r.store(&e)
			if secrets {
				r.secrets = redact.New(redact.Default(), true)
			}
			r.unread(1, 0)
			must.Same(t, len(r.dead()), 1, "%d dead letters, want %d")
			forget := func() {
				r.put(events.RefusedKey(0), record.Refused{Top: 1, Latest: r.message(1, 1).Stored}.Encode(r.conn.Records().MaxRecord()))
			}
			for _, before := range []func(){func() {}, forget} {
				before()
				r.put(events.TriedKey(0), record.Tried{}.Encode())
				r.lives(nil).all()
				if _, err := r.Thread(th).Head(t.Context()); err == nil || len(r.dead()) != 1 {
					t.Errorf("the thread is there: %v; dead letters %q; want no thread, and one", err == nil, r.whyDead())
				}
			}
		})
	}
}

// It has one letter also where whoever refused it died before that was out, and who comes next reads it.
func TestUnreadIsToldOnce(t *testing.T) {
	r, th := newRig(t), thread(0)
	e := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: th, Body: stepEntry(th, 1, "one").Body}
	e.More = []events.Entry{{Seq: 2, Body: stepEntry(th, 2, "two").Body}}
	r.store(&e)
	stored := r.message(1, 1).Stored
	refused := record.Refused{Top: 1, Latest: stored, Events: []record.RefusedEvent{{
		Seq: 1, Stored: stored, Session: record.SessionMark(th.Session), Reason: "poison", Index: record.WholeMessage, Unread: true}}}
	r.put(events.RefusedKey(r.message(1, 1).Partition), refused.Encode(1<<20))
	r.lives(nil).all()
	if n := len(r.dead()); n != 1 {
		t.Errorf("%d dead letters %q, want 1", n, r.whyDead())
	}
	r.acked()
	r.account(fsck.Accounts{Events: 2, Refused: 2})
}

// A message that is not looked at again has a letter also where one of its events has its own: those beside that would be in none.
func TestUnreadBesideALetter(t *testing.T) {
	for _, name := range []string{"forgotten", "noted", "whole"} {
		t.Run(name, func(t *testing.T) {
			r, th := newRig(t), thread(0)
			e := events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: th, Body: stepEntry(th, 1, "one").Body}
			e.More = []events.Entry{{Seq: 2, Body: stepEntry(th, 2, "two").Body}}
			r.store(&e)
			m, first := r.message(1, 1), e.Each()[0]
			must.Do(t, persistnats.Deps(r.conn, 0, 0).Outbox.Dead(t.Context(), []events.Dead{{
				Thread: th, Kind: events.KindEntry.String(), Subject: m.Subject, Seq: 1, Stored: m.Stored, Data: first.Encode(), Reason: "poison"}}))
			refused := record.Refused{Top: 1, Latest: m.Stored}
			one := record.RefusedEvent{Seq: 1, Stored: m.Stored, Session: record.SessionMark(th.Session), Reason: "poison"}
			switch name {
			case "noted":
				refused.Events = []record.RefusedEvent{one}
			case "whole":
				one.Index, one.Unread = record.WholeMessage, true
				refused.Events = []record.RefusedEvent{one}
			}
			r.put(events.RefusedKey(m.Partition), refused.Encode(1<<20))
			if name == "whole" { // and its letter is not out, and who comes next reads it
				r.lives(nil).all()
				r.acked()
			} else {
				r.unread(1, 0)
			}
			r.account(fsck.Accounts{Events: 2, Refused: 2})
		})
	}
}

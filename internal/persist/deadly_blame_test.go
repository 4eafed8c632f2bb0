package persist_test

import (
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Where acks are lost, what was tried alone and applied is not blamed for an event behind it that nobody suspects yet.
func TestDeadlyBehindATrial(t *testing.T) {
	r := newRig(t)
	for _, s := range []string{"s0", "doomed"} {
		e := stepEntry(events.Thread{Session: s, Name: "main"}, 1, "x")
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), e))(t)
	}
	r.put(events.TriedKey(0), record.Tried{Life: record.Life{1}, Lo: 1, Hi: 1}.Encode()) // it died over the first one
	l := r.lives(&deadly{seq: 2, session: "doomed", at: commits})
	l.open, l.loses = 2, true
	deaths, dead := l.all(), r.dead()
	r.sound()
	if h := r.head(thread(0)); h.Entries != 1 || len(dead) != 1 || dead[0].Header.Get("Spool-Event-Seq") != "2" || deaths > 8 {
		t.Errorf("%d died, %d entries, dead letters %q, want 8 at most, 1, and one letter, of the second event", deaths, h.Entries, r.whyDead())
	}
}

// Where answers are lost, too, an event behind one that was tried alone is found.
func TestDeadlyBehindATrialUnheard(t *testing.T) {
	r := newRig(t)
	for _, s := range []string{"s0", "doomed"} {
		e := stepEntry(events.Thread{Session: s, Name: "main"}, 1, "x")
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), e))(t)
	}
	r.put(events.TriedKey(0), record.Tried{Life: record.Life{1}, Lo: 1, Hi: 2}.Encode()) // it died over one of them
	l := r.lives(&deadly{seq: 2, session: "doomed", at: commits})
	l.open, l.loses, l.unheard = 2, true, true
	deaths, dead := l.all(), r.dead()
	r.sound()
	if h := r.head(thread(0)); h.Entries != 1 || len(dead) != 1 || dead[0].Header.Get("Spool-Event-Seq") != "2" || deaths > 8 {
		t.Errorf("%d died, %d entries, dead letters %q, want 8 at most, 1, and one letter, of the second event", deaths, h.Entries, r.whyDead())
	}
}

// Where acks are lost, what was tried alone and applied is not blamed for an event of another partition.
func TestDeadlyInAnotherPartition(t *testing.T) {
	r := newRig(t)
	for _, s := range []string{"s0", "doomed"} {
		e := stepEntry(events.Thread{Session: s, Name: "main"}, 1, "x")
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), e))(t)
	}
	tried := record.Tried{Life: record.Life{2}, Lo: 1, Hi: 1, Alone: true, Stored: r.message(1, 1).Stored, Died: []record.Life{{1}}}
	r.put(events.TriedKey(0), tried.Encode()) // two were killed while they tried the first one
	l := r.lives(&deadly{seq: 2, session: "doomed", at: commits})
	m := l.messages[2]
	m.Partition = 1
	l.messages[2] = m
	l.open, l.loses = 2, true
	deaths, dead := l.all(), r.dead()
	r.sound()
	if h := r.head(thread(0)); h.Entries != 1 || len(dead) != 1 || dead[0].Header.Get("Spool-Event-Seq") != "2" || deaths > 8 {
		t.Errorf("%d died, %d entries, dead letters %q, want 8 at most, 1, and one letter, of the second event", deaths, h.Entries, r.whyDead())
	}
}

// What was applied, and is not read any more because so many died over it, has a letter that says so, and is accounted for as applied.
func TestAppliedAndUnread(t *testing.T) {
	r := newRig(t)
	entry := func(to events.Thread, seq uint64) {
		r.store(&events.Event{Producer: "p", Seq: seq, Prev: seq - 1, Kind: events.KindEntry, Dialect: "step", Thread: to,
			Body: stepEntry(to, seq, "x").Body})
	}
	entry(thread(0), 1)
	rename := events.Control{Op: events.OpRename, Rename: &events.Rename{To: "aside"}}
	r.store(&events.Event{Producer: "q", Seq: 1, Kind: events.KindControl, Thread: thread(0), Body: rename.Encode()})
	entry(events.Thread{Session: "s0", Name: "aside"}, 2)
	p := r.deaf()
	r.give(p, 1, 3)
	r.through(p, 3)
	r.acked()
	want := fsck.Accounts{Events: 3, Applied: 2, Noted: 1}
	r.account(want)
	for seq := uint64(1); seq <= 2; seq++ { // an entry, and a rename
		tried := record.Tried{Life: record.Life{9}, Lo: seq, Hi: seq, Alone: true, Stored: r.message(seq, 1).Stored}
		for i := range byte(4) {
			tried.Died = append(tried.Died, record.Life{i + 1})
		}
		r.put(events.TriedKey(0), tried.Encode())
		l := r.lives(nil)
		l.open = seq
		l.floor.Store(seq - 1)
		l.all()
	}
	why := r.whyDead()
	if len(why) != 2 || !strings.HasSuffix(why[0], "if one of them had applied it, its thread has it") || why[1] != why[0] {
		t.Errorf("the dead letters are for %q, want two of what its thread may have", why)
	}
	r.account(want)
}

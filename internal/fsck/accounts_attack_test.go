package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/natsadmin"
	"spool/internal/redact"
	"spool/pkg/artifacts"
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
	a, err := fsck.Account(w.Context(), l, w.cl.Source(), nil)
	w.must(err)
	return a
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
	a := w.account(fsck.Config{})
	same(t, a, fsck.Accounts{Events: 3, Applied: 2, Refused: 1})
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

// The events of a removed thread whose name a renamed one has now are removed, not lost.
func TestAccountOfARenameToARemovedName(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(b, "p", 1, 0, "old"))
	w.raw(entryOf(a, "p", 1, 0, "new"))
	w.settle()
	w.must(w.cl.Remove(w.Context(), b))
	w.must(w.cl.Rename(w.Context(), a, "b"))
	got := w.account(fsck.Config{})
	if len(got.Findings) > 0 {
		t.Errorf("findings %v in a healthy system", got.Findings)
	}
}

// A lost entry of a fork is found although the thread that it was forked from has the same bytes.
func TestAccountFindsALostEntryOfAFork(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(a, "p", 2, 0, "two"))
	w.settle()
	w.must(w.cl.Fork(w.Context(), b, events.Fork{Session: "s", Thread: "a", Index: 1}))
	lost := entryOf(b, "q", 1, 0, "one")
	got := w.accountLost(lostLedger{lost: &lost})
	t.Logf("%+v", got)
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
	w.must(w.cl.Await(w.Context(), a, "p", 0, 2))
	w.must(w.cl.Remove(w.Context(), a))
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.must(w.cl.Await(w.Context(), a, "p", 0, 1))
	lost := entryOf(a, "p", 2, 0, "two")
	got := w.accountLost(lostLedger{lost: &lost})
	t.Logf("%+v", got)
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
	w.must(w.cl.Remove(w.Context(), a))
	w.raw(entryOf(a, "p", 1, 0, "one"))
	got := w.account(fsck.Config{})
	same(t, got, fsck.Accounts{Events: 3, Applied: 1, Removed: 2})
}

// A name that went from thread to thread: renamed away and back, forked, ended, reopened by a fork; nothing is lost.
func TestAccountOfRenamesThereAndBack(t *testing.T) {
	w := newWorld(t)
	ctx := w.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.settle()
	w.must(w.cl.Rename(ctx, a, "b"))
	w.raw(entryOf(b, "p", 2, 0, "two"))
	w.settle()
	w.must(w.cl.Rename(ctx, b, "a"))
	w.raw(entryOf(a, "p", 3, 0, "three"))
	w.settle()
	w.must(w.cl.Rename(ctx, a, "c"))
	c := events.Thread{Session: "s", Name: "c"}
	w.must(w.cl.Fork(ctx, events.Thread{Session: "t", Name: "f"}, events.Fork{Session: "s", Thread: "c", Index: 1}))
	w.must(w.cl.End(ctx, c, events.End{Summary: "x"}))
	w.must(w.cl.Remove(ctx, c))
	w.raw(entryOf(c, "p", 9, 0, "nine"))
	w.settle()
	got := w.account(fsck.Config{})
	if len(got.Findings) > 0 {
		t.Errorf("findings %v in a healthy system: %+v", got.Findings, got)
	}
}

// A conditional deletion that is refused, addressed to a thread that is not there, is no lost event.
func TestAccountOfARefusedDeletion(t *testing.T) {
	w := newWorld(t)
	a, main := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "main"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.settle()
	op := events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}}
	w.must(w.cl.Publisher(client.PublisherConfig{Producer: "d"}).Control(w.Context(), main, 1, op))
	got := w.account(fsck.Config{})
	if len(got.Findings) > 0 {
		t.Errorf("findings %v in a healthy system: %+v", got.Findings, got)
	}
}

// Events of a lower epoch that come late are shut out by design: either fsck knows that class, or they are dead letters.
func TestAccountOfALateEpoch(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	next := entryOf(a, "p", 1, 0, "two")
	next.Epoch = 1
	w.raw(next)
	w.raw(entryOf(a, "p", 2, 0, "late"))
	got := w.account(fsck.Config{})
	if len(got.Findings) > 0 {
		t.Errorf("findings %v in a healthy system: %+v", got.Findings, got)
	}
}

// A lost entry of a thread that was renamed to a removed name must be found, whatever else is.
func TestAccountFindsALostEntryWithATrimmedTwin(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 1, 0, "ok"))
	w.raw(entryOf(a, "p", 2, 0, "two"))
	w.settle()
	s, err := w.conn.JetStream().Stream(w.Context(), events.EventsStream)
	w.must(err)
	w.must(s.DeleteMsg(w.Context(), 1)) // as age does
	lost := entryOf(a, "p", 3, 0, "ok")
	got := w.accountLost(lostLedger{lost: &lost})
	if len(got.Findings) == 0 {
		t.Errorf("Account() = %+v, want the lost entry found", got)
	}
}

// An operation that comes behind a later event of its producer is dropped: nobody was told, and fsck must not say that its thread had it.
func TestAccountFindsADroppedOperation(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 5, 0, "five"))
	op := events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}
	w.raw(events.Event{Kind: events.KindControl, Thread: a, Producer: "p", Seq: 2, Body: op.Encode()})
	w.must(w.cl.Await(w.Context(), a, "p", 0, 5))
	got := w.account(fsck.Config{})
	h, err := w.cl.Thread(w.Context(), a)
	w.must(err)
	if h.Status != threads.StatusCompleted && len(got.Findings) == 0 {
		t.Errorf("the end was acked and dropped, and Account() = %+v", got)
	}
}

// The same of an entry whose body waits beside its event, where secrets are masked.
func TestAccountFindsADroppedGiant(t *testing.T) {
	w := newWorld(t)
	a := events.Thread{Session: "s", Name: "a"}
	w.raw(entryOf(a, "p", 5, 0, "five"))
	w.must(w.cl.Await(w.Context(), a, "p", 0, 5))
	ref, err := w.conn.CheckIn(w.Context(), strings.NewReader(string(step("two"))))
	w.must(err)
	w.raw(events.Event{Thread: a, Producer: "p", Seq: 2, Ref: &ref})
	rules := redact.New(redact.Default(), true)
	got := w.account(fsck.Config{Secrets: rules})
	if len(got.Findings) == 0 {
		t.Errorf("an entry was acked and dropped, and Account() = %+v", got)
	}
}

// A conditional deletion of a session without threads is answered.
func TestConditionalDeletionOfASessionOfArtifacts(t *testing.T) {
	w := newWorld(t)
	_, err := w.cl.PutArtifact(w.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s", Filename: "f.txt"}}, strings.NewReader("x"))
	w.must(err)
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	if _, err := w.cl.DeleteSession(ctx, "s", client.Deletion{Plain: true, UnchangedSince: 1}); !errors.Is(err, client.ErrSessionWritten) {
		t.Errorf("DeleteSession = %v, want ErrSessionWritten", err)
	}
}

// A thread that was renamed and then removed is gone, also when another thread has its last name now.
func TestAccountOfARenamedAndRemovedThread(t *testing.T) {
	w := newWorld(t)
	ctx := w.Context()
	a, b, c := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}, events.Thread{Session: "s", Name: "c"}
	w.raw(entryOf(a, "p", 1, 0, "one"))
	w.raw(entryOf(c, "p", 1, 0, "other"))
	w.must(w.cl.Await(ctx, a, "p", 0, 1))
	w.must(w.cl.Await(ctx, c, "p", 0, 1))
	w.must(w.cl.Rename(ctx, a, "b"))
	w.must(w.cl.Remove(ctx, b))
	w.must(w.cl.Rename(ctx, c, "b"))
	if _, err := w.cl.Thread(ctx, a); err != nil {
		t.Logf("who asks for s/a is told: %v", err)
	}
	got := w.account(fsck.Config{})
	if len(got.Findings) > 0 {
		t.Errorf("findings %v in a healthy system: %+v", got.Findings, got)
	}
}

// Of many puts of one artifact id one wins, with its own bytes.
func TestManyPutsOfOneArtifact(t *testing.T) {
	w := newWorld(t)
	ctx := w.Context()
	type won struct {
		body string
		rec  artifacts.Record
	}
	results := make(chan won, 8)
	for i := range 8 {
		go func() {
			body := strings.Repeat(fmt.Sprint(i), 1000+i)
			rec, err := w.cl.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Session: fmt.Sprintf("s%d", i%2), Filename: "f.txt"}}, strings.NewReader(body))
			if err != nil {
				body = ""
				if !errors.Is(err, artifacts.ErrTaken) {
					t.Error(err)
				}
			}
			results <- won{body, rec}
		}()
	}
	var winners []won
	for range 8 {
		if r := <-results; r.body != "" {
			winners = append(winners, r)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%d puts won", len(winners))
	}
	r, _, err := w.cl.OpenArtifact(ctx, winners[0].rec)
	w.must(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || string(b) != winners[0].body {
		t.Errorf("%d bytes, %v, want the winner's %d", len(b), err, len(winners[0].body))
	}
}

package natsio_test

import (
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// An event that comes again after a crash does not become two dead letters; what only looks like it is not taken for it.
func TestDeadLettersComeOnce(t *testing.T) {
	c := natstest.Conn(t)
	stored := time.Now().Add(-time.Second)
	letter := func(seq uint64, data string) events.Dead {
		return events.Dead{
			Thread: events.Thread{Session: "s", Name: "main"}, Kind: "entry", Subject: "spool.v1.p.3.s.main.entry",
			Seq: seq, Stored: stored.UnixNano(), Data: []byte(data), Reason: "bad",
		}
	}
	elsewhere := letter(7, "x")
	elsewhere.Subject = "spool.v1.p.4.s.main.entry"
	anew := letter(1, "of a stream that was made anew")
	anew.Stored = time.Now().Add(time.Minute).UnixNano()
	for i, step := range []struct {
		what string
		d    events.Dead
		want int
	}{
		{"the first", letter(7, "a"), 1},
		{"the same again", letter(7, "a"), 1},
		{"another one of the same message", letter(7, "b"), 2},
		{"one behind it", letter(9, "c"), 3},
		{"one before it, again", letter(7, "a"), 3},
		{"one before it that was applied then, and cannot be any more", letter(5, "d"), 4},
		{"one of another partition", elsewhere, 5},
		{"one that is younger than the letters", anew, 6},
	} {
		must.Do(t, c.DeadLetters().Dead(t.Context(), []events.Dead{step.d}))
		n := 0
		if err := c.DeadLetters().EachLetter(t.Context(), events.Thread{},
			func(natsio.DeadLetter) error { n++; return nil }); err != nil || n != step.want {
			t.Errorf("step %d, %s: %d letters, %v, want %d", i, step.what, n, err, step.want)
		}
	}
}

// A letter that meets a change of the stream is not stored where the session was deleted behind its event.
func TestDeadLetterIsNotStoredBehindADeletion(t *testing.T) {
	c := natstest.Conn(t)
	letter := events.Dead{
		Thread: events.Thread{Session: "s", Name: "main"}, Kind: "entry", Subject: "spool.v1.p.3.s.main.entry",
		Seq: 7, Stored: 1, Data: []byte("x"), Reason: "bad",
	}
	later := letter
	later.Seq, later.Data = 12, []byte("of the next life")
	count := func(when string, want int) {
		t.Helper()
		n := 0
		must.Do(t, c.DeadLetters().EachLetter(t.Context(), events.Thread{}, func(natsio.DeadLetter) error { n++; return nil }))
		must.Same(t, n, want, "%s: %d letters, want %d", when)
	}
	must.Do(t, c.DeadLetters().Dead(t.Context(), []events.Dead{letter}))
	deleted := record.Deleted{State: record.Done, Seq: 10, Stored: 2}
	must.Get(c.Records().Write(t.Context(), record.Put{Key: events.DeletedKey("s"), Value: deleted.Encode()}))(t)
	must.Do(t, c.DeadLetters().DropLetters(t.Context(), 1))
	next := letter
	next.Seq, next.Data = 8, []byte("y")
	must.Do(t, c.DeadLetters().Dead(t.Context(), []events.Dead{next}))
	count("the letter of an event before the deletion", 0)
	must.Do(t, c.DeadLetters().Dead(t.Context(), []events.Dead{later}))
	count("the letter of an event behind it", 1)
}

// TestNoConsumerForNoLetters: who looks for the dead letters of a thread that has none makes no consumer.
func TestNoConsumerForNoLetters(t *testing.T) {
	if natstest.InMemory() {
		t.Skip("a server in memory tells of no consumers")
	}
	c := natstest.Conn(t)
	made := must.Get(c.JetStream().Conn().SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.CREATED." + events.DeadStream + ".>"))(t)
	some, none := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "t", Name: "main"}
	must.Do(t, c.DeadLetters().Dead(t.Context(), []events.Dead{{
		Thread: some, Kind: "entry", Subject: "spool.v1.p.3.s.main.entry", Seq: 7,
		Stored: time.Now().UnixNano(), Data: []byte("a"), Reason: "bad",
	}}))
	first, _ := made.NextMsg(100 * time.Millisecond) // of who looked whether it is there already
	for ; first != nil; first, _ = made.NextMsg(100 * time.Millisecond) {
	}
	letters := func(th events.Thread) (n int) {
		must.Do(t, c.DeadLetters().EachLetter(t.Context(), th, func(natsio.DeadLetter) error { n++; return nil }))
		return n
	}
	must.Same(t, letters(none), 0, "%d letters, want %d")
	if m, err := made.NextMsg(300 * time.Millisecond); err == nil {
		t.Errorf("a consumer was made: %s", m.Data)
	}
	must.Same(t, letters(some), 1, "%d letters, want %d")
	must.Get(made.NextMsg(5 * time.Second))(t)
}

package fsck_test

import (
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A message whose first entry comes late and whose second one has the sequence of another entry: both are acked, so both are dead letters.
func TestReusedBehindALateOneOfItsMessage(t *testing.T) {
	for name, steps := range map[string][]any{
		"alone":           {entryOf(thA, "p", 3, 0, "one"), entryOf(thA, "p", 2, 0, "two"), entryOf(thA, "p", 3, 0, "three")},
		"in one message":  {entryOf(thA, "p", 3, 0, "one"), settles, withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
		"behind a rename": {entryOf(thB, "p", 3, 0, "one"), renames(thB, "a"), withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
		"of a left out": {entryOf(thA, "p", 1, 0, "zero"), entryOf(thA, "p", 3, 0, "one"), settles,
			withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.play(steps...)
			must.Same(t, w.letters(), 2, "%d dead letters, want %d")
			for _, f := range w.account().Findings {
				t.Errorf("accounts: %v", f)
			}
		})
	}
}

// withEntry is an event with one entry more.
func withEntry(e events.Event, seq uint64, text string) events.Event {
	e.More = append(e.More, events.Entry{Seq: seq, Body: step(text)})
	return e
}

// A head knows a few of the gaps that a producer leaves. What comes late in another one is not lost either.
func TestLateInAForgottenGap(t *testing.T) {
	w := newWorld(t)
	var steps []any
	for seq := uint64(1); seq <= 2*threads.GapsOfProducer+5; seq += 2 {
		steps = append(steps, entryOf(thA, "p", seq, 0, fmt.Sprint("entry ", seq)))
	}
	w.play(append(steps, settles, entryOf(thA, "p", 2, 0, "late"), entryOf(thA, "p", 2, 0, "late"), entryOf(thA, "p", 3, 0, "entry 3"))...)
	must.Same(t, w.letters(), 1, "%d dead letters, want %d")
	for _, f := range w.account().Findings {
		t.Errorf("accounts: %v", f)
	}
}

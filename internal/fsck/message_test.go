package fsck_test

import (
	"testing"

	"spool/internal/fsck"
	"spool/pkg/events"
)

// A message whose first entry comes late and whose second one has the sequence of another entry: both are acked, so both are dead letters.
func TestReusedBehindALateOneOfItsMessage(t *testing.T) {
	for name, steps := range map[string][]any{
		"alone":           {entryOf(thA, "p", 3, 0, "one"), entryOf(thA, "p", 2, 0, "two"), entryOf(thA, "p", 3, 0, "three")},
		"in one message":  {entryOf(thA, "p", 3, 0, "one"), settles, withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
		"behind a rename": {entryOf(thB, "p", 3, 0, "one"), renames(thB, "a"), withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
		"of a left out":   {entryOf(thA, "p", 1, 0, "zero"), entryOf(thA, "p", 3, 0, "one"), settles, withEntry(entryOf(thA, "p", 2, 0, "two"), 3, "three")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.play(steps...)
			if n := w.letters(); n != 2 {
				t.Errorf("%d dead letters, want 2", n)
			}
			for _, f := range w.account(fsck.Config{}).Findings {
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

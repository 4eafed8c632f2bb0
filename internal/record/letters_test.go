package record_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestLetters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l record.Letters
		want := map[uint64]bool{} // and whether nobody looked
		for range rapid.IntRange(0, 10).Draw(t, "removals") {
			oldest := rapid.Uint64Range(0, 30).Draw(t, "oldest")
			evs := rapid.SliceOf(rapid.Custom(func(t *rapid.T) events.Dead {
				return events.Dead{Seq: rapid.Uint64Range(0, 60).Draw(t, "event"), Unread: rapid.Bool().Draw(t, "unread")}
			})).Draw(t, "events")
			l.Add(oldest, evs...)
			for _, d := range evs {
				want[d.Seq] = want[d.Seq] || d.Unread
			}
			for e := range want {
				if e < oldest {
					delete(want, e)
				}
			}
			got := must.Get(record.DecodeLetters(l.Encode()))(t)
			if !slices.IsSorted(got.Events) || len(got.Events) != len(want) {
				t.Fatalf("letters of events %v, want %v", got.Events, want)
			}
			for _, e := range got.Events {
				if slices.Contains(got.Unread, e) != want[e] {
					t.Fatalf("letters of events %v, unread of them %v, want %v", got.Events, got.Unread, want)
				}
			}
			l = got
		}
	})
}

func TestLettersAreBounded(t *testing.T) {
	var l record.Letters
	for from := uint64(1 << 50); from < 1<<50+3_000_000; from += 300_000 {
		evs := make([]events.Dead, 20_000)
		for i := range evs {
			evs[i] = events.Dead{Seq: from + uint64(i)*15, Unread: true}
		}
		l.Add(1, evs...)
	}
	if n := len(l.Encode()); n > 500_000 {
		t.Errorf("the record has %d bytes, want one that fits into a message", n)
	}
}

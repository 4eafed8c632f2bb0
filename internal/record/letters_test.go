package record_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/record"
)

func TestLetters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l record.Letters
		want := map[uint64]bool{}
		for range rapid.IntRange(0, 10).Draw(t, "removals") {
			oldest := rapid.Uint64Range(0, 30).Draw(t, "oldest")
			evs := rapid.SliceOf(rapid.Uint64Range(0, 60)).Draw(t, "events")
			l.Add(oldest, evs...)
			for _, e := range evs {
				want[e] = true
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
			l = got
		}
	})
}

func TestLettersAreBounded(t *testing.T) {
	var l record.Letters
	for from := uint64(1 << 50); from < 1<<50+3_000_000; from += 300_000 {
		evs := make([]uint64, 20_000)
		for i := range evs {
			evs[i] = from + uint64(i)*15
		}
		l.Add(1, evs...)
	}
	if n := len(l.Encode()); n > 500_000 {
		t.Errorf("the record has %d bytes, want one that fits into a message", n)
	}
}

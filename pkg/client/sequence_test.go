package client

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/events"
)

func entryOf(seq uint64, text string) *events.Event {
	return &events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: "s", Name: "main"}, Seq: seq,
		Body: []byte(text)}
}

// Whatever a caller does after errors, a sequence names one event, and a thread has every event that was acked.
func TestSequenceNamesOneEvent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s sequence
		named := map[uint64]string{} // what was published under each sequence
		taken := map[uint64]string{} // what the thread took
		var stored, highest uint64   // the last that the thread took, the greatest that was handed out
		store := func(evs []*events.Event) {
			for _, e := range evs {
				if e.Seq > stored {
					taken[e.Seq], stored = string(e.Body), e.Seq
				}
			}
		}
		var failed []string // the texts of the last call, if it failed
		next := 0
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			var texts []string
			if len(failed) > 0 && rapid.Bool().Draw(rt, "again") {
				texts = slices.Clone(failed[:rapid.IntRange(1, len(failed)).Draw(rt, "of them")])
			}
			for range rapid.IntRange(0, 3).Draw(rt, "new") {
				next++
				texts = append(texts, fmt.Sprint("e", next))
			}
			var evs []*events.Event
			for _, text := range texts {
				evs = append(evs, entryOf(0, text))
			}
			must.Do(rt, s.next(evs))
			for _, e := range evs {
				if was, ok := named[e.Seq]; ok && was != string(e.Body) {
					rt.Fatalf("sequence %d names %s and %s", e.Seq, was, e.Body)
				}
				named[e.Seq] = string(e.Body)
				highest = max(highest, e.Seq)
			}
			if rapid.Bool().Draw(rt, "fails") {
				s.failed(evs)
				store(evs[:rapid.IntRange(0, len(evs)).Draw(rt, "stored nevertheless")])
				if len(texts) > 0 {
					failed = texts
				}
				continue
			}
			s.done(evs)
			store(evs)
			for _, e := range evs {
				if taken[e.Seq] != string(e.Body) {
					rt.Fatalf("%s is acked as %d, and the thread took %q", e.Body, e.Seq, taken[e.Seq])
				}
			}
			if len(evs) > 0 {
				failed = nil
			}
		}
		last := entryOf(0, "the last")
		if err := s.next([]*events.Event{last}); err != nil || last.Seq <= highest || last.Seq <= stored {
			rt.Errorf("a new event gets %d, %v, want one above %d", last.Seq, err, highest)
		}
	})
}

func TestSequenceAfterAnError(t *testing.T) {
	give := func(s *sequence, evs ...*events.Event) (seqs []uint64) {
		if err := s.next(evs); err != nil {
			return nil
		}
		for _, e := range evs {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}
	failed := func() *sequence {
		s := &sequence{last: 10}
		evs := []*events.Event{entryOf(0, "a"), entryOf(0, "b"), entryOf(0, "c")}
		_ = s.next(evs)
		s.failed(evs)
		return s
	}
	for name, c := range map[string]struct {
		evs  []*events.Event
		want []uint64
	}{
		"the same":  {[]*events.Event{entryOf(0, "a"), entryOf(0, "b"), entryOf(0, "c")}, []uint64{11, 12, 13}},
		"the first": {[]*events.Event{entryOf(0, "a")}, []uint64{11}},
		"the same and more": {[]*events.Event{entryOf(0, "a"), entryOf(0, "b"), entryOf(0, "c"), entryOf(0, "d")},
			[]uint64{11, 12, 13, 14}},
		"the first and another":       {[]*events.Event{entryOf(0, "a"), entryOf(0, "d")}, []uint64{11, 14}},
		"another":                     {[]*events.Event{entryOf(0, "d")}, []uint64{14}},
		"another, then the first":     {[]*events.Event{entryOf(0, "d"), entryOf(0, "a")}, []uint64{14, 15}},
		"the second":                  {[]*events.Event{entryOf(0, "b")}, []uint64{14}},
		"the second, by its sequence": {[]*events.Event{entryOf(12, "b"), entryOf(0, "c")}, []uint64{12, 13}},
		"another in its place":        {[]*events.Event{entryOf(12, "x")}, nil},
		"one that was used long ago":  {[]*events.Event{entryOf(5, "x")}, nil},
	} {
		if got := give(failed(), c.evs...); !slices.Equal(got, c.want) {
			t.Errorf("%s: sequences %v, want %v", name, got, c.want)
		}
	}
	s := failed()
	one := []*events.Event{entryOf(0, "a")}
	_ = s.next(one)
	s.done(one)
	if got := give(s, entryOf(0, "b"), entryOf(0, "c")); !slices.Equal(got, []uint64{12, 13}) {
		t.Errorf("the rest behind the first: %v, want 12 and 13", got)
	}
}

// A body that waits in the inbox and the same one in memory are one entry; the time of an operation does not matter.
func TestSameEvent(t *testing.T) {
	at := func(ms int64, kind events.Kind) *events.Event {
		e := entryOf(0, "a")
		e.Time, e.Kind = ms, kind
		return e
	}
	sum := sumOf(entryOf(0, "a"))
	if sum == sumOf(at(5, events.KindEntry)) {
		t.Error("entries of two times are the same, want not")
	}
	if sumOf(at(4, events.KindControl)) != sumOf(at(5, events.KindControl)) {
		t.Error("an operation that is tried again is another one, want the same")
	}
}

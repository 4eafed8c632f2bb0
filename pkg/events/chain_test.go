package events

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
)

// mixed draws the events of one call: some producers, epochs, threads and kinds in any order, with gaps in the sequences, with
// repeats, and with any Prev that an event may have had.
func mixed(t *rapid.T) []*Event {
	next := map[chain]uint64{}
	had := map[chain][]*Event{}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *Event {
		e := &Event{
			Producer: rapid.SampledFrom([]string{"p", "q", "~r"}).Draw(t, "producer"), Epoch: rapid.Uint64Range(0, 1).Draw(t, "epoch"),
			Thread: Thread{
				Session: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "session"), Name: rapid.SampledFrom([]string{"main", "sub"}).Draw(t, "thread"),
			},
			Kind: rapid.SampledFrom([]Kind{KindEntry, KindEntry, KindEntry, KindControl}).Draw(t, "kind"), Dialect: "raw",
			Prev: rapid.Uint64Range(0, 9).Draw(t, "prev"), Body: make([]byte, rapid.IntRange(0, 40).Draw(t, "size")),
		}
		key := e.chain()
		if before := had[key]; len(before) > 0 && rapid.IntRange(0, 9).Draw(t, "repeat") == 0 {
			return rapid.SampledFrom(before).Draw(t, "repeated")
		}
		e.Seq = next[key] + rapid.Uint64Range(1, 3).Draw(t, "gap")
		next[key] = e.Seq
		if e.Kind == KindEntry && rapid.IntRange(0, 9).Draw(t, "shared") == 0 {
			e.More = []Entry{{Seq: e.Seq + 1, Body: []byte("more")}}
			next[key]++
		}
		had[key] = append(had[key], e)
		return e
	}), 0, 40).Draw(t, "events")
}

// Of each producer, epoch and thread the links form one chain, from 0 to the last event, whatever stands between; an entry that
// shares an event keeps its place in it. Nothing is lost, and a session's order is kept.
func TestLink(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		given := mixed(rt)
		before := fmt.Sprint(dump(given))
		linked := Link(given, rapid.IntRange(0, 200).Draw(rt, "joined"))
		if after := fmt.Sprint(dump(given)); after != before {
			rt.Fatalf("Link changed what it was given:\n%s\n%s", before, after)
		}
		seen := map[chain][]uint64{}
		for _, e := range linked {
			if err := e.Validate(); err != nil {
				rt.Fatalf("Link made %+v: %v", e, err)
			}
			for _, one := range e.Each() {
				want := uint64(0)
				for _, seq := range seen[one.chain()] {
					if seq < one.Seq {
						want = max(want, seq)
					}
				}
				must.Same(rt, one.Prev, want, "%s is linked to %d, want %d", name(one))
				seen[one.chain()] = append(seen[one.chain()], one.Seq)
			}
		}
		for _, session := range []string{"s", "t"} {
			if got, want := of(session, linked), of(session, given); !slices.Equal(got, want) {
				rt.Errorf("session %s has\n%v, want\n%v", session, got, want)
			}
		}
	})
}

// of names the entries of a session, in order.
func of(session string, evs []*Event) (names []string) {
	for _, e := range evs {
		for _, one := range e.Each() {
			if one.Thread.Session == session {
				names = append(names, name(one))
			}
		}
	}
	return names
}

func name(e Event) string {
	return fmt.Sprintf("%s %s %d %d %d", e.Thread, e.Producer, e.Epoch, e.Seq, len(e.Body))
}

func dump(evs []*Event) (all []Event) {
	for _, e := range evs {
		all = append(all, *e)
	}
	return all
}

// Small entries of one producer share an event up to the limit, and no more.
func TestLinkJoins(t *testing.T) {
	var evs []*Event
	for seq := range uint64(6) {
		e := Event{Producer: "p", Seq: seq + 1, Kind: KindEntry, Dialect: "raw", Thread: Thread{Session: "s", Name: "main"},
			Body: make([]byte, 10)}
		evs = append(evs, &e)
	}
	evs[3].Producer = "q"
	var got [][]uint64
	for _, e := range Link(evs, 2*(10+entryOverhead)) {
		var seqs []uint64
		for _, one := range e.Each() {
			seqs = append(seqs, one.Seq)
		}
		got = append(got, seqs)
	}
	if want := "[[1 2] [3] [4] [5 6]]"; fmt.Sprint(got) != want {
		t.Errorf("Link made %v, want %v", got, want)
	}
}

// What was captured with an entry stays with it, however entries share events.
func TestLinkKeepsCaptured(t *testing.T) {
	var evs []*Event
	for seq := range uint64(5) {
		e := Event{Producer: "p", Seq: seq + 1, Kind: KindEntry, Dialect: "raw", Thread: Thread{Session: "s", Name: "main"}}
		if seq == 2 || seq == 4 {
			e.Captured = &Captured{Size: int64(seq + 1)}
		}
		evs = append(evs, &e)
	}
	var got []int64
	linked := Link(evs, 1<<20)
	for _, e := range linked {
		for _, one := range e.Each() {
			size := int64(0)
			if one.Captured != nil {
				size = one.Captured.Size
			}
			got = append(got, size)
		}
	}
	if want := "[0 0 3 0 5]"; len(linked) != 2 || fmt.Sprint(got) != want {
		t.Errorf("%d events with %v, want 2 with %v", len(linked), got, want)
	}
}

package events_test

import (
	"crypto/sha256"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestStand(t *testing.T) {
	const last = 10 // what the head knows
	known := func(seq uint64) bool { return seq <= last }
	links := func(pairs ...uint64) (ls []events.Linked) {
		for i := 0; i < len(pairs); i += 2 {
			ls = append(ls, events.Linked{Seq: pairs[i], Prev: pairs[i+1], At: 100 + uint64(i)})
		}
		return ls
	}
	for _, c := range []struct {
		name string
		prev uint64
		past events.Past
		want events.Standing
	}{
		{"linked to nothing", 0, events.Past{From: 90}, events.Stands},
		{"linked to what the head knows", 10, events.Past{From: 90}, events.Stands},
		{"behind a dead letter", 11, events.Past{Links: links(11, 10), From: 50}, events.Stands},
		{"behind dead letters of a batch that is linked to nothing", 22,
			events.Past{Links: links(20, 0, 21, 20, 22, 21), From: 50}, events.Stands},
		{"the one before was never stored", 11, events.Past{From: 50}, events.Superseded},
		{"one before that was never stored", 13, events.Past{Links: links(12, 11, 13, 12), From: 50}, events.Superseded},
		{"published again", 13, events.Past{Links: links(12, 11, 13, 12, 11, 10, 12, 11, 13, 12), From: 50}, events.Stands},
		{"published again as far as the one before", 13, events.Past{Links: links(12, 11, 13, 12, 11, 10, 12, 11), From: 50}, events.Superseded},
		{"trimmed", 11, events.Past{From: 91}, events.Unlinked},
		{"trimmed before one that is older than the missing one", 15, events.Past{Links: links(13, 12, 14, 13), From: 91}, events.Superseded},
		{"trimmed inside the batch", 13, events.Past{Links: links(12, 11, 13, 12), From: 91}, events.Unlinked},
		{"beside what cannot be decoded", 11, events.Past{From: 50, Opaque: true}, events.Unlinked},
		{"linked in a circle", 13, events.Past{Links: links(12, 13, 13, 12), From: 50}, events.Unlinked},
		{"linked to itself", 13, events.Past{Links: links(13, 13), From: 50}, events.Unlinked},
	} {
		must.Same(t, events.Stand(c.prev, known, c.past, 90), c.want, "%s: Stand(%d) = %d, want %d", c.name, c.prev)
	}
}

// A producer publishes linked batches, of which messages are lost, and publishes a batch again until all of it is stored. Whatever a
// thread's verdicts note in its head, each event is taken once, in order, or was judged (refused) once: none is skipped for good.
func TestStandLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stored []events.Linked
		seq := uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			n := uint64(rapid.IntRange(1, 5).Draw(t, "events"))
			for {
				lost := false
				for i := uint64(1); i <= n; i++ {
					if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
						lost = true
						continue
					}
					l := events.Linked{Seq: seq + i, At: uint64(len(stored) + 1)}
					if i > 1 {
						l.Prev = seq + i - 1
					}
					stored = append(stored, l)
				}
				if !lost {
					break
				}
			}
			seq += n
		}
		last, at := uint64(0), uint64(0) // the head
		judged := map[uint64]bool{}
		for i, l := range stored {
			if l.Seq <= last {
				continue
			}
			past := events.Past{Links: stored[:i], From: 1}
			if events.Stand(l.Prev, func(seq uint64) bool { return seq <= last }, past, at+1) != events.Stands {
				continue
			}
			if l.Seq > 1 && !judged[l.Seq-1] {
				t.Fatalf("event %d was taken, and %d not yet: %v", l.Seq, l.Seq-1, stored)
			}
			judged[l.Seq] = true
			if rapid.Bool().Draw(t, "noted") { // a dead letter of a latched thread, for one, is not
				last, at = l.Seq, l.At
			}
		}
		for s := uint64(1); s <= seq; s++ {
			if !judged[s] {
				t.Fatalf("event %d of %d was never taken: %v", s, seq, stored)
			}
		}
	})
}

func TestDigest(t *testing.T) {
	one := events.Event{Kind: events.KindEntry, Dialect: "step", Body: []byte(`{"a":1}`)}
	with := func(change func(*events.Event)) events.Event {
		e := one
		change(&e)
		return e
	}
	for name, tt := range map[string]struct {
		other events.Event
		same  bool
	}{
		"line end":          {with(func(e *events.Event) { e.Body = []byte("{\"a\":1}\r\n") }), true},
		"another time":      {with(func(e *events.Event) { e.Time = 7 }), true},
		"space inside":      {with(func(e *events.Event) { e.Body = []byte(`{"a": 1}`) }), false},
		"another dialect":   {with(func(e *events.Event) { e.Dialect = "raw" }), false},
		"an operation":      {with(func(e *events.Event) { e.Kind = events.KindControl }), false},
		"in the inbox":      {with(func(e *events.Event) { e.Body, e.Ref = nil, &events.BodyRef{Sum: sha256.Sum256(e.Body)} }), true},
		"a letter no space": {with(func(e *events.Event) { e.Body = []byte("{\"a\":1}\u00a0") }), false},
	} {
		must.Same(t, one.Digest() == tt.other.Digest(), tt.same, "%s: the same = %v, want %v", name)
	}
}

// stand is Stand as it can be read: each event from the first one on, and then what is missing before the one that is asked for.
func stand(prev uint64, known func(uint64) bool, links []events.Linked) events.Standing {
	if prev == 0 || known(prev) {
		return events.Stands
	}
	stands, before := map[uint64]bool{}, map[uint64]uint64{}
	for _, l := range links {
		if l.Prev == 0 || known(l.Prev) || stands[l.Prev] {
			stands[l.Seq] = true
		}
		before[l.Seq] = l.Prev
	}
	if stands[prev] {
		return events.Stands
	}
	for at := prev; ; {
		p, stored := before[at]
		if !stored {
			return events.Superseded
		}
		if p >= at {
			return events.Unlinked
		}
		at = p
	}
}

func TestStandInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Uint64Range(0, 3).Draw(t, "known")
		known := func(seq uint64) bool { return seq != 0 && seq <= last }
		var links []events.Linked
		for at := range rapid.IntRange(0, 20).Draw(t, "events") {
			links = append(links, events.Linked{Seq: rapid.Uint64Range(1, 12).Draw(t, "seq"),
				Prev: rapid.Uint64Range(0, 12).Draw(t, "prev"), At: uint64(at + 1)})
		}
		for prev := range uint64(13) {
			got := events.Stand(prev, known, events.Past{Links: links, From: 1}, 1)
			if want := stand(prev, known, links); got != want {
				t.Fatalf("Stand(%d) of %+v = %d, want %d", prev, links, got, want)
			}
		}
	})
}

// What stands is found from its end: however much a producer has stored before.
func TestStandLooksNoFurther(t *testing.T) {
	links, asked := []events.Linked{}, 0
	for seq := uint64(1); seq <= 100_000; seq++ {
		links = append(links, events.Linked{Seq: seq, Prev: seq - 1, At: seq})
	}
	links[len(links)-1].Prev = 0
	known := func(uint64) bool { asked++; return false }
	if got := events.Stand(100_000, known, events.Past{Links: links, From: 1}, 1); got != events.Stands || asked > 2 {
		t.Errorf("Stand = %d and asked %d times what is known, want %d and no more than twice", got, asked, events.Stands)
	}
}

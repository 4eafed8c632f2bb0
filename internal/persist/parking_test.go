package persist

import (
	"context"
	"testing"
)

// What is parked for longest gets room also where there is none, once its session holds nothing: what fills the queue
// may wait for it. What is parked for less long does not.
func TestParkedForLongestGetsRoom(t *testing.T) {
	k := newParking(100)
	s := newSpace(100)
	s.parked = k
	for _, session := range []string{"x", "y", "z"} { // 50, 25, 25: nothing is left
		if err := s.acquire(t.Context(), origin{session: session}, map[string]int64{"x": 50, "y": 25, "z": 25}[session]); err != nil {
			t.Fatal(err)
		}
	}
	k.of["old"] = &parked{waits: []waiting{{came: 1}}}
	k.of["young"] = &parked{waits: []waiting{{came: 2}}}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.acquire(ended, origin{session: "young"}, 10); err == nil {
		t.Error("what is parked for less long got room")
	}
	for i := range 2 {
		if err := s.acquire(ended, origin{session: "old"}, 10); (err == nil) != (i == 0) {
			t.Errorf("what is parked for longest: acquire %d = %v, want room once", i+1, err)
		}
	}
	if !k.before("old", 2) || k.before("old", 1) || !k.before("", 2) || k.before("none", 9) {
		t.Error("before() does not tell what is parked")
	}
}

// An event that names another session stays in the queue while something of that is parked that came before it, or, if
// it names all, of any. What came later it does not wait for.
func TestParkedBeforeWhatNamesIt(t *testing.T) {
	for _, h := range []hold{{after: "a"}, {all: true}} {
		k := newParking(100)
		q := newQueue(k)
		k.of["a"] = &parked{waits: []waiting{{came: q.number(&Message{})}}}
		s := &staged{of: &delivery{}, hold: h, from: origin{session: "b"}}
		s.event.Thread.Session = "b"
		q.push(s)
		any := func(*staged) bool { return true }
		if !q.waits(s, h.after) || len(q.take(any)) != 0 {
			t.Errorf("%+v: it is taken before what is parked", h)
		}
		k.of["a"].waits[0].came = q.number(&Message{})
		if q.waits(s, h.after) || len(q.take(any)) != 1 {
			t.Errorf("%+v: it waits for what came later", h)
		}
	}
}

package persist

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"spool/internal/must"
)

// What is parked for longest gets room also where there is none, once its session holds nothing: what fills the queue, or waits for room
// there with its bytes in memory, may wait for it. What is parked for less long does not.
func TestParkedForLongestGetsRoom(t *testing.T) {
	for name, of := range map[string]func(*Persister) *space{
		"queue": func(p *Persister) *space { return p.space }, "parking": func(p *Persister) *space { return p.parking.bytes },
	} {
		p := New(Deps{}, Config{QueueBytes: 400})
		k, s := p.parking, of(p)
		all := s.left
		for _, session := range []string{"x", "y", "z"} { // nothing is left
			if err := s.acquire(t.Context(), origin{session: session},
				map[string]int64{"x": all / 2, "y": all / 4, "z": all / 4}[session]); err != nil {
				t.Fatal(err)
			}
		}
		k.add(&parked{session: "old", waits: []waiting{{came: 1}}})
		k.add(&parked{session: "young", waits: []waiting{{came: 2}}})
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.acquire(ended, origin{session: "young"}, 10); err == nil {
			t.Errorf("%s: what is parked for less long got room", name)
		}
		for i := range 2 {
			if err := s.acquire(ended, origin{session: "old"}, 10); (err == nil) != (i == 0) {
				t.Errorf("%s: what is parked for longest: acquire %d = %v, want room once", name, i+1, err)
			}
		}
		if !k.before("old", 2) || k.before("old", 1) || !k.before("", 2) || k.before("none", 9) {
			t.Error("before() does not tell what is parked")
		}
	}
}

// However small the queue is, a session can be parked: what refers to a body in the inbox always is.
func TestSmallQueueParks(t *testing.T) {
	k := New(Deps{}, Config{QueueBytes: 4 << 10}).parking
	ended, end := context.WithCancel(t.Context())
	end()
	must.Do(t, k.room.acquire(ended, origin{session: "s"}, sessionRoom+parkedRoom))
}

// Where a user has its part, others are given theirs past all that wait of it, and of what it gives back its own get as
// much as there is, in their order.
func TestRoomPastAUser(t *testing.T) {
	s := newSpace(100)
	got := make(chan string, 4)
	ask := func(session, user string, size int64) {
		before := s.waits
		go func() {
			if s.acquire(t.Context(), origin{session, user}, size) == nil {
				got <- session
			}
		}()
		for waits := before; user == "u" && len(waits) == len(before); runtime.Gosched() {
			s.mu.Lock()
			waits = s.waits
			s.mu.Unlock()
		}
	}
	if err := s.acquire(t.Context(), origin{"u0", "u"}, 50); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"u1", "u2", "u3"} {
		ask(session, "u", 20)
	}
	ask("other", "v", 20)
	if session := <-got; session != "other" {
		t.Errorf("%s got room, want the other user", session)
	}
	for _, want := range []string{"u1", "u2"} { // 40 of 80 with both; the third is beyond the part
		s.free(origin{"u0", "u"}, 25)
		if session := <-got; session != want {
			t.Errorf("%s got room, want %s", session, want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waits) != 1 || s.waiting[origin{user: "u"}] != 1 || len(s.waiting) != 1 {
		t.Errorf("%d wait, %v, want the third alone", len(s.waits), s.waiting)
	}
}

// BenchmarkRoom is a look at what can be granted while a thousand sessions of a user wait, all of which have something
// parked: every event costs a few.
func BenchmarkRoom(b *testing.B) {
	k, s := newParking(100), newSpace(100)
	s.parked = k
	s.change(origin{"u0", "u"}, 0, 60)
	for i := range 1000 {
		session := strconv.Itoa(i)
		k.add(&parked{session: session, waits: []waiting{{came: uint64(i + 1)}}})
		s.hold(origin{session: session}, int64(1-min(i, 1))) // the oldest has something in the queue
		s.waits = append(s.waits, &claim{origin{session, "u"}, 20, make(chan struct{})})
		s.waiting[origin{user: "u"}]++
	}
	for b.Loop() {
		s.look()
	}
}

// An event that names another session stays in the queue while something of that is parked that came before it, or, if
// it names all, of any. What came later it does not wait for.
func TestParkedBeforeWhatNamesIt(t *testing.T) {
	for _, h := range []hold{{after: "a"}, {all: true}} {
		k := newParking(100)
		q := newQueue(k)
		k.add(&parked{session: "a", waits: []waiting{{came: q.number(&Message{})}}})
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

// While one waits that needs most of the space, small ones of others get room past it, as long as they leave what it
// needs; so it gets its turn. Who needs all of it is passed by nobody.
func TestSmallOnesPassALargeOne(t *testing.T) {
	for _, of := range []struct {
		large int64
		pass  int // small ones, of 10 each
	}{{large: 750, pass: 25}, {large: 1000, pass: 0}} {
		s := newSpace(1000)
		must.Do(t, s.acquire(t.Context(), origin{session: "before"}, 500))
		got := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { got <- s.acquire(ctx, origin{session: "large"}, of.large) }()
		for waits := 0; waits == 0; runtime.Gosched() {
			s.mu.Lock()
			waits = len(s.waits)
			s.mu.Unlock()
		}
		ended, end := context.WithCancel(t.Context())
		end()
		passed := 0
		for s.acquire(ended, origin{session: strconv.Itoa(passed)}, 10) == nil {
			passed++
		}
		if passed != of.pass {
			t.Errorf("%d small ones passed one of %d, want %d", passed, of.large, of.pass)
		}
		if s.acquire(ended, origin{session: "other"}, 20) == nil {
			t.Errorf("one that is not small passed one of %d", of.large)
		}
		s.free(origin{session: "before"}, 500)
		must.Do(t, <-got)
		cancel()
		s.free(origin{session: "large"}, of.large)
		for i := range passed {
			s.free(origin{session: strconv.Itoa(i)}, 10)
		}
		if s.left != 1000 || s.small != 0 || len(s.held) != 0 {
			t.Errorf("after all is given back: %d left, %d held by small ones, %v", s.left, s.small, s.held)
		}
	}
}

package httpapi

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"spool/internal/access"
	"spool/internal/must"
)

// is reports whether a claim is done with, and granted.
func (c *claim) is() (done, granted bool) {
	select {
	case <-c.over:
		return true, c.ok
	default:
		return false, false
	}
}

// What is given back goes to the token that holds least, though others have waited longer.
func TestTheOneThatHoldsLeastIsFirst(t *testing.T) {
	r := newRoom(4, two(t))
	for _, of := range []string{"a", "a", "b", "b"} {
		must.Same(t, r.claim(&claim{of: of, n: 1}), false, "a free place is waited for: %v, want %v")
	}
	before := []*claim{{of: "a", n: 1}, {of: "b", n: 1}}
	for _, c := range before {
		must.Same(t, r.claim(c), true, "more than there are is waited for: %v, want %v")
	}
	third := &claim{of: "c", n: 1}
	must.Same(t, r.claim(third), true, "the third token waits: %v, want %v")
	r.give("a", 1)
	if _, granted := third.is(); !granted {
		t.Error("the third token, which holds none, does not have the place that is free")
	}
	r.give("b", 1)
	if _, granted := before[1].is(); granted {
		t.Error("b has a place before a, which holds as many and was begun first")
	}
}

// Who asks for no more bytes, as at the end of a body, has what it needs: it neither waits behind others, nor gives way.
func TestNothingIsThere(t *testing.T) {
	r := newRoom(8, nil)
	for _, c := range []claim{{of: "slow", n: 2}, {of: "b", n: 2}, {of: "a", n: 4}} {
		r.claim(&c)
	}
	must.Same(t, r.claim(&claim{of: "b", n: 1, keeps: 2}), true, "more than there is is waited for: %v, want %v")
	end := &claim{of: "a", keeps: 4}
	if r.claim(end) || !end.ok {
		t.Error("who asks for nothing waits, or is refused")
	}
}

// Who is in the middle of a body, and holds a tenth of the memory, has its next bytes beside twenty tokens that come and go, which together
// want more than there is.
func TestNobodyIsStarved(t *testing.T) {
	r := newRoom(100, two(t))
	a := &claim{of: "a", n: 10}
	r.claim(a)
	var running, waiting []*claim
	come := func(i int) {
		c := &claim{of: fmt.Sprint("b", i%20), n: 5}
		if r.claim(c) {
			waiting = append(waiting, c)
		} else if c.ok {
			running = append(running, c)
		}
	}
	n := 0
	for ; n < 22; n++ {
		come(n)
	}
	a.n, a.keeps = 1, 10
	must.Same(t, r.claim(a), true, "more than there is is waited for: %v, want %v")
	for range 10 * mostPassed {
		done := running[0]
		running = running[1:]
		r.give(done.of, done.n)
		come(n)
		n++
		still := waiting[:0]
		for _, c := range waiting {
			if done, granted := c.is(); granted {
				running = append(running, c)
			} else if !done {
				still = append(still, c)
			}
		}
		waiting = still
		if _, granted := a.is(); granted {
			return
		}
	}
	t.Errorf("%d of the others had memory before it", 10*mostPassed)
}

// bodyOf is a request that takes a body's bytes piece by piece.
type bodyOf struct {
	claim
	left, held int64
}

// goes takes a step: the request asks for its next piece, or gives all back behind the last one, or where it is refused.
func (q *bodyOf) goes(r *room, piece int64) (ended bool) {
	if q.left > 0 {
		q.n, q.keeps = min(q.left, piece), q.held
		if q.over = nil; r.claim(&q.claim) {
			return false
		}
		if q.ok {
			q.held, q.left = q.held+q.n, q.left-q.n
			return false
		}
	}
	r.give(q.of, q.held)
	return true
}

// Requests of any tokens and sizes never all wait for each other, and what they hold adds up.
func TestRoomOfAnything(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		tokens := two(t)
		if seed%2 == 0 {
			tokens = nil
		}
		r := newRoom(20, tokens)
		var all []*bodyOf
		for range 400 {
			var can []int
			live := all[:0]
			for _, q := range all {
				if q.over != nil {
					switch done, granted := q.is(); {
					case !done:
						live = append(live, q)
						continue
					case !granted:
						r.give(q.of, q.held)
						continue
					}
					q.over, q.held, q.left = nil, q.held+q.n, q.left-q.n
				}
				can = append(can, len(live))
				live = append(live, q)
			}
			all = live
			sum := int64(0)
			for _, n := range r.by {
				sum += n
			}
			if sum != r.used || r.used > r.most || len(all) > 0 && len(r.line) == len(all) {
				t.Fatalf("seed %d: %d used of %d, by %v; %d of %d wait", seed, r.used, r.most, r.by, len(r.line), len(all))
			}
			if len(all) <= 12 && (len(can) == 0 || random.IntN(3) == 0) {
				all = append(all, &bodyOf{claim: claim{of: fmt.Sprint("t", random.IntN(3))}, left: 1 + random.Int64N(9)})
			} else if len(can) > 0 {
				if i := can[random.IntN(len(can))]; all[i].goes(r, 1+random.Int64N(3)) {
					all = append(all[:i:i], all[i+1:]...)
				}
			}
		}
	}
}

func two(t *testing.T) *access.Tokens {
	return must.Get(access.Parse("writer write 0123456789abcdef0123456789abcdef\nother write 0123456789abcdef0123456789abcdee"))(t)
}

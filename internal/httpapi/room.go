package httpapi

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"spool/internal/access"
)

// room is so much of something that requests hold while they last: places, or bytes in memory. A token of several holds half of it
// at most, so that no agent is refused for what another one holds. Whoever does not find enough waits in one line: in front
// what was passed by many, then the tokens that hold least, and of a token what was begun first. What is given back goes to
// the front. Where the front cannot have enough until others that wait give back what they keep, the end of the line gives way.
//
//	claim ──▶ there is enough, and nobody waits ───────────────────────────▶ granted ──▶ give
//	  │                                                                        ▲          │
//	  ├─────▶ the line ──▶ its front, when something is given back ────────────┘ ◀────────┘
//	  │          ├───────▶ its end, when all that is missing is kept by the line ──▶ refused: it gives way
//	  │          └───────▶ it withdraws, when it has waited for too long ──▶ refused
//	  └─────▶ as many of its token wait as could have a place, and it had none before ──▶ refused
//
// Who waits asks those that hold something to give it back, if they wait for their clients (places.ask).
type room struct {
	most   int64 // for all
	tokens *access.Tokens

	mu    sync.Mutex
	used  int64
	by    map[string]int64 // by the token's name
	line  []*claim         // that wait, in any order
	began uint64           // claims that keep nothing
}

// claim asks for so much for a token.
type claim struct {
	of    string // the token's name
	n     int64
	keeps int64         // what its request has, and gives back only behind this
	again bool          // its request had so much before, and gave it back for a while
	age   uint64        // the number of the first one of those that keep what the ones before them got
	over  chan struct{} // closed when it has n, or gives way
	ok    bool          // it has n

	passed int // how many that were begun behind it have had what it waits for
}

// mostPassed is how many a claim lets pass: tokens that come and go always hold less than one in the middle of a body.
const mostPassed = 64

func newRoom(most int64, tokens *access.Tokens) *room {
	return &room{most: most, tokens: tokens, by: map[string]int64{}}
}

// claim grants a claim, or has it wait in the line. It does neither where as many of its token wait as could have a place, unless it had one.
func (r *room) claim(c *claim) (waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.keeps == 0 {
		r.began++
		c.age = r.began
	}
	share, same := r.share(), int64(0)
	if c.ok = c.n == 0 || len(r.line) == 0 && r.fits(c, share); c.ok {
		r.grant(c)
		return false
	}
	for _, w := range r.line {
		if w.of == c.of {
			same++
		}
	}
	if same >= share && !c.again {
		return false
	}
	c.over, c.passed = make(chan struct{}), 0
	r.line = append(r.line, c)
	r.serve()
	return true
}

func (r *room) fits(c *claim, share int64) bool {
	return r.used+c.n <= r.most && r.by[c.of]+c.n <= share
}

func (r *room) grant(c *claim) {
	c.ok = true
	r.used += c.n
	r.by[c.of] += c.n
}

// withdraw takes a claim out of the line.
func (r *room) withdraw(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.line, c) {
		r.end(c)
		r.serve()
	}
}

// end takes a claim out of the line, and tells it.
func (r *room) end(c *claim) {
	i := slices.Index(r.line, c)
	r.line = slices.Delete(r.line, i, i+1)
	close(c.over)
}

// serve grants what there is to the front of the line, and has its end give way for it.
func (r *room) serve() {
	share := r.share()
	full := map[string]bool{} // tokens of which the first one waits for others of the same
	for {
		c := r.front(full)
		switch {
		case c == nil:
			return
		case r.by[c.of]+c.n > share:
			if kept, last := r.kept(c.of); last != nil && kept+c.n > share {
				r.end(last)
			} else {
				full[c.of] = true
			}
		case r.used+c.n > r.most:
			kept, last := r.kept("")
			if last == nil || kept+c.n <= r.most {
				return
			}
			r.end(last)
		default:
			r.grant(c)
			r.end(c)
			for _, w := range r.line {
				if w.age < c.age {
					w.passed++
				}
			}
		}
	}
}

// before says who is nearer to the front.
func (r *room) before(a, b *claim) int {
	aOld, bOld := a.passed >= mostPassed, b.passed >= mostPassed
	switch {
	case aOld && !bOld:
		return -1
	case bOld && !aOld:
		return 1
	case aOld:
		return cmp.Compare(a.age, b.age)
	}
	return cmp.Or(cmp.Compare(r.by[a.of], r.by[b.of]), cmp.Compare(a.age, b.age))
}

// front is the first one in the line, but for some tokens.
func (r *room) front(but map[string]bool) (first *claim) {
	for _, c := range r.line {
		if !but[c.of] && (first == nil || r.before(c, first) < 0) {
			first = c
		}
	}
	return first
}

// kept is what those in the line keep, of a token or, without a name, of all, and the last one of them that keeps something.
func (r *room) kept(of string) (n int64, last *claim) {
	for _, c := range r.line {
		if c.keeps == 0 || of != "" && c.of != of {
			continue
		}
		if n += c.keeps; last == nil || r.before(last, c) < 0 {
			last = c
		}
	}
	return n, last
}

// share is what a token may hold.
func (r *room) share() int64 {
	if r.tokens.Several() {
		return max(r.most/2, 1)
	}
	return r.most
}

// part is what each token may hold beside a claim's: as much as any other that holds something, or waits. A claim for more than
// its own part has no right to that of others.
func (r *room) part(c *claim) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	tokens := maps.Clone(r.by)
	tokens[c.of] += 0
	for _, w := range r.line {
		tokens[w.of] += 0
	}
	if part := r.most / int64(len(tokens)); r.by[c.of]+c.n <= part {
		return part
	}
	return r.most
}

// holds is what a token holds.
func (r *room) holds(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[name]
}

func (r *room) give(of string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[of] -= n; r.by[of] == 0 {
		delete(r.by, of)
	}
	r.serve()
}

func (r *room) usage() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

package client

import "spool/pkg/events"

// life is one of the threads that had a name, one after the other (SPEC P12).
type life struct {
	thread events.Thread
	life   uint64
}

// mostPlaces is how many lives of threads a subscription remembers at least, 40 to 200 bytes each. It forgets those whose items
// came longest ago: of them an item that was stored twice after a crash comes twice, and items that are missing are not noticed.
const mostPlaces = 50_000

// places remembers the number of the last item that a reader has of each life, in two generations: when the young one is full,
// the old one goes. A life is not forgotten when the next one of its name begins: after a crash items of both can be stored again.
type places struct {
	young, old map[life]int64
	most       int
}

func newPlaces(most int) *places { return &places{young: map[life]int64{}, most: most} }

func (p *places) get(of life) (n int64, known bool) {
	if n, known = p.young[of]; !known {
		n, known = p.old[of]
	}
	return n, known
}

func (p *places) set(of life, n int64) {
	if _, known := p.young[of]; !known && len(p.young) >= p.most {
		p.old, p.young = p.young, make(map[life]int64, p.most/4)
	}
	p.young[of] = n
}

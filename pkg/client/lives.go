package client

import "spool/pkg/events"

// place is how far a reader has come in a thread: the number of the last item, and the life of the name that it is of (SPEC P12).
type place struct {
	life uint64
	n    int64
}

// mostPlaces is how many threads a subscription remembers at least, 40 to 200 bytes each. It forgets those whose items came longest
// ago: of them an item that was stored twice after a crash comes twice, and items that are missing are not noticed.
const mostPlaces = 50_000

// places remembers where a reader is in each thread, in two generations: when the young one is full, the old one goes.
type places struct {
	young, old map[events.Thread]place
	most       int
}

func newPlaces(most int) *places {
	return &places{young: map[events.Thread]place{}, most: most}
}

func (p *places) get(t events.Thread) (at place, known bool) {
	if at, known = p.young[t]; !known {
		at, known = p.old[t]
	}
	return at, known
}

func (p *places) set(t events.Thread, at place) {
	if _, known := p.young[t]; !known && len(p.young) >= p.most {
		p.old, p.young = p.young, make(map[events.Thread]place, p.most/4)
	}
	p.young[t] = at
}

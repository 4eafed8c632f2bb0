package client

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"spool/pkg/events"
)

// A reader of a fleet remembers a bounded number of threads, and those that spoke last for sure.
func TestPlacesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 8).Draw(rt, "most")
		p := newPlaces(most)
		var order []events.Thread // by their last item, newest last
		last := map[events.Thread]place{}
		for i := range rapid.IntRange(0, 100).Draw(rt, "items") {
			th := events.Thread{Session: fmt.Sprint(rapid.IntRange(0, 20).Draw(rt, "thread")), Name: "main"}
			at := place{uint64(i % 3), int64(i)}
			p.set(th, at)
			last[th] = at
			for k, one := range order {
				if one == th {
					order = append(order[:k], order[k+1:]...)
					break
				}
			}
			order = append(order, th)
			if n := len(p.young) + len(p.old); n > 2*most {
				rt.Fatalf("%d places, want %d at most", n, 2*most)
			}
			for k, one := range order {
				got, known := p.get(one)
				if known && got != last[one] || !known && k >= len(order)-most {
					rt.Fatalf("%s, the %dth of %d, is %v, %v, want %v", one, k+1, len(order), got, known, last[one])
				}
			}
		}
	})
}

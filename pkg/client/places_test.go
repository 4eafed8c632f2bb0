package client

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"spool/pkg/events"
)

// A reader of a fleet remembers a bounded number of lives of threads, and those that spoke last for sure.
func TestPlacesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 8).Draw(rt, "most")
		p := newPlaces(most)
		var order []life // by their last item, newest last
		last := map[life]int64{}
		for i := range rapid.IntRange(0, 100).Draw(rt, "items") {
			session := fmt.Sprint(rapid.IntRange(0, 10).Draw(rt, "session"))
			th := life{events.Thread{Session: session, Name: "main"}, rapid.Uint64Range(0, 1).Draw(rt, "life")}
			at := int64(i)
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
					rt.Fatalf("%v, the %dth of %d, is %v, %v, want %v", one, k+1, len(order), got, known, last[one])
				}
			}
		}
	})
}

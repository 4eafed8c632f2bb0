package natsio

import (
	"math/rand/v2"
	"testing"
)

// A sender takes the way that costs less, also on a machine on which any time may be many times what it should be, and takes the
// other one soon after a server is configured anew.
func TestSenderTakesTheBetterWay(t *testing.T) {
	type server struct{ alone, batch float64 } // microseconds for a message
	relaxed, synced, quorum := server{15, 40}, server{1000, 60}, server{90, 30}
	for name, c := range map[string]struct {
		first, then server
		noise       float64 // of 1: how many times are up to 20 times as long
		batched     [2]bool
	}{
		"relaxed":               {relaxed, relaxed, 0, [2]bool{false, false}},
		"relaxed, busy":         {relaxed, relaxed, 0.25, [2]bool{false, false}},
		"synced":                {synced, synced, 0, [2]bool{true, true}},
		"synced, busy":          {synced, synced, 0.25, [2]bool{true, true}},
		"quorum, busy":          {quorum, quorum, 0.25, [2]bool{true, true}},
		"configured anew":       {relaxed, synced, 0, [2]bool{false, true}},
		"configured anew, busy": {synced, relaxed, 0.25, [2]bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			r, wrong := rand.New(rand.NewPCG(1, 2)), [2]int{}
			var w ways
			const groups = 10_000
			for i := range 2 * groups {
				at := c.first
				if i >= groups {
					at = c.then
				}
				batched, _ := w.choose()
				cost := at.alone
				if batched {
					cost = at.batch
				}
				if r.Float64() < c.noise {
					cost *= 1 + 19*r.Float64()
				}
				w.took(batched, cost, cost*1e-6)
				if batched != c.batched[i/groups] {
					wrong[i/groups]++
				}
			}
			for part, n := range wrong {
				if n > groups/10 {
					t.Errorf("part %d: %d of %d groups were not sent as is best", part+1, n, groups)
				}
			}
		})
	}
}

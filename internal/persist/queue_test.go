package persist

import (
	"fmt"
	"testing"

	"spool/pkg/events"
)

// A session's turn ends after the same work however small batches are, also when the end of a batch cuts it short: the
// events of others are taken after one turn of each session before them, and not behind its whole backlog.
func TestTurnsOverSmallBatches(t *testing.T) {
	const backlog, others = 20_000, 24
	for _, size := range []int{1, 10, 124, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			q := newQueue(newParking(1 << 20))
			push := func(session string, n int) {
				for range n {
					s := &staged{known: true}
					s.event.Thread = events.Thread{Session: session, Name: "main"}
					q.push(s)
				}
			}
			push("flood", backlog)
			for i := range others {
				push(fmt.Sprint("other", i), 1)
			}
			ahead, left := 0, others // of the flood's events, those that are taken before the last of the others
			for left > 0 {
				n := 0
				for _, s := range q.take(func(*staged) bool { n++; return n <= size }) {
					if s.event.Thread.Session != "flood" {
						left--
					} else if left > 0 {
						ahead++
					}
				}
			}
			if most := int(turn / eventWork); ahead > most {
				t.Errorf("%d events of the flood are taken before the others, want at most the %d of a turn", ahead, most)
			}
		})
	}
}

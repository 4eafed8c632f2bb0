package persist

import (
	"fmt"
	"strings"
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
					s := &staged{known: true, from: origin{session: session}}
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

// However many sessions a user's backlog is in, another user's events are taken after as much of it, and so are those of
// a session whose user nobody knows. Within the user's turns its sessions take turns.
func TestTurnsOfUsers(t *testing.T) {
	const sessions, each, others = 200, 120, 600
	for _, size := range []int{1, 10, 124, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			q := newQueue(newParking(1 << 20))
			push := func(session, user string, n int) {
				for range n {
					s := &staged{known: true, from: origin{session, user}}
					s.event.Thread = events.Thread{Session: session, Name: "main"}
					q.push(s)
				}
			}
			for i := range sessions {
				push(fmt.Sprint("flood", i), "flood", each)
			}
			push("other", "other", others)
			push("nobodys", "", others)
			took := map[string]int{} // by session
			left := map[string]int{"other": others, "nobodys": others}
			ahead := map[string]int{} // of the flood's events, those that are taken before the last of the others
			batch := 0
			for len(left) > 0 {
				n := 0
				for _, s := range q.take(func(*staged) bool { n++; return n <= size }) {
					session := s.from.session
					took[session]++
					if s.from.user == "flood" {
						batch++
					} else if left[session]--; left[session] == 0 {
						ahead[session] = batch
						delete(left, session)
					}
				}
			}
			const aTurn = int(turn / eventWork)
			for session, n := range ahead {
				if n > others+aTurn {
					t.Errorf("%d events of the flood are taken before the %d of %s, want at most %d", n, others, session, others+aTurn)
				}
			}
			var begun int
			for session, n := range took {
				if strings.HasPrefix(session, "flood") {
					if begun++; n > aTurn {
						t.Errorf("%d events of %s are taken before others of its user have a turn", n, session)
					}
				}
			}
			if begun < batch/each {
				t.Errorf("%d sessions of the flood had a turn, want %d", begun, batch/each)
			}
			for n := q.len(); n > 0; n = q.len() {
				batch += len(q.take(func(*staged) bool { return true }))
				if q.len() == n {
					t.Fatalf("%d events stay where they are", n)
				}
			}
			if batch != sessions*each || len(q.ring) != 0 {
				t.Errorf("%d events of the flood are taken, want %d; %d users wait", batch, sessions*each, len(q.ring))
			}
		})
	}
}

// What comes of others while a large event is being committed is in the batch behind it, however many large ones wait:
// nobody waits for two of them. They have every other batch.
func TestOneLargeEventAtATime(t *testing.T) {
	const others = 24
	q, text := newQueue(newParking(1<<20)), make([]byte, 16<<20)
	push := func(session string, text []byte) {
		s := &staged{known: true, from: origin{session: session}}
		s.event.Thread, s.event.Text = events.Thread{Session: session, Name: "main"}, text
		q.push(s)
	}
	p := New(Deps{}, Config{})
	take := func() (large, small int) {
		for _, s := range q.take(p.lane.limit()) {
			if len(s.event.Text) > 0 {
				large++
			} else {
				small++
			}
		}
		return large, small
	}
	const waiting = 5
	for i := range waiting {
		push(fmt.Sprint("large", i), text)
	}
	if large, small := take(); large != 1 || small != 0 {
		t.Fatalf("the first batch has %d large events and %d others, want one alone", large, small)
	}
	for i := 1; i < waiting; i++ {
		for k := range others {
			push(fmt.Sprint("other", k), nil)
		}
		want := others + min(i-1, 1) // and the late one
		if large, small := take(); large != 0 || small != want {
			t.Errorf("behind large event %d: %d large ones and %d others are taken, want all %d others", i, large, small, want)
		}
		push("late", nil)
		if large, small := take(); large != 1 || small != 0 {
			t.Errorf("behind others %d large events and %d others are taken, want the large one whose turn it is", large, small)
		}
	}
}

package scrub

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/events"
)

func (s *scrubber) events(ctx context.Context) error {
	return s.stream(ctx, events.EventsStream, func(uint64, string, []byte) {})
}

func (s *scrubber) dead(ctx context.Context) error {
	return s.stream(ctx, events.DeadStream, func(uint64, string, []byte) {})
}

// items also counts the items of each thread: 1, 2, 3, … from the first that is held. Their numbers are exact where sequences
// are not, because whoever deletes a session leaves holes in those.
func (s *scrubber) items(ctx context.Context) error {
	counts := newCounts()
	err := s.stream(ctx, events.ItemsStream, func(_ uint64, subject string, data []byte) {
		if t, ok := events.ParseItemSubject(subject); ok {
			n, _ := jsonscan.Int(jsonscan.Get(data, "n"))
			counts.add(t, n)
		}
	})
	if err != nil {
		return err
	}
	for _, gap := range counts.gaps() {
		f := Finding{Missing, events.HeadKey(gap.Thread),
			fmt.Sprintf("%s has not got its items %d to %d; who reads the thread is given them from its nodes", events.ItemsStream,
				gap.From, gap.To)}
		if err := s.find(ctx, 0, f); err != nil {
			return err
		}
	}
	return nil
}

// maxHoles is how many sequences that a stream did not give are asked for one by one, in a pass.
const maxHoles = 1000

// hole is sequences that a stream did not give.
type hole struct{ from, to uint64 }

// stream reads a stream in sequence. A sequence that is left out is asked for by itself: a message that cannot be read is
// corrupt. One that is not there was deleted, or lost: where no session was ever deleted, and no dead letter removed, nobody
// deletes one.
func (s *scrubber) stream(ctx context.Context, name string, take func(seq uint64, subject string, data []byte)) error {
	state, err := s.stateOf(ctx, name)
	if err != nil || state.Messages == 0 {
		return err
	}
	if state.Lost > 0 {
		f := Finding{Missing, name, fmt.Sprintf("its server says that it has lost %d messages, %d bytes", state.Lost, state.LostBytes)}
		if err := s.find(ctx, 0, f); err != nil {
			return err
		}
	}
	var holes []hole
	from := max(s.state.Seq+1, state.First)
	next := from
	err = s.Messages(ctx, name, from, func(seq uint64, subject string, data []byte) error {
		if seq > next && len(holes) < maxHoles {
			holes = append(holes, hole{next, seq - 1})
		}
		next = seq + 1
		take(seq, subject, data)
		s.state.Now.Messages++
		s.state.Seq = seq
		if err := s.took(ctx, len(data)); err != nil {
			return err
		}
		return s.save(ctx, false)
	})
	if err != nil {
		return err
	}
	if next <= state.Last && len(holes) < maxHoles { // the newest were passed over
		holes = append(holes, hole{next, state.Last})
	}
	return s.holes(ctx, name, holes)
}

func (s *scrubber) stateOf(ctx context.Context, name string) (record.StreamState, error) {
	states, err := s.StreamStates(ctx)
	for _, st := range states {
		if st.Stream == name {
			return st, err
		}
	}
	return record.StreamState{}, err
}

// holes asks for what a stream did not give.
func (s *scrubber) holes(ctx context.Context, name string, holes []hole) error {
	asked, gone := 0, []hole{}
	for _, h := range holes {
		missing := h.to - h.from + 1
		for seq := h.from; seq <= h.to && asked < maxHoles; seq++ {
			asked++
			_, err := s.Message(ctx, name, seq)
			if err == nil {
				missing--
				continue
			}
			switch record.KindOf(ctx, err) {
			case "":
				return err
			case Corrupt:
				missing--
				if err := s.find(ctx, 0, Finding{Corrupt, name, err.Error()}); err != nil {
					return err
				}
			}
		}
		if missing > 0 {
			gone = append(gone, h)
		}
	}
	state, err := s.stateOf(ctx, name)
	if err != nil {
		return err
	}
	gone = slices.DeleteFunc(gone, func(h hole) bool { return h.to < state.First }) // trimmed meanwhile
	if len(gone) == 0 || name == events.DeadStream {                                // dead letters are removed one by one
		return nil
	}
	deleted, err := s.Keys(ctx, "deleted.*")
	if err != nil || len(deleted) > 0 {
		return err
	}
	n := uint64(0)
	for _, h := range gone {
		n += h.to - h.from + 1
	}
	return s.find(ctx, 0, Finding{Missing, name,
		fmt.Sprintf("%d messages are not there, the first of them %d, and no session was ever deleted", n, gone[0].from)})
}

// Gap is items that are missing between others of a thread.
type Gap struct {
	Thread   events.Thread
	From, To int64
}

// counts counts the items of threads. One that comes late fills the gap that it left.
type counts struct {
	next    map[events.Thread]int64
	missing map[events.Thread]map[int64]bool
}

func newCounts() *counts {
	return &counts{map[events.Thread]int64{}, map[events.Thread]map[int64]bool{}}
}

func (c *counts) add(t events.Thread, n int64) {
	next, known := c.next[t]
	switch {
	case n <= 0:
	case !known, n == 1: // the first that is held, or of a new life of the name
		c.next[t] = n + 1
		if n == 1 && next > 2 {
			delete(c.missing, t)
		}
	case n >= next:
		for ; next < n && len(c.missing[t]) < maxHoles; next++ {
			if c.missing[t] == nil {
				c.missing[t] = map[int64]bool{}
			}
			c.missing[t][next] = true
		}
		c.next[t] = n + 1
	default:
		delete(c.missing[t], n)
	}
}

func (c *counts) gaps() (out []Gap) {
	for t, missing := range c.missing {
		var all []int64
		for n := range missing {
			all = append(all, n)
		}
		slices.Sort(all)
		for _, n := range all {
			if last := len(out) - 1; last >= 0 && out[last].Thread == t && out[last].To == n-1 {
				out[last].To = n
			} else {
				out = append(out, Gap{t, n, n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Thread.String(), b.Thread.String()), cmp.Compare(a.From, b.From))
	})
	return out
}

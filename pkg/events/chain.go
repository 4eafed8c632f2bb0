package events

import "slices"

// chain names the events that a Prev can link: those of one producer, in one epoch, in one thread (SPEC P2).
type chain struct {
	thread   Thread
	producer string
	epoch    uint64
}

func (e *Event) chain() chain { return chain{e.Thread, e.Producer, e.Epoch} }

// last is the greatest Seq that e carries.
func (e *Event) last() uint64 {
	if n := len(e.More); n > 0 {
		return e.More[n-1].Seq
	}
	return e.Seq
}

// entryOverhead is what an entry costs in a message beside its body, in bytes.
const entryOverhead = 24

// Link prepares events for publishing together, without an ack in between. It sets every Prev, whatever it was: to the event
// before it of the same producer and epoch in the same thread, or to 0 for the first of them (SPEC P2). Events of several
// producers, epochs and threads may be mixed in any way. One that stands here twice, as in a queue that was told of it again, is
// linked both times to the one below it.
//
// Neighbouring small entries of a thread share an event, up to joined bytes of bodies; the order within a session is kept. The
// events given are not changed.
func Link(evs []*Event, joined int) []*Event {
	type open struct {
		*Event
		size int
	}
	out := make([]*Event, 0, len(evs))
	chains := make(map[chain]*seqs, 8)
	sessions := make(map[string]open, 8) // the last event of each session, which an entry may join
	for _, e := range evs {
		c := chains[e.chain()]
		if c == nil {
			c = &seqs{}
			chains[e.chain()] = c
		}
		prev := c.below(e.Seq)
		o := sessions[e.Thread.Session]
		if o.Event != nil && o.joins(e) && o.last() == prev && o.size+len(e.Body) <= joined {
			o.More = append(o.More, Entry{Seq: e.Seq, Time: e.Time, Body: e.Body})
			o.Captured = e.Captured
		} else {
			linked := *e
			linked.Prev, linked.More = prev, slices.Clone(e.More)
			o = open{Event: &linked}
			out = append(out, o.Event)
		}
		o.size += e.size()
		sessions[e.Thread.Session] = o
		c.add(e)
	}
	return out
}

// seqs are the sequences of a chain so far, in order.
type seqs struct{ all []uint64 }

// below is the greatest sequence below n, 0 if there is none.
func (s *seqs) below(n uint64) uint64 {
	i, _ := slices.BinarySearch(s.all, n)
	if i == 0 {
		return 0
	}
	return s.all[i-1]
}

func (s *seqs) add(e *Event) {
	s.put(e.Seq)
	for _, m := range e.More {
		s.put(m.Seq)
	}
}

func (s *seqs) put(n uint64) {
	if i, found := slices.BinarySearch(s.all, n); !found {
		s.all = slices.Insert(s.all, i, n)
	}
}

// joins reports whether an entry can share this event: everything but its sequence, time and body is the same, and what was captured with
// it is only said of the last.
func (e *Event) joins(next *Event) bool {
	return e.Kind == KindEntry && next.Kind == KindEntry && e.Ref == nil && next.Ref == nil && len(next.More) == 0 && e.Captured == nil &&
		e.chain() == next.chain() && e.Dialect == next.Dialect && e.Scope == next.Scope &&
		e.User == next.User && e.Claimed == next.Claimed && e.Host == next.Host && e.File == next.File && e.Trace == next.Trace
}

func (e *Event) size() int {
	n := len(e.Body) + entryOverhead
	for _, m := range e.More {
		n += len(m.Body) + entryOverhead
	}
	return n
}

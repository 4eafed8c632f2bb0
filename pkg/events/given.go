package events

import "slices"

// Given is what sequences of a producer were given to, in one thread, or in all of a session, and one epoch.
type Given struct {
	Tail bool // it begins behind others: what is linked may be linked to these

	named map[uint64]named   // what a sequence was given to first
	first map[seqOf]named    // … and where something is first that is not linked to what was never stored
	in    map[seqOf][]string // the other threads that have it
}

// seqOf is a sequence with what it was given to.
type seqOf struct {
	seq uint64
	is  Digest
}

// named is an event that has a sequence: where EVENTS has it, and under which thread.
type named struct {
	at uint64
	in string
}

// Add takes in the next event that is stored, unless it is linked to one that is not here, and reports whether it did. If that one was
// never stored, the event has no sequence: its producer publishes both again. If it was stored before what is read here, Take takes it in.
func (g *Given) Add(l Linked) bool {
	if _, stood := g.named[l.Prev]; l.Prev != 0 && !stood && !g.Tail {
		return false
	}
	g.Take(l)
	return true
}

// Take takes in the next event that is stored, whatever it is linked to.
func (g *Given) Take(l Linked) {
	if g.first == nil {
		g.named, g.first, g.in = map[uint64]named{}, map[seqOf]named{}, map[seqOf][]string{}
	}
	one, is := named{l.At, l.In}, seqOf{l.Seq, l.Is}
	switch first, known := g.first[is]; {
	case !known:
		g.first[is] = one
	case first.in != l.In && !slices.Contains(g.in[is], l.In):
		g.in[is] = append(g.in[is], l.In)
	}
	if _, known := g.named[l.Seq]; !known {
		g.named[l.Seq] = one
	}
}

// Before reports whether a sequence was given to something before a place in EVENTS.
func (g *Given) Before(seq uint64, is Digest, at uint64) bool {
	first, known := g.first[seqOf{seq, is}]
	return known && first.at < at
}

// In is in which threads a sequence was given to something.
func (g *Given) In(seq uint64, is Digest) []string {
	return append([]string{g.first[seqOf{seq, is}].in}, g.in[seqOf{seq, is}]...)
}

// Names reports whether a sequence was given to anything before a place in EVENTS.
func (g *Given) Names(seq, at uint64) bool {
	first, known := g.named[seq]
	return known && first.at < at
}

// Len is how much is here.
func (g *Given) Len() int { return len(g.first) }

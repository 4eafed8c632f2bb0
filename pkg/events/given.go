package events

// Given is what sequences of a producer were given to, in one thread and epoch.
type Given struct {
	Tail bool // it begins behind others: what is linked may be linked to these

	named map[uint64]uint64 // the sequence in EVENTS at which a sequence is first
	first map[seqOf]uint64  // … and at which something is first that is not linked to what was never stored
}

// seqOf is a sequence with what it was given to.
type seqOf struct {
	seq uint64
	is  Digest
}

// Add takes in the next event that is stored. What is linked to an event that was never stored has no sequence: its
// producer publishes both again.
func (g *Given) Add(l Linked) {
	if g.first == nil {
		g.named, g.first = map[uint64]uint64{}, map[seqOf]uint64{}
	}
	if _, stood := g.named[l.Prev]; l.Prev != 0 && !stood && !g.Tail {
		return
	}
	if _, known := g.first[seqOf{l.Seq, l.Is}]; !known {
		g.first[seqOf{l.Seq, l.Is}] = l.At
	}
	if _, known := g.named[l.Seq]; !known {
		g.named[l.Seq] = l.At
	}
}

// Before reports whether a sequence was given to something before a place in EVENTS.
func (g *Given) Before(seq uint64, is Digest, at uint64) bool {
	first, known := g.first[seqOf{seq, is}]
	return known && first < at
}

// Names reports whether a sequence was given to anything before a place in EVENTS.
func (g *Given) Names(seq, at uint64) bool {
	first, known := g.named[seq]
	return known && first < at
}

// Len is how much is here.
func (g *Given) Len() int { return len(g.first) }

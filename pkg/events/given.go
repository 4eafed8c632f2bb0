package events

// Given is what sequences of a producer were given to, in one thread and epoch.
type Given struct {
	Tail bool // it begins behind others: what is linked may be linked to these

	owners map[uint64]Digest
	first  map[seqOf]uint64 // the sequence in EVENTS at which something is first that is not linked to what was never stored
	top    uint64           // the highest sequence that has an owner
}

// seqOf is a sequence with what it was given to.
type seqOf struct {
	seq uint64
	is  Digest
}

// Add takes in the next event that is stored.
func (g *Given) Add(l Linked) {
	if g.owners == nil {
		g.owners, g.first = map[uint64]Digest{}, map[seqOf]uint64{}
	}
	if _, stood := g.owners[l.Prev]; l.Prev != 0 && !stood && !g.Tail {
		return
	}
	if _, known := g.first[seqOf{l.Seq, l.Is}]; !known {
		g.first[seqOf{l.Seq, l.Is}] = l.At
	}
	if l.Seq > g.top {
		g.owners[l.Seq], g.top = l.Is, l.Seq
	}
}

// Owner is what has a sequence: the first event of it that is in its producer's order and linked to nothing that was never
// stored.
func (g *Given) Owner(seq uint64) (is Digest, known bool) {
	is, known = g.owners[seq]
	return is, known
}

// Before reports whether a sequence was given to something before a place in EVENTS.
func (g *Given) Before(seq uint64, is Digest, at uint64) bool {
	first, known := g.first[seqOf{seq, is}]
	return known && first < at
}

// Names reports whether a sequence was given to anything before a place in EVENTS.
func (g *Given) Names(seq, at uint64) bool {
	for of, first := range g.first {
		if of.seq == seq && first < at {
			return true
		}
	}
	return false
}

// Len is how much is here.
func (g *Given) Len() int { return len(g.first) }

package events

import (
	"slices"
	"sort"
)

// Given is what sequences of a producer were given to, in one thread, or in all of a session, and one epoch.
type Given struct {
	Tail bool // it begins behind others: what is linked may be linked to these

	few   bool   // it tells of some sequences alone …
	from  uint64 // … from here on …
	width uint64 // … and so many

	stood spans             // all sequences that were given to something
	named map[uint64]Place  // what a sequence was given to first
	first map[seqOf]Place   // … and where something is first that is not linked to what was never stored
	in    map[seqOf][]Place // the other threads that have it, and where first
}

// seqOf is a sequence with what it was given to.
type seqOf struct {
	seq uint64
	is  Digest
}

// Place is that of an event: where EVENTS has it, and under which thread's name.
type Place struct {
	At uint64
	In string
}

// mostThings is how many things, a sequence of it, are told apart where a Given tells of some sequences alone.
const mostThings = 4

// GivenAround tells of a number of sequences alone: of that one, some before it and more behind it. It is bounded: of a sequence that was
// given to very many things it does not know the last ones.
func GivenAround(seq, width uint64) Given {
	return Given{few: true, from: seq - min(seq, width/4), width: width}
}

// All reports whether it tells of all sequences, and Tells whether of that one.
func (g *Given) All() bool             { return !g.few }
func (g *Given) Tells(seq uint64) bool { return !g.few || seq-g.from < g.width }

// Stood reports whether a sequence was given to anything, also one that it does not tell of.
func (g *Given) Stood(seq uint64) bool { return g.stood.has(seq) }

// Add takes in the next event that is stored, unless it is linked to one that is not here, and reports whether it did. If that one was
// never stored, the event has no sequence: its producer publishes both again. If it was stored before what is read here, Take takes it in.
func (g *Given) Add(l Linked) bool {
	if l.Prev != 0 && !g.Tail && !g.stood.has(l.Prev) {
		return false
	}
	g.Take(l)
	return true
}

// Take takes in the next event that is stored, whatever it is linked to.
func (g *Given) Take(l Linked) {
	if g.stood.add(l.Seq); !g.Tells(l.Seq) {
		return
	}
	if g.first == nil {
		g.named, g.first, g.in = map[uint64]Place{}, map[seqOf]Place{}, map[seqOf][]Place{}
	}
	one, is := Place{l.At, l.In}, seqOf{l.Seq, l.Is}
	switch first, known := g.first[is]; {
	case !known && g.few && uint64(len(g.first)) >= mostThings*g.width:
	case !known:
		g.first[is] = one
	case first.In != l.In && !slices.ContainsFunc(g.in[is], func(p Place) bool { return p.In == l.In }):
		g.in[is] = append(g.in[is], one)
	}
	if _, known := g.named[l.Seq]; !known {
		g.named[l.Seq] = one
	}
}

// Before reports whether a sequence was given to something before a place in EVENTS.
func (g *Given) Before(seq uint64, is Digest, at uint64) bool {
	first, known := g.first[seqOf{seq, is}]
	return known && first.At < at
}

// In is in which threads a sequence was given to something, each with the first place.
func (g *Given) In(seq uint64, is Digest) []Place {
	return append([]Place{g.first[seqOf{seq, is}]}, g.in[seqOf{seq, is}]...)
}

// Names reports whether a sequence was given to anything before a place in EVENTS.
func (g *Given) Names(seq, at uint64) bool {
	first, known := g.named[seq]
	return known && first.At < at
}

// Len is how much is here.
func (g *Given) Len() int { return len(g.first) + len(g.stood) }

// spans are sequences: from each first one up to and with each last one, in order.
type spans []struct{ first, last uint64 }

// at is the first of them that ends at a sequence or behind it.
func (s spans) at(seq uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].last >= seq })
}

func (s spans) has(seq uint64) bool {
	i := s.at(seq)
	return i < len(s) && s[i].first <= seq
}

func (s *spans) add(seq uint64) {
	i := s.at(seq)
	if i < len(*s) && (*s)[i].first <= seq {
		return
	}
	after, before := i > 0 && (*s)[i-1].last+1 == seq, i < len(*s) && (*s)[i].first == seq+1
	switch {
	case after && before:
		(*s)[i-1].last = (*s)[i].last
		*s = slices.Delete(*s, i, i+1)
	case after:
		(*s)[i-1].last = seq
	case before:
		(*s)[i].first = seq
	default:
		*s = slices.Insert(*s, i, struct{ first, last uint64 }{seq, seq})
	}
}

// Package keyset is a set of millions of keys, in some ten bytes each: of a key it has a hash.
package keyset

import "hash/maphash"

// Set is a set of keys. Two of them are taken for one with a chance of one in 2^62; which ones, nobody can know before. Each key has a
// mark that can be changed. Make makes one.
type Set struct {
	seed  maphash.Seed
	parts [1 << partBits]part
	n     int
}

// part is an open table of the hashes that begin alike, so that growing takes little at a time. Two bits of a hash are other things.
type part struct {
	slots []uint64
	n     int
}

const (
	partBits        = 8
	taken    uint64 = 1
	mark     uint64 = 2
)

// Make makes an empty set.
func Make() *Set { return &Set{seed: maphash.MakeSeed()} }

// Len is how many keys are in it.
func (s *Set) Len() int { return s.n }

// Put adds a key with its mark, and reports whether it is new, and else which mark it had.
func (s *Set) Put(key string, marked bool) (fresh, was bool) {
	h := maphash.String(s.seed, key)
	p := &s.parts[h>>(64-partBits)]
	if 4*p.n >= 3*len(p.slots) {
		p.grow()
	}
	at := p.find(h)
	fresh, was = p.slots[at] == 0, p.slots[at]&mark != 0
	if p.slots[at] = h&^mark | taken; marked {
		p.slots[at] |= mark
	}
	if fresh {
		p.n++
		s.n++
	}
	return fresh, was
}

// Has reports whether a key is in it.
func (s *Set) Has(key string) bool {
	h := maphash.String(s.seed, key)
	p := &s.parts[h>>(64-partBits)]
	return p.n > 0 && p.slots[p.find(h)] != 0
}

// find gives the slot of a hash, or the one that it is to have.
func (p *part) find(h uint64) int {
	at := int(uint64(uint32(h>>(32-partBits))) * uint64(len(p.slots)) >> 32)
	for p.slots[at] != 0 && (p.slots[at]^h)&^(taken|mark) != 0 {
		if at++; at == len(p.slots) {
			at = 0
		}
	}
	return at
}

func (p *part) grow() {
	old := p.slots
	p.slots = make([]uint64, len(old)+len(old)/2+16)
	for _, h := range old {
		if h != 0 {
			p.slots[p.find(h)] = h
		}
	}
}

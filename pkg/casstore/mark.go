package casstore

// Bits is a set of small integers, one bit each.
type Bits []uint64

// NewBits is an empty set for the integers from 0 to n-1.
func NewBits(n int) Bits { return make(Bits, (n+63)/64) }

// Set adds i and reports whether it was not in the set before.
func (b Bits) Set(i int) bool {
	old := b[i/64]
	b[i/64] = old | 1<<(i%64)
	return b[i/64] != old
}

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

// Mark adds to marked, a set of node indexes, all own nodes reachable from those in it, and to outside, a set of indexes of
// the outside table, all entries they refer to. A ref always points to a lower index, so one pass from the last node to
// the first is enough and needs no stack (DESIGN 9, step 3).
func (h *Header) Mark(marked, outside Bits) {
	for i := h.Len() - 1; i >= 0; i-- {
		if !marked.Has(i) {
			continue
		}
		count, at := uvarint(h.edges, int(h.edgeAt[i]))
		for range count {
			var code uint64
			code, at = uvarint(h.edges, at)
			switch t := target(code, i); {
			case t >= 0:
				marked.Set(int(t))
			case t != NilTarget:
				outside.Set(int(-1 - t))
			}
		}
	}
}

package casstore

import "encoding/binary"

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

// Without is the integers from 0 to n-1 that are not in the set; nil when all are.
func (b Bits) Without(n int) Bits {
	out, some := NewBits(n), false
	for i := range n {
		if !b.Has(i) {
			out.Set(i)
			some = true
		}
	}
	if !some {
		return nil
	}
	return out
}

// Bytes is the set as bytes, the bit of 0 the lowest of the first; ReadBits reads it.
func (b Bits) Bytes() []byte {
	out := make([]byte, 0, 8*len(b))
	for _, word := range b {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

// ReadBits is the inverse of Bytes; bytes that are left out are zero.
func ReadBits(p []byte) Bits {
	if len(p) == 0 {
		return nil
	}
	b := NewBits(8 * len(p))
	for i, c := range p {
		b[i/8] |= uint64(c) << (i % 8 * 8)
	}
	return b
}

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

package casstore

import (
	"encoding/binary"
	"math/rand/v2"
)

// refTable finds refs among those a builder knows: open addressing by eight bytes of the sum, which is a hash already,
// scattered by a number that nobody outside knows. An entry of a log makes a dozen look-ups.
type refTable struct {
	slots []int32 // id + 1, or 0; a power of two of them
	shift uint8
}

var scatter = rand.Uint64() | 1

// slot is where the ref's id stands or would stand. The table has room.
func (t *refTable) slot(ref *Ref, known []known) *int32 {
	mask := len(t.slots) - 1
	for i := int(binary.LittleEndian.Uint64(ref[1:]) * scatter >> t.shift); ; i++ {
		s := &t.slots[i&mask]
		if *s == 0 || known[*s-1].ref == *ref {
			return s
		}
	}
}

// grow doubles the table.
func (t *refTable) grow(known []known) {
	size := max(2*len(t.slots), 1024)
	t.slots, t.shift = make([]int32, size), 64
	for n := size; n > 1; n /= 2 {
		t.shift--
	}
	for id := range known {
		*t.slot(&known[id].ref, known) = int32(id) + 1
	}
}

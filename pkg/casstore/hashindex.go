package casstore

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// hashIndex finds a key that ends in a SHA-256 in a table of records of equal length. The table of slots is built at the first search of a
// table that is not small, so headers that are only walked never pay for it. The hash is seeded: sums in a hostile header
// cannot be chosen to collide.
type hashIndex struct {
	keys          []byte // the table
	stride, width int    // length in bytes of a record, and of the key it begins with

	once  sync.Once
	seed  maphash.Seed
	slots []uint32 // open addressing; index + 1, or 0
}

const searchLinearly = 8

func (x *hashIndex) key(i int) []byte { return x.keys[i*x.stride : i*x.stride+x.width] }

func (x *hashIndex) len() int { return len(x.keys) / x.stride }

// find is the index of the first record with that key.
func (x *hashIndex) find(key []byte) (int, bool) {
	if len(x.keys) == 0 {
		return 0, false
	}
	if x.len() <= searchLinearly {
		for i := range x.len() {
			if bytes.Equal(x.key(i), key) {
				return i, true
			}
		}
		return 0, false
	}
	x.once.Do(x.build)
	for slot := x.slot(key); x.slots[slot] != 0; slot = (slot + 1) % len(x.slots) {
		if i := int(x.slots[slot] - 1); bytes.Equal(x.key(i), key) {
			return i, true
		}
	}
	return 0, false
}

func (x *hashIndex) build() {
	x.seed = maphash.MakeSeed()
	x.slots = make([]uint32, 2*x.len())
	for i := range x.len() {
		slot := x.slot(x.key(i))
		for x.slots[slot] != 0 && !bytes.Equal(x.key(int(x.slots[slot]-1)), x.key(i)) {
			slot = (slot + 1) % len(x.slots)
		}
		if x.slots[slot] == 0 {
			x.slots[slot] = uint32(i) + 1
		}
	}
}

func (x *hashIndex) slot(key []byte) int {
	return int(maphash.Bytes(x.seed, key) % uint64(len(x.slots)))
}

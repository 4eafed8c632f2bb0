package gc

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"spool/pkg/casstore"
)

// heads is what was told of threads, in the order in which it was told: there may be millions, and none has a pointer. Of what was told
// of one thread the last counts, and what it was since the first reading ended.
type heads struct {
	keys   hasher
	chunks [][]byte
	packs  []casstore.PackID // that roots name
	places map[casstore.PackID]uint64

	told    int // how many are in the chunks
	settled int // chunks, when it was settled
	unsure  bool

	counts     // of all threads
	n      int // how many threads there are
}

// head is what a thread keeps alive.
type head struct {
	seq   uint64 // of its record
	roots []casstore.Located
	hints []casstore.Located // ancestors that it names in other packs than its state's: the next state refers to these copies
	counts
}

type counts struct{ entries, items, bytes int64 }

// keyHash tells records apart: no two have the same by chance, and nobody can know before which would.
type keyHash [16]byte

type hasher [2]maphash.Seed

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (seeds hasher) of(key string) (h keyHash) {
	for i, seed := range seeds {
		binary.LittleEndian.PutUint64(h[8*i:], maphash.String(seed, key))
	}
	return h
}

// state of what was told, the byte behind its key. late: since the first reading ended.
const (
	headLast byte = iota // the last that was told, as far as is known
	headGone             // its record is removed
	headPast             // what a thread was
	headDead             // it means nothing any more
	headLate byte = 1 << 7
)

const headChunk = 256 << 10

func newHeads() heads {
	return heads{keys: newHasher(), places: map[casstore.PackID]uint64{}}
}

// put notes what a thread is; nil: it is removed.
func (hs *heads) put(name string, h *head, late bool) {
	key := hs.keys.of(name)
	b := append(make([]byte, 0, 256), key[:]...)
	state := headGone
	if h != nil {
		state = headLast
	}
	if late {
		state |= headLate
	}
	b = append(b, state)
	if h != nil {
		for _, n := range []uint64{h.seq, uint64(h.entries), uint64(h.items), uint64(h.bytes)} {
			b = binary.AppendUvarint(b, n)
		}
		b = hs.appendAll(hs.appendAll(b, h.roots), h.hints)
	}
	hs.add(b)
	if hs.unsure = true; len(hs.chunks) > 2*hs.settled+64 {
		hs.settle()
		hs.compact()
	}
}

func (hs *heads) add(b []byte) {
	if n := len(hs.chunks); n == 0 || len(hs.chunks[n-1])+len(b) > cap(hs.chunks[n-1]) {
		hs.chunks = append(hs.chunks, make([]byte, 0, max(headChunk, len(b))))
	}
	last := &hs.chunks[len(hs.chunks)-1]
	*last = append(*last, b...)
	hs.told++
}

func (hs *heads) appendAll(b []byte, all []casstore.Located) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, l := range all {
		place, known := hs.places[l.Pack]
		if !known {
			place = uint64(len(hs.packs))
			hs.packs, hs.places[l.Pack] = append(hs.packs, l.Pack), place
		}
		b = append(binary.AppendUvarint(b, place), l.Ref[:]...)
	}
	return b
}

// told is one that was told, in its place.
type told struct {
	key  keyHash
	at   []byte // the state, then the head
	size int
	counts
}

// parse reads the one that a chunk goes on with. h is nil where there is no head, or nobody wants it.
func (hs *heads) parse(b []byte, h *head) told {
	t, at := told{key: keyHash(b), at: b[len(keyHash{}):]}, len(keyHash{})+1
	number := func() uint64 {
		n, size := binary.Uvarint(b[at:])
		at += size
		return n
	}
	if t.state() == headGone {
		t.size = at
		return t
	}
	seq := number()
	t.counts = counts{int64(number()), int64(number()), int64(number())}
	if h != nil {
		*h = head{seq, h.roots[:0], h.hints[:0], t.counts}
	}
	for list := range 2 {
		for range number() {
			pack := number()
			switch l := (casstore.Located{Ref: casstore.Ref(b[at:]), Pack: hs.packs[pack]}); {
			case h == nil:
			case list == 0:
				h.roots = append(h.roots, l)
			default:
				h.hints = append(h.hints, l)
			}
			at += casstore.RefSize
		}
	}
	t.size = at
	return t
}

func (t told) state() byte { return t.at[0] &^ headLate }

func (t told) late() bool { return t.at[0]&headLate != 0 }

// settle finds out what the last of each thread is.
func (hs *heads) settle() {
	if !hs.unsure {
		return
	}
	type place struct {
		key       keyHash
		chunk, at uint32
	}
	all := make([]place, 0, hs.told)
	for c, chunk := range hs.chunks {
		for at := 0; at < len(chunk); {
			t := hs.parse(chunk[at:], nil)
			if t.state() == headLast || t.state() == headGone {
				all = append(all, place{t.key, uint32(c), uint32(at)})
			}
			at += t.size
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		if by := bytes.Compare(a.key[:], b.key[:]); by != 0 {
			return by
		}
		return int(int64(a.chunk)<<32|int64(a.at)) - int(int64(b.chunk)<<32|int64(b.at))
	})
	hs.n, hs.counts = 0, counts{}
	for i, p := range all {
		t := hs.parse(hs.chunks[p.chunk][p.at:], nil)
		switch last := i+1 == len(all) || all[i+1].key != p.key; {
		case !last && t.state() == headLast && hs.parse(hs.chunks[all[i+1].chunk][all[i+1].at:], nil).late():
			t.at[0] = headPast
		case !last && t.state() == headLast:
			t.at[0] = headDead
		case last && t.state() == headLast:
			hs.n++
			hs.entries, hs.items, hs.bytes = hs.entries+t.entries, hs.items+t.items, hs.bytes+t.bytes
		}
	}
	hs.settled, hs.unsure = len(hs.chunks), false
}

// compact forgets what means nothing any more: of who is removed, too, since what came before was found out.
func (hs *heads) compact() {
	old := hs.chunks
	hs.chunks, hs.told = nil, 0
	for c, chunk := range old {
		for at := 0; at < len(chunk); {
			t := hs.parse(chunk[at:], nil)
			if t.state() == headLast || t.state() == headPast {
				hs.add(chunk[at : at+t.size])
			}
			at += t.size
		}
		old[c] = nil
	}
	hs.settled = len(hs.chunks)
}

// each gives every thread as it is, and those that were since the first reading ended, with their colour. The head is good until f
// returns. spend: what is given is forgotten, and only the counts stay.
func (hs *heads) each(spend bool, f func(h *head, c colour) error) error {
	hs.settle()
	var h head
	for c, chunk := range hs.chunks {
		for at := 0; at < len(chunk); {
			t := hs.parse(chunk[at:], &h)
			at += t.size
			var err error
			switch t.state() {
			case headLast:
				err = f(&h, firm)
			case headPast: // another collector may have condemned what a thread had that is gone
				err = f(&h, faint)
			}
			if err != nil {
				return err
			}
		}
		if spend {
			hs.chunks[c] = nil
		}
	}
	return nil
}

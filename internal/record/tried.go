package record

import (
	"errors"
	"slices"
)

// Tried is the value of the record of what a persister tries of a partition while it is not known what others died
// over. It is a hint: without it an event over which processes die is tried for ever.
type Tried struct {
	Life   Life   // of the persister that tries it; zero: that ended in order
	Lo, Hi uint64 // the sequences of SPOOL_EVENTS that it has in hand, both included

	Alone  bool   // it is one event, and nothing else is under way in the process
	Index  int    // of that event in its message
	Stored int64  // when the server stored the message, Unix nanoseconds; 0 = unknown
	Died   []Life // those that died while they tried that event alone
}

// Life tells a persister from all others that ever were.
type Life [16]byte

// Is reports whether it is an event that is tried alone.
func (t *Tried) Is(seq uint64, index int, stored int64) bool {
	return t.Alone && t.Lo == seq && t.Index == index && t.Stored == stored
}

// FoundBy says whom a record tells that another one left it: that one has died, unless it says so itself later.
func (t *Tried) FoundBy(life Life) {
	if t.Alone && t.Life != life && t.Life != (Life{}) && !slices.Contains(t.Died, t.Life) {
		t.Died = append(t.Died, t.Life)
	}
	t.Died = slices.DeleteFunc(t.Died, func(l Life) bool { return l == life })
}

// Encode is the value's bytes.
func (t Tried) Encode() []byte {
	died := make([]byte, 0, len(Life{})*len(t.Died))
	for _, l := range t.Died {
		died = append(died, l[:]...)
	}
	return encode(version, t.Life[:], t.Lo, t.Hi, t.Alone, t.Index, t.Stored, died)
}

// DecodeTried reads the value of such a record.
func DecodeTried(b []byte) (t Tried, err error) {
	r := open("tried", b, 8)
	r.fixed(t.Life[:])
	t.Lo, t.Hi = uint64(r.int()), uint64(r.int())
	t.Alone, t.Index, t.Stored = r.bool(), int(r.int()), r.int()
	died := read(r, r.dec.DecodeBytes)
	if r.err == nil && len(died)%len(Life{}) != 0 {
		r.fail(errTried)
	}
	for l := range slices.Chunk(died, len(Life{})) {
		if r.err == nil {
			t.Died = append(t.Died, Life(l))
		}
	}
	return t, r.err
}

var errTried = errors.New("what died is no list of lives")

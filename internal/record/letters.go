package record

import "slices"

// Letters is the value of the record of the dead letters that operators removed: the events that they were of, by their
// sequences in SPOOL_EVENTS, in ascending order. So an event without a letter is told from one that was lost (SPEC P1).
type Letters struct{ Events []uint64 }

// maxLetters keeps the value below the smallest message that a server may be set to take. The oldest are forgotten first.
const maxLetters = 50_000

// Add notes the events of removed letters, and forgets those below the oldest event that SPOOL_EVENTS still has.
func (l *Letters) Add(oldest uint64, evs ...uint64) {
	all := append(slices.Clone(l.Events), evs...)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(e uint64) bool { return e < oldest })
	l.Events = all[max(0, len(all)-maxLetters):]
}

// Encode is the value's bytes.
func (l Letters) Encode() []byte {
	steps, last := make([]uint64, len(l.Events)), uint64(0)
	for i, e := range l.Events {
		steps[i], last = e-last, e
	}
	return encode(version, steps)
}

// DecodeLetters reads the value of that record; nil is that of a store where none was removed.
func DecodeLetters(b []byte) (l Letters, err error) {
	if len(b) == 0 {
		return l, nil
	}
	r, last := open("letters", b, 2), uint64(0)
	for range read(r, r.dec.DecodeArrayLen) {
		last += read(r, r.dec.DecodeUint64)
		if r.err != nil {
			break
		}
		l.Events = append(l.Events, last)
	}
	return l, r.err
}

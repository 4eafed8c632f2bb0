package record

import (
	"slices"

	"spool/pkg/events"
)

// Letters is the value of the record of the dead letters that operators removed: the events that they were of, by their
// sequences in SPOOL_EVENTS, in ascending order. So an event without a letter is told from one that was lost (SPEC P1).
type Letters struct {
	Events []uint64
	Unread []uint64 // those of them of which nobody had looked whether their thread has them
}

// These keep the value below the smallest message that a server may be set to take. The oldest are forgotten first.
const (
	maxLetters = 50_000
	maxUnread  = 1_000 // processes died five times over each of them
)

// Add notes the events of letters that are removed, and forgets those below the oldest event that SPOOL_EVENTS still has.
func (l *Letters) Add(oldest uint64, gone ...events.Dead) {
	for _, d := range gone {
		l.Events = append(l.Events, d.Seq)
		if d.Unread {
			l.Unread = append(l.Unread, d.Seq)
		}
	}
	l.Events, l.Unread = newest(l.Events, oldest, maxLetters), newest(l.Unread, oldest, maxUnread)
}

// newest is the most of these from the oldest on, in ascending order.
func newest(all []uint64, oldest uint64, most int) []uint64 {
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(e uint64) bool { return e < oldest })
	return all[max(0, len(all)-most):]
}

// Encode is the value's bytes.
func (l Letters) Encode() []byte {
	fields := []any{version, steps(l.Events)}
	if len(l.Unread) > 0 {
		fields = append(fields, steps(l.Unread))
	}
	return encode(fields...)
}

// steps is each of these less the one before it.
func steps(all []uint64) []uint64 {
	of, last := make([]uint64, len(all)), uint64(0)
	for i, e := range all {
		of[i], last = e-last, e
	}
	return of
}

// DecodeLetters reads the value of that record; nil is that of a store where none was removed.
func DecodeLetters(b []byte) (l Letters, err error) {
	if len(b) == 0 {
		return l, nil
	}
	r := open("letters", b, 2)
	l.Events = sums(r)
	if r.members > 2 {
		l.Unread = sums(r)
	}
	return l, r.err
}

// sums reads what steps gives.
func sums(r *reader) []uint64 {
	all, last := list(r, func() uint64 { return read(r, r.dec.DecodeUint64) }), uint64(0)
	for i, step := range all {
		last += step
		all[i] = last
	}
	return all
}

package record

import "spool/pkg/events"

// Left is the value of the record of a thread that is no more under its name (SPEC C9).
type Left struct {
	To   string // its new name in the session; empty: it was removed
	Head []byte // threads.Head, with what tells an event that it had from a new one, and the id of the commit; of a removed one, what it held
}

// Encode is the value's bytes.
func (l Left) Encode() []byte { return encode(version, l.To, l.Head) }

// DecodeLeft reads the value of such a record.
func DecodeLeft(b []byte) (l Left, err error) {
	r := open("left", b, 3)
	l.To = r.string()
	l.Head = read(r, r.dec.DecodeBytes)
	return l, r.err
}

// StoredEvent is an event as SPOOL_EVENTS has it.
type StoredEvent struct {
	events.Event
	Seq    uint64 // stream sequence
	Stored int64  // when the server stored it, Unix nanoseconds; 0 = unknown
}

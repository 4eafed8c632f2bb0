package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/pkg/events"
)

// Refused is the value of the record of what was refused in a partition: the events whose dead letters may not be out yet. The commit
// that refuses an event writes it, so that whoever gets the event again, after a crash, sends its letter and does not judge it anew.
type Refused struct {
	Batch [16]byte // of the commit that wrote it

	// Top is the highest sequence of an event that was ever refused in the partition, and Latest the latest time at which SPOOL_EVENTS
	// stored one of them, Unix nanoseconds. An event that is above one of both was never refused.
	Top    uint64
	Latest int64

	Events []RefusedEvent

	// Nowhere are the events that were refused under a name without a thread, so that no head notes them, oldest first. What comes again
	// under one of these identities is refused again, whatever thread has the name by then.
	Nowhere []Identity
}

// Identity tells an event from every other one.
type Identity [16]byte

// IdentityOf is that of an event of a session which was deleted last by the event at a sequence of SPOOL_EVENTS, or never: 0. What is
// published behind a deletion is another event.
func IdentityOf(e *events.Event, deleted uint64) (id Identity) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d\x00%d\x00%d", e.Thread.Session, e.Thread.Name, e.Producer, e.Epoch, e.Seq, deleted)
	copy(id[:], h.Sum(nil))
	return id
}

// RefusedEvent is one of them.
type RefusedEvent struct {
	Seq     uint64 // of its message in SPOOL_EVENTS
	Index   int    // its place in the message, from 0; WholeMessage: nobody could tell the events of the message apart
	Stored  int64  // when the server stored the message, Unix nanoseconds; 0 = unknown. A stream that was made anew counts from 1 again
	Session uint64 // SessionMark of its session
	Reason  string
	Unread  bool // nobody looked whether its thread has it
}

// WholeMessage is the place of all that a message holds.
const WholeMessage = -1

// RefusedBytes is what an event adds to the value at most, without its reason.
const RefusedBytes = 48

// refusedReason is how much of a reason is kept at most, in bytes. The dead letter has more of it.
const refusedReason = 512

// SessionMark tells the events of a session in the value from those of others; it does not name the session.
func SessionMark(session string) uint64 {
	sum := sha256.Sum256([]byte(session))
	return binary.BigEndian.Uint64(sum[:]) >> 1
}

// Encode is the value's bytes, at most limit of them: reasons are cut to what there is room for. Without any they take RefusedBytes an
// event.
func (r Refused) Encode(limit int) []byte {
	evs := slices.Clone(r.Events)
	slices.SortFunc(evs, func(a, b RefusedEvent) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index))
	})
	for most := refusedReason; ; most /= 4 {
		if b := r.encode(evs, most); len(b) <= limit || most == 0 {
			return b
		}
	}
}

// lastingRefused is a value without what speaks of the stream as a whole. A restore says where its events are then.
func lastingRefused(value []byte) []byte {
	r, err := DecodeRefused(value)
	if err != nil || len(r.Nowhere)+len(r.Events) == 0 {
		return nil
	}
	return Refused{Events: r.Events, Nowhere: r.Nowhere}.Encode(len(value))
}

func (r Refused) encode(evs []RefusedEvent, most int) []byte {
	var sessions []uint64
	var reasons []string
	var unread []int
	bySession, byReason := map[uint64]int{}, map[string]int{}
	flat := make([]int, 0, 5*len(evs))
	last := RefusedEvent{}
	for _, e := range evs {
		reason := strings.ToValidUTF8(e.Reason[:min(len(e.Reason), most)], "")
		if _, ok := bySession[e.Session]; !ok {
			bySession[e.Session] = len(sessions)
			sessions = append(sessions, e.Session)
		}
		if _, ok := byReason[reason]; !ok {
			byReason[reason] = len(reasons)
			reasons = append(reasons, reason)
		}
		if e.Unread {
			unread = append(unread, len(flat)/5)
		}
		flat = append(flat, int(e.Seq-last.Seq), e.Index, int(e.Stored-last.Stored), bySession[e.Session], byReason[reason])
		last = e
	}
	fields := []any{version, r.Batch[:], r.Top, r.Latest, sessions, reasons, flat}
	if len(r.Nowhere)+len(unread) > 0 {
		nowhere := make([]byte, 0, len(Identity{})*len(r.Nowhere))
		for _, id := range r.Nowhere {
			nowhere = append(nowhere, id[:]...)
		}
		fields = append(fields, nowhere)
	}
	if len(unread) > 0 {
		fields = append(fields, unread)
	}
	return encode(fields...)
}

// DecodeRefused reads the value of such a record.
func DecodeRefused(b []byte) (v Refused, err error) {
	r := open("refused", b, 7)
	r.fixed(v.Batch[:])
	v.Top, v.Latest = uint64(r.int()), r.int()
	sessions := list(r, r.int)
	reasons := list(r, r.string)
	flat := list(r, r.int)
	if r.err == nil && len(flat)%5 != 0 {
		r.fail(errRefused)
	}
	last := RefusedEvent{}
	for f := range slices.Chunk(flat, 5) {
		if r.err != nil {
			break
		}
		if f[3] < 0 || f[3] >= int64(len(sessions)) || f[4] < 0 || f[4] >= int64(len(reasons)) {
			r.fail(errRefused)
			break
		}
		last = RefusedEvent{
			Seq: last.Seq + uint64(f[0]), Index: int(f[1]), Stored: last.Stored + f[2],
			Session: uint64(sessions[f[3]]), Reason: reasons[f[4]],
		}
		v.Events = append(v.Events, last)
	}
	if r.members > 7 {
		b := read(r, r.dec.DecodeBytes)
		if r.err == nil && len(b)%len(Identity{}) != 0 {
			r.fail(errRefused)
		}
		for id := range slices.Chunk(b, len(Identity{})) {
			if r.err == nil {
				v.Nowhere = append(v.Nowhere, Identity(id))
			}
		}
	}
	if r.members > 8 {
		for _, i := range list(r, r.int) {
			if i < 0 || i >= int64(len(v.Events)) {
				r.fail(errRefused)
				break
			}
			v.Events[i].Unread = true
		}
	}
	return v, r.err
}

var errRefused = errors.New("its tables do not fit each other")

// list reads an array of any length.
func list[T any](r *reader, f func() T) (all []T) {
	for range read(r, r.dec.DecodeArrayLen) {
		v := f()
		if r.err != nil {
			break
		}
		all = append(all, v)
	}
	return all
}

package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"spool/internal/mapped"
	"spool/pkg/events"
)

// sequence hands out the sequences of a producer, so that none ever names two events (SPEC P3). It is the one place of the SDK
// that does. After an error nobody knows which of the events are stored: the same events again get the same sequences, and
// anything else one above all that were handed out. The zero value begins at 1. Not safe for concurrent use.
type sequence struct {
	last uint64 // the greatest that was handed out
	// unknown are the events whose outcome nobody knows and which no later event has passed, in order.
	unknown []handedOut
}

// handedOut is an event that was published with an error.
type handedOut struct {
	seq uint64
	sum [sha256.Size]byte // see sumOf
}

// next gives events their sequences; those that have one keep it. An error when a sequence would name a second event. Nothing is
// handed out until done or failed is called with the events, which must be before the next call.
func (s *sequence) next(evs []*events.Event) error {
	last, at := s.last, 0 // at: the first of unknown that can come again
	for _, e := range evs {
		if at = s.again(e, at); at < len(s.unknown) {
			e.Seq, at = s.unknown[at].seq, at+1
			continue
		}
		e.Seq = cmp.Or(e.Seq, last+1)
		if e.Seq <= last {
			return fmt.Errorf("seq %d after %d: a producer's sequence must grow, and names one event for ever", e.Seq, last)
		}
		last = e.Seq
	}
	return nil
}

// again finds an event among those that can come again, from a place on; len(s.unknown) if it is none of them. An event without a
// sequence of its own must be the next one: what is left out is given up.
func (s *sequence) again(e *events.Event, at int) int {
	if at >= len(s.unknown) {
		return len(s.unknown)
	}
	if e.Seq != 0 {
		for at < len(s.unknown) && s.unknown[at].seq < e.Seq {
			at++
		}
	}
	if at < len(s.unknown) && (e.Seq == 0 || e.Seq == s.unknown[at].seq) && s.unknown[at].sum == sumOf(e) {
		return at
	}
	return len(s.unknown)
}

// done: events are stored, or are given up for good. What was handed out below them cannot come again: a thread would take it for
// a repeat.
func (s *sequence) done(evs []*events.Event) {
	if len(evs) > 0 {
		last := evs[len(evs)-1].Seq
		s.last = max(s.last, last)
		s.unknown = slices.DeleteFunc(s.unknown, func(h handedOut) bool { return h.seq <= last })
	}
}

// failed: nobody knows which of the events are stored.
func (s *sequence) failed(evs []*events.Event) {
	s.done(evs)
	again := mapped.List(evs, func(e *events.Event) handedOut { return handedOut{e.Seq, sumOf(e)} })
	s.unknown = append(again, s.unknown...)
}

// sumOf is what makes an event the same when it is published again: all that its caller says of it, but for the time of an
// operation, which is that of its publishing. A body that waits in the inbox counts as its bytes.
func sumOf(e *events.Event) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, text := range []string{e.Kind.String(), e.Dialect, e.Thread.Session, e.Thread.Name, e.Trace} {
		writeInt(h, int64(len(text)))
		h.Write([]byte(text))
	}
	if e.Kind == events.KindEntry {
		writeInt(h, e.Time)
	}
	size, body := int64(len(e.Body)), [sha256.Size]byte{}
	if e.Ref != nil {
		size, body = e.Ref.Size, e.Ref.Sum
	} else {
		body = sha256.Sum256(e.Body)
	}
	writeInt(h, size)
	h.Write(body[:])
	h.Sum(sum[:0])
	return sum
}

func writeInt(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

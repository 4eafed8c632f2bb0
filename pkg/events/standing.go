package events

import (
	"bytes"
	"crypto/sha256"
	"sort"
)

// Linked is the place of a stored event in the order of its producer.
type Linked struct {
	Seq, Prev uint64 // of the event
	At        uint64 // its sequence in EVENTS
	Is        Digest // what it means
	In        string // the name of its thread
}

// Digest tells events of one sequence apart: by their kind, dialect and body, wherever the body is. White space at the
// end of an entry tells none apart: a line may be sent again with another end.
type Digest [16]byte

// Digest is that of an event of one entry.
func (e *Event) Digest() (d Digest) {
	body := [sha256.Size]byte{}
	switch {
	case e.Ref != nil:
		body = e.Ref.Sum
	case e.Kind == KindEntry:
		body = sha256.Sum256(bytes.TrimRight(e.Body, " \t\r\n"))
	default:
		body = sha256.Sum256(e.Body)
	}
	h := sha256.New()
	h.Write([]byte{byte(e.Kind)})
	h.Write(body[:])
	h.Write([]byte(e.Dialect))
	copy(d[:], h.Sum(nil))
	return d
}

// Means tells what two events of one sequence do apart: as Digest does; operations by what they say, however it is worded, and those that
// describe their thread as far as their producer knows it (start, tail) by their kind alone: it says more when it says it again; answers
// whatever life they are for; pieces of an output by that: who makes the same output again may cut it otherwise.
func (e *Event) Means() Digest {
	means := Event{Kind: e.Kind}
	switch e.Kind {
	case KindControl:
		op, err := ParseControl(e.Body)
		if err != nil {
			return e.Digest()
		}
		if op.Op == OpAnswer {
			op.Answer.Life = 0
		}
		if means.Body = op.Encode(); op.Op == OpStart || op.Op == OpTail {
			means.Body = []byte(op.Op)
		}
	case KindChunk:
		c, err := ParseChunk(e.Body)
		if err != nil {
			return e.Digest()
		}
		means.Body = []byte(c.Output)
	default:
		return e.Digest()
	}
	return means.Digest()
}

// Past is what EVENTS holds of one producer's events in a thread, in one epoch, in a stretch of its sequences.
type Past struct {
	Links  []Linked // in the order in which they are stored
	From   uint64   // where the stretch begins: all of it that was ever stored from there on is here
	Before uint64   // where it ends: what was stored there, or behind it, is not here
	Bytes  int      // that were read
	Opaque bool     // there are messages that cannot be decoded: nobody knows whose they are
}

// Add takes a stored message in, if it is of that producer and epoch.
func (p *Past) Add(subject string, data []byte, at uint64, producer string, epoch uint64) {
	defer func() {
		if recover() != nil {
			p.Opaque = true
		}
	}()
	e, err := Open(subject, data)
	if err != nil {
		p.Opaque = true
		return
	}
	if e.Producer != producer || e.Epoch != epoch {
		return
	}
	for _, one := range e.Each() {
		p.Links = append(p.Links, Linked{Seq: one.Seq, Prev: one.Prev, At: at, Is: one.Means(), In: one.Thread.Name})
	}
}

// Standing is how a thread takes an event (SPEC P2).
type Standing uint8

// The standings.
const (
	// Stands: on its own merits. It is linked to nothing, to an event that the thread's head knows, or to one that was stored and
	// has its own verdict, although that noted nothing in the head: it is a dead letter, for instance.
	Stands Standing = iota
	// Superseded: the event that it is linked to, or one before that, was never stored. Its producer has no ack for that one,
	// and publishes all of them again, with the same sequences: to apply this one would make those before it repetitions.
	Superseded
	// Unlinked: nobody can tell any more whether the event that it is linked to was stored.
	Unlinked
)

// Stand judges an event by what it is linked to. known reports whether the thread's head has seen an event of the producer and
// epoch. past is what EVENTS holds before the event; since is the first sequence at which an event that the head does not know can
// have been stored: behind the last one that the head knows of the producer, else 1. What was stored before and is not known had
// come before its time.
func Stand(prev uint64, known func(seq uint64) bool, past Past, since uint64) Standing {
	if prev == 0 || known(prev) {
		return Stands
	}
	past.Links = past.Links[sort.Search(len(past.Links), func(i int) bool { return past.Links[i].At >= since }):]
	wanted := map[uint64]bool{prev: true} // one that is here twice, for it was published again, may stand either time
	for i := len(past.Links) - 1; i >= 0; i-- {
		l := past.Links[i]
		if !wanted[l.Seq] {
			continue
		}
		if l.Prev == 0 || known(l.Prev) {
			return Stands
		}
		wanted[l.Prev] = true
	}
	before := make(map[uint64]uint64, len(past.Links))
	for _, l := range past.Links {
		before[l.Seq] = l.Prev
	}
	missing := prev
	for p, stored := before[missing]; stored; p, stored = before[missing] {
		if p >= missing { // no producer links forward
			return Unlinked
		}
		missing = p
	}
	if past.Opaque {
		return Unlinked
	}
	if past.From <= since {
		return Superseded
	}
	for _, l := range past.Links {
		if l.Seq < missing { // the missing one would have been stored behind it
			return Superseded
		}
	}
	return Unlinked
}

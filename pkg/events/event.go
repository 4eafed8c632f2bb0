package events

import (
	"errors"
	"fmt"

	"spool/internal/family"
)

// Version is the version of the envelope.
const Version = 1

// Kind says what an event carries.
type Kind uint8

// The kinds of event (DESIGN 3).
const (
	KindEntry   Kind = 1 // one raw entry in a dialect
	KindChunk   Kind = 2 // a piece of a tool's streaming output
	KindControl Kind = 3 // an operation on a thread or session: Control
)

var kindNames = map[Kind]string{KindEntry: "entry", KindChunk: "chunk", KindControl: "control"}

// Kinds is every kind.
var Kinds = []Kind{KindEntry, KindChunk, KindControl}

// String is the subject token of the kind.
func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// ErrKind is an event kind that this version does not know.
var ErrKind = family.Invalid.New("unknown event kind")

// parseKind reads the subject token of a kind.
func parseKind(s string) (Kind, error) {
	for k, name := range kindNames {
		if name == s {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%w %q: use entry, chunk or control", ErrKind, s)
}

// Event is one message of an agent: the envelope of an entry, a chunk or a control operation.
//
// (Producer, Epoch, Seq) identifies it for ever: a thread remembers the last of each producer and skips what is not above
// it, so publishing again after a lost ack is safe. Seq grows within (Producer, Epoch), with gaps or without; a greater
// Epoch fences every event of the lower ones. A producer that has more than one publish in flight links them by Prev, or
// publishes them as an atomic batch: otherwise, when one is lost and a later one is not, its retry is taken for a duplicate.
type Event struct {
	Producer string // identity of the writer; "~…" marks one that lives no longer than its process
	Epoch    uint64 // incarnation of the producer
	Seq      uint64 // position in the producer's own order, from 1
	// Prev is the Seq of the event that the producer published to this thread right before, without waiting for its ack; 0
	// when that one was acked, or there is none. When it never arrived, this event is not applied either: the producer,
	// which got no ack for both, publishes both again.
	Prev    uint64
	Kind    Kind
	Dialect string // how to read an entry's body
	Thread  Thread
	Time    int64  // Unix milliseconds, for an entry that does not say itself; where Said is 0, when the server stores it
	User    string // user_id stamped on items (SPEC I6)
	Claimed string // who the publisher says to be, where User is another: who it is (SPEC P4)
	Host    string // machine the agent runs on
	File    string // of an entry of a main thread: where the harness keeps its file, <kind>:<path below its directory>, or acp:
	Trace   string // W3C traceparent, if any
	// Captured, if not nil, is the file that the last of its entries stands in, as it was when an import had read it.
	Captured *Captured
	Scope    Scope // which sessions the publisher may name: of the subject, not of the envelope

	Body []byte   // the raw entry, as the agent wrote it; nil when Ref is set
	Ref  *BodyRef // claim check: the body waits in the inbox bucket
	More []Entry  // entries that follow in the same thread: one message for many small ones; never with Ref
}

// Captured is a file as an import read it. All of it is a claim.
type Captured struct {
	By       string   // the home of who read it: another machine or home has another name; empty: unknown
	Home     string   // where that lies on the event's host
	Size     int64    // bytes, uncompressed; 0: more of it is on its way, and it is not known yet
	Modified int64    // when it was written last, Unix nanoseconds
	Sum      [32]byte // SHA-256 of those bytes
}

// Entry is one of several entries in an event: all but these fields is the event's.
type Entry struct {
	Seq  uint64 // above that of the entry before it
	Time int64
	Body []byte
}

// Identify says who the publisher is, as whoever let it in knows: who it says to be itself is a claim then. "": nobody knows.
func (e *Event) Identify(user string) {
	if user == "" || user == e.User {
		return
	}
	if e.User != "" {
		e.Claimed = e.User
	}
	e.User = user
}

// Each gives the event of every entry in e, in order, each linked to the one before it.
func (e *Event) Each() []Event {
	out := make([]Event, 1+len(e.More))
	out[0] = *e
	out[0].More, out[0].Captured = nil, nil
	for i, m := range e.More {
		out[i+1] = out[0]
		out[i+1].Prev, out[i+1].Seq, out[i+1].Time, out[i+1].Body = out[i].Seq, m.Seq, m.Time, m.Body
	}
	out[len(e.More)].Captured = e.Captured
	return out
}

// BodyRef is the claim check of a body that is too large for one message (DESIGN 3).
type BodyRef struct {
	Object string   // name in InboxBucket
	Size   int64    // bytes
	Sum    [32]byte // SHA-256 of the body
}

// maxUser bounds who somebody is or says to be, in bytes: each item of the event has it.
const maxUser = 1024

// Validate checks what a publisher controls (SPEC B2).
func (e *Event) Validate() error {
	var errs []error
	if err := e.Thread.Validate(); err != nil {
		errs = append(errs, err)
	}
	if _, ok := kindNames[e.Kind]; !ok {
		errs = append(errs, fmt.Errorf("%w %d", ErrKind, e.Kind))
	}
	if e.Producer == "" || len(e.Producer) > 256 {
		errs = append(errs, fmt.Errorf("producer must have 1 to 256 bytes, has %d", len(e.Producer)))
	}
	if n := max(len(e.User), len(e.Claimed)); n > maxUser {
		errs = append(errs, fmt.Errorf("%w: user has %d bytes; use at most %d", ErrToken, n, maxUser))
	}
	if e.Seq == 0 {
		errs = append(errs, errors.New("seq starts at 1"))
	}
	seq := e.Seq
	for _, m := range e.More {
		if m.Seq <= seq || e.Kind != KindEntry || e.Ref != nil {
			errs = append(errs, fmt.Errorf("entry of seq %d after %d: only small entries share an event, and their seq must grow", m.Seq, seq))
			break
		}
		seq = m.Seq
	}
	return errors.Join(errs...)
}

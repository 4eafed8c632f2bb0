package output

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"spool/internal/family"
	"spool/internal/runes"
)

// ErrState is wrapped by everything that is no state of a Sink.
var ErrState = family.Damaged.New("bad state of an output")

const stateVersion = 1

// How a Sink stands to its artifact.
const (
	noArtifact = iota
	hasArtifact
	lostArtifact // it failed
)

// MarshalBinary is all that a Sink of the same Config needs to go on with the next byte, but for the artifact, which knows
// itself what it has. It is as large as what is shown, and what an open escape sequence holds.
func (s *Sink) MarshalBinary() ([]byte, error) {
	tail := runes.Tail(s.tail, s.tailBudget()) // all that view and mirror look at
	b := make([]byte, 0, 64+len(s.head)+len(tail)+len(s.clean[0].held)+len(s.clean[1].held))
	b = append(b, stateVersion)
	for i := range s.clean {
		c := &s.clean[i]
		b = appendBool(appendBool(b, c.DropCR), c.cr)
		b = append(b, byte(c.state))
		b = appendBytes(appendBytes(b, c.part), c.held)
	}
	b = binary.AppendUvarint(b, uint64(s.cap.used))
	b = appendBool(b, s.cap.cutting)
	for _, n := range []int64{s.cap.dropped, s.cap.lines, s.total.bytes, s.total.newlines, int64(s.headLimit), int64(s.tailTotal)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendBool(appendBool(b, s.headDone), s.truncated)
	b = appendBytes(appendBytes(b, s.head), tail)
	b = appendBytes(b, nil) // live text that was held back once
	switch {
	case s.artifact != nil:
		return append(b, hasArtifact), nil
	case s.failure != nil:
		return appendBytes(append(b, lostArtifact), []byte(s.failure.Error())), nil
	}
	return append(b, noArtifact), nil
}

// Resume is the Sink whose state MarshalBinary gave. begun is its artifact, if it had begun one; nil then is a failure, and
// the output goes on without. Errors wrap ErrState.
func Resume(cfg Config, state []byte, begun Artifact) (*Sink, error) {
	s := NewSink(cfg)
	r := stateReader{b: state}
	if v := r.byte(); r.err == nil && v != stateVersion {
		return nil, fmt.Errorf("%w: version %d; this program reads version %d", ErrState, v, stateVersion)
	}
	for i := range s.clean {
		s.clean[i] = r.sanitizer()
	}
	s.cap.used, s.cap.cutting = int(r.int()), r.bool()
	s.cap.dropped, s.cap.lines, s.total.bytes, s.total.newlines = r.int(), r.int(), r.int(), r.int()
	s.headLimit, s.tailTotal = int(r.int()), int(r.int())
	s.headDone, s.truncated = r.bool(), r.bool()
	s.head, s.tail = r.bytes(), r.bytes()
	r.bytes() // see MarshalBinary
	switch r.byte() {
	case hasArtifact:
		if s.artifact = begun; begun == nil {
			s.failure = errors.New("the artifact is not there any more")
		}
	case lostArtifact:
		s.failure = errors.New(string(r.bytes()))
	}
	if r.err == nil && (len(r.b) > 0 || s.headLimit > s.cfg.Threshold/2 || len(s.head) > s.headLimit || len(s.tail) > s.tailBudget()) {
		r.err = errors.New("it is of another configuration, or too long")
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, r.err)
	}
	return s, nil
}

// Total is how many bytes of sanitized text came so far.
func (s *Sink) Total() int64 { return s.total.bytes }

// Whole is all sanitized text that came so far, if nothing of it was cut yet. It is valid until the next call.
func (s *Sink) Whole() (text []byte, ok bool) {
	if s.truncated || s.cap.dropped > 0 || s.tailTotal != len(s.tail) {
		return nil, false
	}
	return append(slices.Clone(s.head), s.tail...), true
}

// Lose gives the artifact up, if there is one, and says why there is none.
func (s *Sink) Lose(cause error) {
	if s.failure == nil {
		s.failure = cause
	}
	s.Abort()
}

// Size is how many bytes of memory the Sink holds, about.
func (s *Sink) Size() int {
	size := 512 + cap(s.head) + cap(s.tail) + cap(s.text) + cap(s.shown)
	for i := range s.clean {
		size += cap(s.clean[i].held)
	}
	return size
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// stateReader reads member after member and keeps the first error.
type stateReader struct {
	b   []byte
	err error
}

var errShort = errors.New("it ends too early, or a number is out of range")

func (r *stateReader) byte() byte {
	if r.err == nil && len(r.b) == 0 {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *stateReader) bool() bool { return r.byte() != 0 }

func (r *stateReader) int() int64 {
	n, size := binary.Uvarint(r.b)
	if r.err == nil && (size <= 0 || n > 1<<62) {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[size:]
	return int64(n)
}

func (r *stateReader) bytes() []byte {
	n := r.int()
	if r.err == nil && n > int64(len(r.b)) {
		r.err = errShort
	}
	if r.err != nil || n == 0 {
		return nil
	}
	v := slices.Clone(r.b[:n])
	r.b = r.b[n:]
	return v
}

func (r *stateReader) sanitizer() Sanitizer {
	s := Sanitizer{DropCR: r.bool(), cr: r.bool(), state: state(r.byte())}
	s.part, s.held = r.bytes(), r.bytes()
	if r.err == nil && (s.state > endOfString || s.state != inText && len(s.held) == 0 || len(s.part) > 5 || len(s.held) > maxHeld) {
		r.err = errors.New("a sanitizer is in a state that there is not")
	}
	return s
}

// Clone is a Sink of the same state that goes on by itself, with an artifact of its own if one was begun.
func (s *Sink) Clone(cfg Config, begun Artifact) *Sink {
	c := *s
	c.cfg.Artifact = cfg.Artifact
	for i := range c.clean {
		c.clean[i].part, c.clean[i].held = slices.Clone(c.clean[i].part), slices.Clone(c.clean[i].held)
	}
	c.head, c.tail, c.text, c.shown = slices.Clone(c.head), slices.Clone(c.tail), nil, nil
	if c.artifact != nil {
		c.artifact = begun
	}
	return &c
}

package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/bounded"
	"spool/internal/family"
)

// ErrEnvelope is wrapped by every envelope that cannot be read (SPEC B1).
var ErrEnvelope = family.Damaged.New("bad envelope")

// fields is how many members version 1 has, the version included. Members behind those that are known are ignored, so that a
// later addition does not stop an older persister.
const fields = 15

// moreFields are those behind them, each only where it, or one behind it, says something: more, claimed, file, captured.
const moreFields = 4

// Encode is the envelope as msgpack: an array that begins with the version (docs/format.md, "Envelope").
func (e *Event) Encode() []byte {
	var buf bytes.Buffer
	size := len(e.Body) + 128 + len(e.Thread.Session) + len(e.Thread.Name) + len(e.Producer)
	for _, m := range e.More {
		size += len(m.Body) + 24
	}
	buf.Grow(size)
	enc := encoders.Get().(*msgpack.Encoder)
	defer encoders.Put(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	// A bytes.Buffer does not fail, so neither do these.
	members := fields
	switch {
	case e.Captured != nil:
		members += moreFields
	case e.File != "":
		members += 3
	case e.Claimed != "":
		members += 2
	case len(e.More) > 0:
		members++
	}
	_ = enc.EncodeArrayLen(members)
	_ = enc.EncodeUint(Version)
	_ = enc.EncodeString(e.Producer)
	_ = enc.EncodeUint(e.Epoch)
	_ = enc.EncodeUint(e.Seq)
	_ = enc.EncodeUint(e.Prev)
	_ = enc.EncodeUint(uint64(e.Kind))
	_ = enc.EncodeString(e.Dialect)
	_ = enc.EncodeString(e.Thread.Session)
	_ = enc.EncodeString(e.Thread.Name)
	_ = enc.EncodeInt(e.Time)
	_ = enc.EncodeString(e.User)
	_ = enc.EncodeString(e.Host)
	_ = enc.EncodeString(e.Trace)
	_ = enc.EncodeBytes(e.Body)
	if e.Ref == nil {
		_ = enc.EncodeNil()
	} else {
		_ = enc.EncodeArrayLen(3)
		_ = enc.EncodeString(e.Ref.Object)
		_ = enc.EncodeInt(e.Ref.Size)
		_ = enc.EncodeBytes(e.Ref.Sum[:])
	}
	if members > fields {
		_ = enc.EncodeArrayLen(len(e.More))
	}
	for _, m := range e.More {
		_ = enc.EncodeArrayLen(3)
		_ = enc.EncodeUint(m.Seq)
		_ = enc.EncodeInt(m.Time)
		_ = enc.EncodeBytes(m.Body)
	}
	if members > fields+1 {
		_ = enc.EncodeString(e.Claimed)
	}
	if members > fields+2 {
		_ = enc.EncodeString(e.File)
	}
	if c := e.Captured; c != nil {
		_ = enc.EncodeArrayLen(5)
		_ = enc.EncodeString(c.By)
		_ = enc.EncodeString(c.Home)
		_ = enc.EncodeInt(c.Size)
		_ = enc.EncodeInt(c.Modified)
		_ = enc.EncodeBytes(c.Sum[:])
	}
	return buf.Bytes()
}

var encoders = sync.Pool{New: func() any { return msgpack.NewEncoder(nil) }}

// Decode reads an envelope, msgpack or JSON. The body may alias b. Hostile bytes cost no more memory than they have: their shape is checked
// before msgpack sees them.
func Decode(b []byte) (Event, error) {
	if isJSON(b) {
		return decodeJSON(b)
	}
	if err := bounded.Exactly(b); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	r := reader{dec: msgpack.GetDecoder()}
	defer msgpack.PutDecoder(r.dec)
	src := bytes.NewReader(b)
	r.dec.Reset(src)
	n := r.arrayLen()
	version := r.uint()
	if r.err == nil && version != Version {
		return Event{}, fmt.Errorf("%w: version %d; this program reads version %d", ErrEnvelope, version, Version)
	}
	if r.err == nil && n < fields {
		return Event{}, fmt.Errorf("%w: %d members, want %d", ErrEnvelope, n, fields)
	}
	e := Event{
		Producer: r.string(), Epoch: r.uint(), Seq: r.uint(), Prev: r.uint(), Kind: Kind(r.uint()), Dialect: r.string(),
		Thread: Thread{Session: r.string(), Name: r.string()},
		Time:   r.int(), User: r.string(), Host: r.string(), Trace: r.string(),
	}
	e.Body = r.alias(b, src)
	e.Ref = r.bodyRef()
	if n > fields {
		e.More = r.more(b, src)
	}
	if n > fields+1 {
		e.Claimed = r.string()
	}
	if n > fields+2 {
		e.File = r.string()
	}
	if n > fields+3 {
		e.Captured = r.captured()
	}
	if r.err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEnvelope, r.err)
	}
	return e, nil
}

// reader decodes member after member and keeps the first error.
type reader struct {
	dec *msgpack.Decoder
	n   int // values that were begun
	err error
}

// read reads the next value. The decoder's own errors speak of its codes; whoever wrote the bytes is told which
// value, in their order and from 1, is to be what.
func read[T any](r *reader, want string, f func() (T, error)) (v T) {
	if r.err != nil {
		return v
	}
	r.n++
	v, err := f()
	if err != nil {
		r.err = fmt.Errorf("value %d: want %s", r.n, want)
	}
	return v
}

func (r *reader) arrayLen() int  { return read(r, "an array", r.dec.DecodeArrayLen) }
func (r *reader) uint() uint64   { return read(r, "a whole number that is not negative", r.whole) }
func (r *reader) int() int64     { return read(r, "a whole number", r.integer) }
func (r *reader) string() string { return read(r, "a string", r.dec.DecodeString) }
func (r *reader) bytes() []byte  { return read(r, "bytes", r.dec.DecodeBytes) }

// First bytes of msgpack numbers.
const (
	codeFloat32 = 0xca
	codeFloat64 = 0xcb
	codeUint64  = 0xcf
)

// whole is DecodeUint64, which would make something of -1, of 1.5 and of NaN.
func (r *reader) whole() (uint64, error) {
	if c, err := r.dec.PeekCode(); err != nil || c == codeUint64 {
		return r.dec.DecodeUint64()
	}
	n, err := r.integer()
	if err == nil && n < 0 {
		err = errWhole
	}
	return uint64(n), err
}

// integer is DecodeInt64 for what is one: a float, which some languages write for large numbers, only when it says exactly one.
func (r *reader) integer() (int64, error) {
	switch c, err := r.dec.PeekCode(); {
	case err != nil:
		return 0, err
	case c == codeUint64:
		n, err := r.dec.DecodeUint64()
		if err == nil && n > math.MaxInt64 {
			err = errInteger
		}
		return int64(n), err
	case c == codeFloat32, c == codeFloat64:
		f, err := r.dec.DecodeFloat64()
		if err == nil && !(math.Trunc(f) == f && math.Abs(f) <= 1<<53) {
			err = errInteger
		}
		if err != nil {
			return 0, err
		}
		return int64(f), nil
	}
	return r.dec.DecodeInt64()
}

var errInteger = errors.New("want a whole number")

// alias reads a byte string as a slice of b, which src reads.
func (r *reader) alias(b []byte, src *bytes.Reader) []byte {
	n := read(r, "bytes", r.dec.DecodeBytesLen)
	if r.err != nil || n < 0 {
		return nil
	}
	at := len(b) - src.Len()
	if n > src.Len() {
		r.err = errors.New("body is longer than the message")
		return nil
	}
	_, r.err = src.Seek(int64(n), io.SeekCurrent)
	return b[at : at+n : at+n]
}

// more reads [[seq, time, body], …]; how many there can be is bounded by the bytes that are there.
func (r *reader) more(b []byte, src *bytes.Reader) (out []Entry) {
	for range r.arrayLen() {
		if r.arrayLen() != 3 && r.err == nil {
			r.err = errors.New("entry: want [seq, time, body]")
		}
		if r.err != nil {
			return nil
		}
		out = append(out, Entry{Seq: r.uint(), Time: r.int(), Body: r.alias(b, src)})
	}
	return out
}

func (r *reader) captured() *Captured {
	n := r.arrayLen()
	if r.err != nil || n < 0 {
		return nil
	}
	c := &Captured{By: r.string(), Home: r.string(), Size: r.int(), Modified: r.int()}
	sum := r.bytes()
	if r.err == nil && (n != 5 || len(sum) != len(c.Sum) || c.Size < 0) {
		r.err = errors.New("captured: want [by, home, size, modified, 32-byte sum]")
	}
	copy(c.Sum[:], sum)
	return c
}

func (r *reader) bodyRef() *BodyRef {
	n := r.arrayLen()
	if r.err != nil || n < 0 {
		return nil
	}
	ref := &BodyRef{Object: r.string(), Size: r.int()}
	sum := r.bytes()
	if r.err == nil && (n != 3 || len(sum) != len(ref.Sum) || ref.Size < 0) {
		r.err = errors.New("body reference: want [object, size, 32-byte sum]")
	}
	copy(ref.Sum[:], sum)
	return ref
}

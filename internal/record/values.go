package record

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/bounded"
	"spool/pkg/casstore"
)

// version is the first member of every value.
const version = 1

// Object says where the bytes of an object are. Names are unique to an upload, so the bytes never change.
type Object struct {
	Bucket string
	Name   string
	NUID   string // token of the chunks' subject
	Size   int64  // bytes
	Chunks int
	First  uint64   // no chunk has a lower stream sequence
	Sum    [32]byte // SHA-256 of all bytes
}

// Usage is what one stream or bucket holds.
type Usage struct {
	Stream   string `json:"stream"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Limit    int64  `json:"limit,omitempty"` // bytes; 0 when there is none
}

// Pack is the value of a pack's record (DESIGN 7).
type Pack struct {
	Gone   bool   // tombstone: the bytes may be reclaimed
	Object Object // header (its first chunk), then body
	Header int64  // length of the header, in bytes
	Nodes  int
	Raw    int64 // bytes of the nodes before compression
	// Order places the pack among the others: a ref points into the same pack or one of a lower order. 0 = the sequence of
	// this very record; a touch and a repack write it out, and so inherit it.
	Order uint64
	// Buried are nodes that are garbage in a pack which has others that are not, by their index: what they refer to may be
	// collected, so nothing may refer to them any more. A touch leaves them as they are.
	Buried casstore.Bits
}

// IsBuried reports whether the node at an index is.
func (p Pack) IsBuried(i int) bool { return i/64 < len(p.Buried) && p.Buried.Has(i) }

// Blob is the value of a blob's record.
type Blob struct {
	Gone   bool
	Object Object
}

// Moved is the value of a moved record: which pack holds the nodes of a repacked one.
type Moved struct{ To [16]byte }

// Encode is the value's bytes: a msgpack array that begins with the version (docs/format.md, "Records").
func (p Pack) Encode() []byte {
	fields := []any{version, p.Gone, p.Object.fields(), p.Header, p.Nodes, p.Raw, p.Order}
	if len(p.Buried) > 0 {
		fields = append(fields, p.Buried.Bytes())
	}
	return encode(fields...)
}

// Encode is the value's bytes.
func (b Blob) Encode() []byte { return encode(version, b.Gone, b.Object.fields()) }

// Encode is the value's bytes.
func (m Moved) Encode() []byte { return encode(version, m.To[:]) }

func (o Object) fields() []any {
	return []any{o.Bucket, o.Name, o.NUID, o.Size, o.Chunks, o.First, o.Sum[:]}
}

func encode(fields ...any) []byte {
	b, err := msgpack.Marshal(fields)
	if err != nil {
		panic(err) // integers, strings, bytes and arrays of them always marshal
	}
	return b
}

// DecodePack reads the value of a pack's record.
func DecodePack(b []byte) (p Pack, err error) {
	r := open("pack", b, 7)
	p.Gone = r.bool()
	p.Object = r.object()
	p.Header, p.Nodes, p.Raw, p.Order = r.int(), int(r.int()), r.int(), uint64(r.int())
	if r.members > 7 {
		p.Buried = casstore.ReadBits(read(r, r.dec.DecodeBytes))
	}
	return p, r.err
}

// DecodeBlob reads the value of a blob's record.
func DecodeBlob(b []byte) (v Blob, err error) {
	r := open("blob", b, 3)
	v.Gone = r.bool()
	v.Object = r.object()
	return v, r.err
}

// DecodeMoved reads the value of a moved record.
func DecodeMoved(b []byte) (m Moved, err error) {
	r := open("moved", b, 2)
	r.fixed(m.To[:])
	return m, r.err
}

// reader decodes member after member and keeps the first error.
type reader struct {
	what    string
	members int
	at      int // values that were begun
	dec     *msgpack.Decoder
	err     error
}

// open checks the shape of a value, its version and that it has the members of version 1; later ones are ignored.
func open(what string, b []byte, members int) *reader {
	r := bare(what, b)
	r.members = read(r, r.dec.DecodeArrayLen)
	if v := r.int(); r.err == nil && v != version {
		r.fail(fmt.Errorf("%w: version %d; this program reads version %d", ErrLater, v, version))
	}
	if r.err == nil && r.members < members {
		r.fail(fmt.Errorf("%d members, want %d", r.members, members))
	}
	return r
}

// bare checks that b is one value.
func bare(what string, b []byte) *reader {
	r := &reader{what: what, dec: msgpack.NewDecoder(bytes.NewReader(b))}
	r.fail(bounded.Exactly(b))
	return r
}

func (r *reader) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %s: %w", ErrValue, r.what, err)
	}
}

func read[T any](r *reader, f func() (T, error)) (v T) {
	if r.err != nil {
		return v
	}
	r.at++
	v, err := f()
	if err != nil { // the decoder's own errors speak of its codes
		r.fail(fmt.Errorf("value %d is of another kind than it must be", r.at))
	}
	return v
}

func (r *reader) bool() bool     { return read(r, r.dec.DecodeBool) }
func (r *reader) int() int64     { return read(r, r.dec.DecodeInt64) }
func (r *reader) string() string { return read(r, r.dec.DecodeString) }

func (r *reader) fixed(dst []byte) {
	b := read(r, r.dec.DecodeBytes)
	if r.err == nil && len(b) != len(dst) {
		r.fail(fmt.Errorf("%d bytes, want %d", len(b), len(dst)))
	}
	copy(dst, b)
}

func (r *reader) object() (o Object) {
	if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 7 {
		r.fail(fmt.Errorf("an object of %d members, want 7", n))
	}
	o = Object{Bucket: r.string(), Name: r.string(), NUID: r.string(), Size: r.int(), Chunks: int(r.int()), First: uint64(r.int())}
	r.fixed(o.Sum[:])
	return o
}

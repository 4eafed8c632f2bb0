package record

import (
	"fmt"
	"time"

	"spool/internal/mapped"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// PartSize is the length of every part but the last of an artifact that is written while its output streams, in bytes; each
// is a chunk of the object. It does not depend on how chunk events were batched, and it is a multiple of SHA-256's block, so
// that part k is the same bytes whoever makes it.
const PartSize = 128 << 10

// Output is the value of an open output's record. With its base it is all that a persister needs to go on with the next byte
// (SPEC O7): the pieces are applied to the base again. So a commit writes what is new, and not again and again what is shown.
type Output struct {
	ID      string
	Thread  string
	User    string
	Claimed string // as events.Event has it
	Start   events.OutputStart
	Begun   int64  // Unix milliseconds, of its first event
	Touched int64  // of its newest
	Seq     uint64 // number of the last piece
	Total   int64  // bytes of sanitized text so far

	// The artifact. Its name is known before its first byte, so that bytes without a record are never part of one.
	Artifact artifacts.ID
	NUID     string // token of the chunks' subject
	Parts    Parts

	Base   uint64  // number of the last piece that is in the base; 0: there is no base
	Pieces []Piece // those after it

	Held []Held // what of them waits for the next one, while secrets are masked
}

// Held is the end of what a stream brought, which the next piece may go on with: it is no part of the text yet.
type Held struct {
	Stream  events.Stream
	Context []byte // the end of the text before it
	Bytes   []byte // as they came
}

// Piece is what an event brought, as it came but for masked secrets.
type Piece struct {
	Stream events.Stream
	Bytes  []byte
}

// OutputBase is the value of the record beside an output's: how it stood after one of its pieces.
type OutputBase struct {
	Seq  uint64 // number of that piece
	Part []byte // what follows the parts, less than PartSize
	Sum  []byte // state of the SHA-256 of the parts; empty: no artifact has begun
	Sink []byte // output.Sink, without the artifact
}

// Parts are the chunks of an unfinished object.
type Parts struct {
	Count       int
	First, Last uint64 // stream sequences of the first and the last; 0 when there is none
}

// Lease is how long the output may be silent.
func (o Output) Lease(lease time.Duration) time.Duration {
	if o.Start.Lease > 0 {
		return events.Millis(o.Start.Lease)
	}
	return lease
}

// Encode is the value's bytes.
func (o Output) Encode() []byte {
	start := events.Chunk{Op: events.ChunkStart, Output: o.ID, Start: o.Start}.Encode()
	pieces := mapped.List(o.Pieces, func(p Piece) any { return []any{byte(p.Stream), p.Bytes} })
	fields := []any{version, o.Thread, o.User, start, o.Begun, o.Touched, o.Seq, o.Total, string(o.Artifact), o.NUID,
		o.Parts.Count, o.Parts.First, o.Parts.Last, o.Base, pieces}
	if len(o.Held) > 0 || o.Claimed != "" {
		held := mapped.List(o.Held, func(h Held) any { return []any{byte(h.Stream), h.Context, h.Bytes} })
		fields = append(fields, held)
	}
	if o.Claimed != "" {
		fields = append(fields, o.Claimed)
	}
	return encode(fields...)
}

// Encode is the value's bytes.
func (b OutputBase) Encode() []byte { return encode(version, b.Seq, b.Part, b.Sum, b.Sink) }

// DecodeOutput reads the value of an open output's record.
func DecodeOutput(b []byte) (o Output, err error) {
	r := open("output", b, 15)
	o.Thread, o.User = r.string(), r.string()
	start := read(r, r.dec.DecodeBytes)
	o.Begun, o.Touched, o.Seq, o.Total = r.int(), r.int(), uint64(r.int()), r.int()
	o.Artifact, o.NUID = artifacts.ID(r.string()), r.string()
	o.Parts = Parts{Count: int(r.int()), First: uint64(r.int()), Last: uint64(r.int())}
	o.Base = uint64(r.int())
	for range read(r, r.dec.DecodeArrayLen) {
		if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 2 {
			r.fail(fmt.Errorf("a piece of %d members, want 2", n))
		}
		o.Pieces = append(o.Pieces, Piece{events.Stream(r.int()), read(r, r.dec.DecodeBytes)})
		if r.err != nil {
			break
		}
	}
	if r.err == nil && r.members > 15 {
		o.Held = r.held()
	}
	if r.err == nil && r.members > 16 {
		o.Claimed = r.string()
	}
	if r.err != nil {
		return o, r.err
	}
	c, err := events.ParseChunk(start)
	if err != nil {
		return o, fmt.Errorf("%w: output: %w", ErrValue, err)
	}
	o.ID, o.Start = c.Output, c.Start
	return o, nil
}

func (r *reader) held() (out []Held) {
	for range read(r, r.dec.DecodeArrayLen) {
		if n := read(r, r.dec.DecodeArrayLen); r.err == nil && n != 3 {
			r.fail(fmt.Errorf("a held end of %d members, want 3", n))
		}
		out = append(out, Held{events.Stream(r.int()), read(r, r.dec.DecodeBytes), read(r, r.dec.DecodeBytes)})
		if r.err != nil {
			break
		}
	}
	return out
}

// DecodeOutputBase reads the value of an output's base.
func DecodeOutputBase(v []byte) (b OutputBase, err error) {
	r := open("output base", v, 5)
	b.Seq = uint64(r.int())
	b.Part, b.Sum, b.Sink = read(r, r.dec.DecodeBytes), read(r, r.dec.DecodeBytes), read(r, r.dec.DecodeBytes)
	return b, r.err
}

// object is what of the artifact is stored as chunks.
func (o Output) object() Object {
	return Object{
		Bucket: events.ArtifactsBucket, NUID: o.NUID, Size: int64(o.Parts.Count) * PartSize, Chunks: o.Parts.Count, First: o.Parts.First,
	}
}

// Silent is an open output that nobody wrote to for a while.
type Silent struct {
	Session string
	Output
	Rev uint64        // sequence of the record
	For time.Duration // how long, by the server's clock
}

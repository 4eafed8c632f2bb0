package record

import (
	"fmt"
	"time"

	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// PartSize is the length of every part but the last of an artifact that is written while its output streams, in bytes; each
// is a chunk of the object. It does not depend on how chunk events were batched, and it is a multiple of SHA-256's block, so
// that part k is the same bytes whoever makes it.
const PartSize = 128 << 10

// Output is the value of an open output's record: all that a persister needs to go on with the next byte (SPEC O7).
type Output struct {
	ID      string
	Thread  string
	User    string
	Start   events.OutputStart
	Begun   int64  // Unix milliseconds, of its first event
	Touched int64  // of its newest
	Seq     uint64 // number of the last piece
	Total   int64  // bytes of sanitized text so far

	// The artifact. Its name is known before its first byte, so that bytes without a record are never part of one.
	Artifact artifacts.ID
	NUID     string // token of the chunks' subject
	Parts    Parts
	Part     []byte // what follows the parts, less than PartSize
	Sum      []byte // state of the SHA-256 of the parts

	Sink []byte // output.Sink, without the artifact
}

// Parts are the chunks of an unfinished object.
type Parts struct {
	Count       int
	First, Last uint64 // stream sequences of the first and the last; 0 when there is none
}

// Deadline is when the output counts as aborted, unless a chunk comes; lease is for outputs that do not say their own.
func (o Output) Deadline(lease time.Duration) time.Time {
	return time.UnixMilli(o.Touched).Add(o.Lease(lease))
}

// Lease is how long the output may be silent.
func (o Output) Lease(lease time.Duration) time.Duration {
	if o.Start.Lease > 0 {
		return time.Duration(o.Start.Lease) * time.Millisecond
	}
	return lease
}

// Encode is the value's bytes.
func (o Output) Encode() []byte {
	start := events.Chunk{Op: events.ChunkStart, Output: o.ID, Start: o.Start}.Encode()
	return encode(version, o.Thread, o.User, start, o.Begun, o.Touched, o.Seq, o.Total, string(o.Artifact), o.NUID,
		o.Parts.Count, o.Parts.First, o.Parts.Last, o.Part, o.Sum, o.Sink)
}

// DecodeOutput reads the value of an open output's record.
func DecodeOutput(b []byte) (o Output, err error) {
	r := open("output", b, 16)
	o.Thread, o.User = r.string(), r.string()
	start := read(r, r.dec.DecodeBytes)
	o.Begun, o.Touched, o.Seq, o.Total = r.int(), r.int(), uint64(r.int()), r.int()
	o.Artifact, o.NUID = artifacts.ID(r.string()), r.string()
	o.Parts = Parts{Count: int(r.int()), First: uint64(r.int()), Last: uint64(r.int())}
	o.Part, o.Sum, o.Sink = read(r, r.dec.DecodeBytes), read(r, r.dec.DecodeBytes), read(r, r.dec.DecodeBytes)
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

// Size is the length of the artifact so far.
func (o Output) Size() int64 { return int64(o.Parts.Count)*PartSize + int64(len(o.Part)) }

// Object is what of the artifact is stored as chunks.
func (o Output) Object() Object {
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

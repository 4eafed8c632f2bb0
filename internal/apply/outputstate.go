package apply

import (
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"slices"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/truncate/output"
)

// Output is a streaming output as all its pieces so far leave it. One that was never begun, or is no longer open, is
// one too: what comes for it is refused with the right reason. Event reads it; Take changes it.
type Output struct {
	Open, Removed bool
	Bad           error         // why its record can not be read
	Rec           record.Output // but for Parts and Total, which follow from sink and body

	since int // bytes of Rec.Pieces; above maxPieces they are not kept
	sink  *output.Sink
	body  *parts
	based int  // parts of its artifact that are in the base
	taken int  // bytes since it was begun or finished last
	keeps bool // there is somewhere to store its artifact
	large artifacts.Thresholds
}

// Take makes a change of an output so, and gives what live subscribers get.
func (o *Output) Take(c *OutputChange, rules *Rules) (live []byte) {
	switch {
	case c.Begins != nil:
		*o = Output{Open: true, Rec: *c.Begins, keeps: rules.Outputs, large: rules.Artifacts}
		o.body = newParts(o.Rec, nil)
		o.sink = output.NewSink(o.config())
	case c.Piece != nil:
		live = o.write(c.Piece.Piece)
		o.note(c.Piece.Piece)
		o.Rec.Seq, o.Rec.Touched, o.Rec.Held = c.Piece.Seq, c.Piece.Touched, c.Piece.Held
		o.taken += c.Piece.came
	case c.Ends != nil:
		*o, live = *c.Ends.After, c.Ends.Live
	}
	return live
}

// closed is the output after its end, what is shown of it, and what live subscribers have not got yet. The output
// itself stays as it is.
func (o *Output) closed(secrets Secrets) (after *Output, sum output.Summary, live []byte, found int) {
	c := *o
	c.body = o.body.clone()
	c.sink = o.sink.Clone(c.config(), c.body)
	for _, h := range o.Rec.Held {
		rest, _, n := mask(secrets, o.Rec.Held, record.Piece{Stream: h.Stream}, true)
		live, found = append(live, c.write(rest)...), found+n
	}
	sum, end := c.sink.Close()
	c.Open, c.Removed = false, true
	return &c, sum, append(live, end...), found
}

// Total is how many bytes of text came so far.
func (o *Output) Total() int64 { return o.sink.Total() }

// Memory is about how many bytes an output takes.
func (o *Output) Memory() int {
	if !o.Open {
		return 256
	}
	return 2048 + o.since + o.sink.Size() + cap(o.body.part)
}

// Ready gives the parts of its artifact that no commit has taken yet.
func (o *Output) Ready() (parts [][]byte) {
	o.taken = 0
	parts, o.body.ready = o.body.ready, nil
	return parts
}

// Whole is the object of an artifact of which all parts are there, but for its first sequence.
func (o *Output) Whole(name string) record.Object {
	return record.Object{
		Bucket: events.ArtifactsBucket, Name: name, NUID: o.Rec.NUID, Size: o.body.bytes,
		Chunks: o.body.count, Sum: [sha256.Size]byte(o.body.sum.Sum(nil)),
	}
}

// Forget drops what an output that has ended takes in memory.
func (o *Output) Forget() { *o = Output{Removed: true} }

// parts is the artifact of an output: it cuts the text into parts of one length, which the commit uploads (SPEC O2).
type parts struct {
	id    artifacts.ID
	begun bool
	sum   hash.Hash // of the whole parts
	part  []byte
	count int
	bytes int64
	ready [][]byte // whole parts that no commit has taken yet
}

func newParts(rec record.Output, part []byte) *parts {
	size := int64(rec.Parts.Count)*record.PartSize + int64(len(part))
	return &parts{id: rec.Artifact, sum: sha256.New(), count: rec.Parts.Count, part: part, bytes: size}
}

// clone goes on by itself; what is there already is shared, and not written to.
func (w *parts) clone() *parts {
	c := *w
	c.sum = sha256.New()
	copyState(c.sum, w.sum)
	c.part, c.ready = slices.Clip(w.part), slices.Clip(w.ready)
	return &c
}

// copyState makes a SHA-256 stand where another one stands.
func copyState(to, from hash.Hash) {
	state, err := from.(encoding.BinaryMarshaler).MarshalBinary()
	if err == nil {
		err = to.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	}
	if err != nil {
		panic(err) // a SHA-256 always marshals
	}
}

// Write implements output.Artifact.
func (w *parts) Write(b []byte) (int, error) {
	n := len(b)
	w.bytes += int64(n)
	for len(b) > 0 {
		k := min(len(b), record.PartSize-len(w.part))
		w.part, b = append(w.part, b[:k]...), b[k:]
		if len(w.part) == record.PartSize {
			w.cut()
		}
	}
	return n, nil
}

func (w *parts) cut() {
	if len(w.part) == 0 {
		return
	}
	w.sum.Write(w.part)
	w.ready = append(w.ready, w.part)
	w.part, w.count = nil, w.count+1
}

// Commit cuts the last part. Its bytes are durable when the commit that ends the output is.
func (w *parts) Commit() (string, error) {
	w.cut()
	return string(w.id), nil
}

// Abort drops what no commit has taken yet; the rest are bytes that no record will name.
func (w *parts) Abort() { w.part, w.ready, w.begun = nil, nil, false }

const (
	// maxPieces is how many bytes of pieces follow the base in an output's record, before there is a new base (ADR 8).
	maxPieces = 8 << 10
	pieceHead = 8 // bytes of a piece beside its own
)

// write takes a piece in, and gives what live subscribers get.
func (o *Output) write(p record.Piece) []byte {
	if p.Stream == events.Stderr {
		return o.sink.WriteErr(p.Bytes)
	}
	return o.sink.Write(p.Bytes)
}

// note keeps a piece for the record.
func (o *Output) note(p record.Piece) {
	if len(p.Bytes) == 0 {
		return // a sign of life
	}
	if o.since += len(p.Bytes) + pieceHead; o.since <= maxPieces {
		o.Rec.Pieces = append(o.Rec.Pieces, record.Piece{Stream: p.Stream, Bytes: slices.Clone(p.Bytes)})
	}
}

// ErrTorn: the records of an output were read while somebody wrote them. They must be read again.
var ErrTorn = errors.New("its base is of another piece than its record says")

// LoadOutput makes an output of its record and its base. lost is why it has no artifact any more, if that was found out
// since.
func LoadOutput(rules *Rules, r, base record.Record, lost error) (*Output, error) {
	o := &Output{Removed: r.Removed(), keeps: rules.Outputs, large: rules.Artifacts}
	if !r.Exists() {
		return o, nil
	}
	if err := o.read(r, base); errors.Is(err, ErrTorn) {
		return nil, err
	} else if err != nil {
		o.Bad = fmt.Errorf("%w: its record: %w", ErrOutput, err)
		return o, nil
	}
	if lost != nil {
		o.sink.Lose(lost)
		o.since = maxPieces + 1 // the pieces alone do not tell
	}
	return o, nil
}

// read makes the output that the pieces have made of its base: what applied them when they came does so again.
func (o *Output) read(r, stored record.Record) (err error) {
	if o.Rec, err = record.DecodeOutput(r.Value); err != nil {
		return err
	}
	var base record.OutputBase
	if o.Rec.Base > 0 && stored.Exists() {
		if base, err = record.DecodeOutputBase(stored.Value); err != nil {
			return err
		}
	}
	if base.Seq != o.Rec.Base {
		return ErrTorn
	}
	o.body = newParts(o.Rec, base.Part)
	o.based = o.body.count
	o.sink = output.NewSink(o.config())
	if base.Seq > 0 {
		if o.sink, err = o.resume(base); err != nil {
			return err
		}
	}
	for _, piece := range o.Rec.Pieces {
		o.since += len(piece.Bytes) + pieceHead
		o.write(piece)
	}
	if len(o.body.ready) > 0 {
		return fmt.Errorf("%w: its pieces make a part of its artifact", record.ErrValue)
	}
	o.Open = true
	return nil
}

func (o *Output) resume(base record.OutputBase) (*output.Sink, error) {
	if len(base.Sum) == 0 {
		return output.Resume(o.config(), base.Sink, nil)
	}
	if err := o.body.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(base.Sum); err != nil {
		return nil, err
	}
	o.body.begun = true
	return output.Resume(o.config(), base.Sink, o.body)
}

// config is how an output is shown.
func (o *Output) config() output.Config {
	body, keeps := o.body, o.keeps
	begin := func() (output.Artifact, error) {
		if !keeps {
			return nil, errors.New("this persister stores no artifacts")
		}
		body.begun = true
		return body, nil
	}
	return output.Config{
		Threshold: o.Rec.Start.Show, Head: o.Rec.Start.Head, Columns: o.Rec.Start.Columns, Keep: o.Rec.Start.Keep,
		Large: o.large, Artifact: begin,
	}
}

// Value is what the record of an open output will hold, but for the sequences of its parts, and its base when there is
// a new one.
func (o *Output) Value() (rec record.Output, base []byte) {
	if o.since > maxPieces || o.body.count > o.based {
		base = o.base().Encode()
		o.Rec.Base, o.Rec.Pieces, o.since, o.based = o.Rec.Seq, nil, 0, o.body.count
	}
	rec = o.Rec
	rec.Pieces = slices.Clip(rec.Pieces)
	rec.Total = o.sink.Total()
	rec.Parts.Count = o.body.count
	return rec, base
}

// base is how an open output stands.
func (o *Output) base() record.OutputBase {
	base := record.OutputBase{Seq: o.Rec.Seq}
	var err error
	base.Sink, err = o.sink.MarshalBinary()
	if err == nil && o.body.begun {
		base.Part = o.body.part
		base.Sum, err = o.body.sum.(encoding.BinaryMarshaler).MarshalBinary()
	}
	if err != nil {
		panic(err) // a Sink and a SHA-256 always marshal
	}
	return base
}

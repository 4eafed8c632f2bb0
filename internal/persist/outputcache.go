package persist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/truncate/output"
)

// openOutput is an output as the lane knows it. One that was never begun, or is no longer open, is kept too: what comes for
// it is refused with the right reason.
type openOutput struct {
	key, baseKey, session string
	term                  uint64 // of the partition, in which its record was read

	bad error // why its record can not be read

	// Stage 1: what the last prepared commit will leave.
	open, removed bool
	rec           record.Output // but for Parts and Total, which follow from sink and body
	since         int           // bytes of rec.Pieces; above maxPieces they are not kept
	sink          *output.Sink
	body          *parts
	fresh         *commit // the commit that opens it, and how many bytes it has taken in since
	raw           int
	parts         int    // parts of its artifact that are in the base
	used          uint64 // turn of the cache in which it was last wanted

	pending atomic.Int64 // prepared commits that touch it and are not through stage 2

	// Stage 2, once loaded.
	rev         uint64
	first, last uint64 // sequences of the artifact's parts
}

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

func (w *parts) size() int64 { return w.bytes }

// memory is about how many bytes an output takes.
func (o *openOutput) memory() int {
	if !o.open {
		return 256
	}
	return 2048 + o.since + o.sink.Size() + cap(o.body.part)
}

const (
	// maxPieces is how many bytes of pieces follow the base in an output's record, before there is a new base (ADR 8).
	maxPieces = 8 << 10
	pieceHead = 8 // bytes of a piece beside its own
)

// write takes a piece in, and gives what live subscribers get.
func (o *openOutput) write(p record.Piece) []byte {
	write := o.sink.Write
	if p.Stream == events.Stderr {
		write = o.sink.WriteErr
	}
	live, _ := write(time.Time{}, p.Bytes)
	return live
}

// note keeps a piece for the record.
func (o *openOutput) note(p record.Piece) {
	if len(p.Bytes) == 0 {
		return // a sign of life
	}
	if o.since += len(p.Bytes) + pieceHead; o.since <= maxPieces {
		o.rec.Pieces = append(o.rec.Pieces, record.Piece{Stream: p.Stream, Bytes: slices.Clone(p.Bytes)})
	}
}

// errTorn: the records of an output were read while somebody wrote them.
var errTorn = errors.New("its base is of another piece than its record says")

// load takes an output from its record and its base. errTorn: they must be read again.
func (o *openOutput) load(p *Persister, r, base record.Record, lost error) error {
	o.rev, o.removed = r.Seq, r.Removed()
	if !r.Exists() {
		return nil
	}
	if err := o.read(p, r, base); errors.Is(err, errTorn) {
		return err
	} else if err != nil {
		o.bad = fmt.Errorf("%w: its record: %w", ErrOutput, err)
		return nil
	}
	if lost != nil {
		o.sink.Lose(lost)
		o.since = maxPieces + 1 // the pieces alone do not tell
	}
	return nil
}

// read makes the output that the pieces have made of its base: what applied them when they came does so again.
func (o *openOutput) read(p *Persister, r, stored record.Record) (err error) {
	if o.rec, err = record.DecodeOutput(r.Value); err != nil {
		return err
	}
	var base record.OutputBase
	if o.rec.Base > 0 && stored.Exists() {
		if base, err = record.DecodeOutputBase(stored.Value); err != nil {
			return err
		}
	}
	if base.Seq != o.rec.Base {
		return errTorn
	}
	o.session, _, _ = events.ParseOutputKey(r.Key)
	o.first, o.last = o.rec.Parts.First, o.rec.Parts.Last
	o.body = newParts(o.rec, base.Part)
	o.parts = o.body.count
	o.sink = output.NewSink(o.config(p))
	if base.Seq > 0 {
		if o.sink, err = o.resume(p, base); err != nil {
			return err
		}
	}
	for _, piece := range o.rec.Pieces {
		o.since += len(piece.Bytes) + pieceHead
		o.write(piece)
	}
	if len(o.body.ready) > 0 {
		return fmt.Errorf("%w: its pieces make a part of its artifact", record.ErrValue)
	}
	o.open = true
	return nil
}

func (o *openOutput) resume(p *Persister, base record.OutputBase) (*output.Sink, error) {
	if len(base.Sum) == 0 {
		return output.Resume(o.config(p), base.Sink, nil)
	}
	if err := o.body.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(base.Sum); err != nil {
		return nil, err
	}
	o.body.begun = true
	return output.Resume(o.config(p), base.Sink, o.body)
}

// value is what the record of an open output will hold, but for the sequences of its parts, and its base when there is a
// new one.
func (o *openOutput) value() (rec record.Output, base []byte) {
	if o.since > maxPieces || o.body.count > o.parts {
		base = o.base().Encode()
		o.rec.Base, o.rec.Pieces, o.since, o.parts = o.rec.Seq, nil, 0, o.body.count
	}
	rec = o.rec
	rec.Pieces = slices.Clip(rec.Pieces)
	rec.Total = o.sink.Total()
	rec.Parts.Count = o.body.count
	return rec, base
}

// base is how an open output stands.
func (o *openOutput) base() record.OutputBase {
	base := record.OutputBase{Seq: o.rec.Seq}
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

// outputCache holds outputs and the counters of their sessions, for stage 1.
type outputCache struct {
	limit    int // bytes
	turn     uint64
	outputs  map[string]*openOutput
	counters map[string]*counter
}

// counter gives out the numbers of a session's artifacts (SPEC A1). Others write the record too: whoever loses prepares
// its commit again.
type counter struct {
	key     string
	rec     record.Counter // stage 1: as the last prepared commit will leave it
	bad     error
	pending atomic.Int64
	rev     uint64 // stage 2, once loaded
}

func (h *outputCache) clear() {
	h.outputs, h.counters = map[string]*openOutput{}, map[string]*counter{}
}

// ofTerm reports whether the output that an event has a piece of, if it is in memory, was read in the event's term.
func (h *outputCache) ofTerm(s *staged) bool {
	if s.event.Kind != events.KindChunk {
		return true
	}
	o := h.outputs[events.OutputKey(s.event.Thread.Session, s.chunk.Output)]
	return o == nil || o.term == s.msg.Term
}

// forget drops what is in memory of sessions. No prepared commit may be on its way that touches one.
func (h *outputCache) forget(gone map[string]bool) {
	maps.DeleteFunc(h.outputs, func(key string, _ *openOutput) bool { return gone[events.SessionOf(key)] })
	maps.DeleteFunc(h.counters, func(session string, _ *counter) bool { return gone[session] })
}

// get gives an output that the batch has a piece of, which loadOutputs has read.
func (h *outputCache) get(key string) *openOutput { return h.outputs[key] }

// close notes that an output's record is removed: what comes for it in the same batch is refused.
func (h *outputCache) close(key string) {
	if o := h.outputs[key]; o != nil {
		h.outputs[key] = &openOutput{key: o.key, baseKey: o.baseKey, session: o.session, term: o.term, removed: true, used: o.used}
	}
}

// number is the counter of an output's session, as a record that the commit changes.
func (h *outputCache) number(c *commit, o *openOutput) *counter {
	n := h.counters[o.session]
	c.numbers[n] = nil
	return n
}

// trim forgets the outputs that were not wanted for longest, and that no commit in flight touches, when they take too much
// memory: all that is known of them is in their records.
func (h *outputCache) trim() {
	h.turn++
	total := 0
	for _, o := range h.outputs {
		total += o.memory()
	}
	if total <= h.limit {
		return
	}
	oldest := slices.SortedFunc(maps.Values(h.outputs), func(a, b *openOutput) int { return cmp.Compare(a.used, b.used) })
	for _, o := range oldest {
		if total <= h.limit/2 {
			break
		}
		if o.pending.Load() == 0 {
			total -= o.memory()
			delete(h.outputs, o.key)
		}
	}
	maps.DeleteFunc(h.counters, func(_ string, n *counter) bool { return n.pending.Load() == 0 })
}

// loadOutputs reads the outputs that a batch has pieces of and that are not in memory, and the counters of the sessions in
// which one ends or an entry may have a large result, in one go.
func (l *lane) loadOutputs(ctx context.Context, batch []*staged) error {
	h := &l.outputs
	h.trim()
	outputs, counters := map[string]*openOutput{}, map[string]*counter{}
	var keys []string
	var take []func([]record.Record) (read int, err error) // each is given the records from its own on
	for _, s := range batch {
		chunk := s.event.Kind == events.KindChunk
		if !chunk && !l.p.mayAttach(s) || !s.known || s.bad != nil {
			continue
		}
		session := s.event.Thread.Session
		if key := events.OutputKey(session, s.chunk.Output); chunk && h.outputs[key] != nil {
			h.outputs[key].used = h.turn
		} else if chunk && outputs[key] == nil {
			o := &openOutput{key: key, baseKey: events.OutputBaseKey(session, s.chunk.Output), term: s.msg.Term, used: h.turn}
			outputs[key], keys = o, append(keys, o.key, o.baseKey)
			lost := l.lostArtifact(key)
			take = append(take, func(rs []record.Record) (int, error) { return l.takeOutput(ctx, o, rs, lost) })
		}
		if chunk && (s.chunk.Op == events.ChunkData || s.chunk.Op == events.ChunkStart) || counters[session] != nil {
			continue
		}
		if n := h.counters[session]; n == nil || n.pending.Load() == 0 { // others may have taken numbers since
			n := &counter{key: events.CounterKey(session)}
			counters[session], keys = n, append(keys, n.key)
			take = append(take, n.load)
		}
	}
	rs, err := l.p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for _, f := range take {
		n, err := f(rs)
		if err != nil {
			return err
		}
		rs = rs[n:]
	}
	maps.Copy(h.outputs, outputs)
	maps.Copy(h.counters, counters)
	return nil
}

// takeOutput loads an output from its two records, the first of some, and reads them again while somebody who thinks that
// the output is his writes them.
func (l *lane) takeOutput(ctx context.Context, o *openOutput, rs []record.Record, lost error) (read int, err error) {
	for {
		before := o.rev
		err := o.load(l.p, rs[0], rs[1], lost)
		if err == nil {
			return 2, nil
		}
		if o.rev == before { // nobody does
			o.bad = fmt.Errorf("%w: %w", ErrOutput, err)
			return 2, nil
		}
		if rs, err = l.p.Records.Records(ctx, o.key, o.baseKey); err != nil {
			return 0, err
		}
	}
}

func (n *counter) load(rs []record.Record) (read int, err error) {
	n.rev = rs[0].Seq
	n.rec, n.bad = record.DecodeCounter(rs[0].Value)
	return 1, nil
}

package persist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sync/atomic"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/truncate/output"
)

// openOutput is an output as the lane knows it. One that was never begun, or is no longer open, is kept too: what comes for
// it is refused with the right reason.
type openOutput struct {
	key, session string
	bad          error // why its record can not be read

	// Stage 1: what the last prepared commit will leave.
	open, removed bool
	rec           record.Output // but for Parts, Part, Sum and Sink, which are in the following
	sink          *output.Sink
	body          *parts
	fresh         *commit // the commit that opens it, and how many bytes it has taken in since
	raw           int
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

func newParts(rec record.Output) *parts {
	return &parts{id: rec.Artifact, sum: sha256.New(), count: rec.Parts.Count, part: rec.Part, bytes: rec.Size()}
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
	return 2048 + o.sink.Size() + cap(o.body.part)
}

// load takes an output from its record.
func (o *openOutput) load(p *Persister, r record.Record, lost error) {
	o.rev, o.removed = r.Seq, r.Removed()
	if !r.Exists() {
		return
	}
	if o.bad = o.read(p, r); o.bad != nil {
		o.bad = fmt.Errorf("%w: its record: %w", ErrOutput, o.bad)
		return
	}
	if lost != nil {
		o.sink.Lose(lost)
	}
}

func (o *openOutput) read(p *Persister, r record.Record) (err error) {
	if o.rec, err = record.DecodeOutput(r.Value); err != nil {
		return err
	}
	o.session, _, _ = events.ParseOutputKey(r.Key)
	o.first, o.last = o.rec.Parts.First, o.rec.Parts.Last
	o.body = newParts(o.rec)
	var begun output.Artifact
	if len(o.rec.Sum) > 0 {
		if err := o.body.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(o.rec.Sum); err != nil {
			return err
		}
		o.body.begun = true
		begun = o.body
	}
	state := o.rec.Sink
	o.rec.Part, o.rec.Sum, o.rec.Sink = nil, nil, nil
	o.sink, err = output.Resume(o.config(p), state, begun)
	o.open = err == nil
	return err
}

// value is what the record of an open output will hold, but for the sequences of its parts.
func (o *openOutput) value() record.Output {
	rec := o.rec
	rec.Total = o.sink.Total()
	rec.Parts.Count = o.body.count
	state, err := o.sink.MarshalBinary()
	if err == nil && o.body.begun {
		rec.Part = slices.Clone(o.body.part)
		rec.Sum, err = o.body.sum.(encoding.BinaryMarshaler).MarshalBinary()
	}
	if err != nil {
		panic(err) // a Sink and a SHA-256 always marshal
	}
	rec.Sink = state
	return rec
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

func (h *outputCache) get(key string) *openOutput { return h.outputs[key] }

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
	var take []func(record.Record)
	for _, s := range batch {
		chunk := s.event.Kind == events.KindChunk
		if !chunk && !l.p.mayAttach(s) || !s.known || s.dead != nil {
			continue
		}
		session := s.event.Thread.Session
		if key := events.OutputKey(session, s.chunk.Output); chunk && h.outputs[key] != nil {
			h.outputs[key].used = h.turn
		} else if chunk && outputs[key] == nil {
			o := &openOutput{key: key, used: h.turn}
			outputs[key], keys = o, append(keys, key)
			take = append(take, func(r record.Record) { o.load(l.p, r, l.lostArtifact(key)) })
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
	for i, r := range rs {
		take[i](r)
	}
	maps.Copy(h.outputs, outputs)
	maps.Copy(h.counters, counters)
	return nil
}

func (n *counter) load(r record.Record) {
	n.rev = r.Seq
	n.rec, n.bad = record.DecodeCounter(r.Value)
}

package persist

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// openOutput is an output as the lane knows it. One that was never begun, or is no longer open, is kept too.
type openOutput struct {
	key, baseKey string
	term         uint64 // of the partition, in which its record was read

	// Stage 1.
	apply.Output         // as the last prepared commit will leave it
	fresh        *commit // that opens it
	used         uint64  // turn of the cache in which it was last wanted

	pending atomic.Int64 // prepared commits that touch it and are not through stage 2

	// Stage 2, once loaded.
	rev         uint64
	first, last uint64 // sequences of the artifact's parts
}

// load takes an output from its record and its base. apply.ErrTorn: they must be read again.
func (o *openOutput) load(rules *apply.Rules, r, base record.Record, lost error) error {
	o.rev = r.Seq
	known, err := apply.LoadOutput(rules, r, base, lost)
	if err != nil {
		return err
	}
	o.Output = *known
	o.first, o.last = o.Rec.Parts.First, o.Rec.Parts.Last
	return nil
}

// outputCache holds outputs and the counters of their sessions, for stage 1.
type outputCache struct {
	limit    int // bytes
	turn     uint64
	outputs  map[string]*openOutput
	moved    map[string]bool // outputs whose stored record a commit on its way may be changing
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
	h.outputs, h.moved, h.counters = map[string]*openOutput{}, map[string]bool{}, map[string]*counter{}
}

// ofTerm reports whether the output that an event has a piece of, if it is in memory, was read in the event's term.
func (h *outputCache) ofTerm(s *staged) bool {
	if s.event.Kind != events.KindChunk {
		return true
	}
	o := h.outputs[s.outputKey()]
	return o == nil || o.term == s.msg.Term
}

// forget drops what is in memory of sessions. No prepared commit may be on its way that touches one.
func (h *outputCache) forget(gone map[string]bool) {
	maps.DeleteFunc(h.outputs, func(key string, _ *openOutput) bool { return gone[events.SessionOf(key)] })
	maps.DeleteFunc(h.counters, func(session string, _ *counter) bool { return gone[session] })
}

// move notes that a prepared commit writes an output's record past the cache. Who wants the output waits for that commit.
func (h *outputCache) move(key string) {
	delete(h.outputs, key)
	h.moved[key] = true
}

// wantsMoved reports whether an event has a piece of an output whose stored record may be about to change.
func (h *outputCache) wantsMoved(s *staged) bool {
	return s.known && s.bad == nil && s.event.Kind == events.KindChunk && h.moved[s.outputKey()]
}

// drop notes that an output's record is removed: what comes for it in the same batch is refused.
func (h *outputCache) drop(key string) {
	if o := h.outputs[key]; o != nil {
		h.outputs[key] = &openOutput{key: o.key, baseKey: o.baseKey, term: o.term, Output: apply.Output{Removed: true}, used: o.used}
	}
}

// trim forgets the outputs that were not wanted for longest, and that no commit in flight touches, when they take too much
// memory: all that is known of them is in their records.
func (h *outputCache) trim() {
	h.turn++
	maps.DeleteFunc(h.counters, func(_ string, n *counter) bool { return n.pending.Load() == 0 }) // others may have taken numbers since
	total := 0
	for _, o := range h.outputs {
		total += o.Memory()
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
			total -= o.Memory()
			delete(h.outputs, o.key)
		}
	}
}

// mostMoved is how many moved outputs are remembered.
const mostMoved = 1000

// loadOutputs reads the outputs that a batch has pieces of and that are not in memory, and the counters of the sessions in
// which one ends, an entry may have a large result, a fork begins, or an agent is named by its id, in one go.
func (l *lane) loadOutputs(ctx context.Context, batch []*staged, epoch uint64) error {
	h := &l.outputs
	h.trim()
	if len(h.moved) >= mostMoved || slices.ContainsFunc(batch, h.wantsMoved) {
		if err := l.settle(ctx, epoch); err != nil {
			return err
		}
		clear(h.moved)
	}
	outputs, counters := map[string]*openOutput{}, map[string]*counter{}
	var keys []string
	var take []func([]record.Record) (read int, err error) // each is given the records from its own on
	for _, s := range batch {
		if !s.known || s.bad != nil {
			continue
		}
		chunk := s.event.Kind == events.KindChunk
		numbers := l.p.rules.MayNumber(&s.event, l.heads.threads[s.event.Thread].Head.Start.IsZero())
		if !chunk && !numbers {
			continue
		}
		session := s.event.Thread.Session
		if key := s.outputKey(); chunk && h.outputs[key] != nil {
			h.outputs[key].used = h.turn
		} else if chunk && outputs[key] == nil {
			o := &openOutput{key: key, baseKey: events.OutputBaseKey(session, s.event.Chunk.Output), term: s.msg.Term, used: h.turn}
			outputs[key], keys = o, append(keys, o.key, o.baseKey)
			lost := l.lostArtifact(key)
			take = append(take, func(rs []record.Record) (int, error) { return l.takeOutput(ctx, o, rs, lost) })
		}
		if !numbers || counters[session] != nil {
			continue
		}
		if n := h.counters[session]; n == nil || n.pending.Load() == 0 {
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
		err := o.load(&l.p.rules, rs[0], rs[1], lost)
		if err == nil {
			return 2, nil
		}
		if o.rev == before { // nobody does
			o.Bad = fmt.Errorf("%w: %w", apply.ErrOutput, err)
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

package persist

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate/output"
)

// ErrOutput is wrapped by every refusal of a chunk: what is wrong with it, and what to do.
var ErrOutput = errors.New("output")

// chunk applies a piece of a tool's streaming output (SPEC O). All that is known of the output afterwards goes into its
// record with the same commit, so that whoever applies the next piece goes on at the exact byte (SPEC O7):
//
//	start ─▶ open ── data ──▶ open ── end, or an abort that saw all data ──▶ removed: an item, and the artifact's record
//
// What an output's text is depends on its events and their order alone, never on batches or clocks. That is why two
// persisters that both think they own it make the same parts of its artifact, and neither can spoil the other's.
func (l *lane) chunk(ctx context.Context, c *commit, t *thread, s *staged) error {
	o := l.outputs.get(events.OutputKey(t.key.Session, s.chunk.Output))
	if o == nil { // the next batch reads it
		return errBarrier
	}
	if o.bad != nil {
		return o.bad
	}
	if t.head.Status == threads.StatusCompleted && s.chunk.Op != events.ChunkAbort {
		return fmt.Errorf("%w: %s: begin the output in another thread", ErrEnded, t.key)
	}
	if s.chunk.Op == events.ChunkStart {
		return l.openOutput(c, t, s, o)
	}
	due, err := o.due(t, s.chunk)
	switch {
	case err != nil:
		return err
	case !due:
		c.news(t, s, t.head)
		s.verdict = verdict{is: repeated}
		return nil
	case o.mustWait(c, s.chunk):
		return errBarrier
	case s.chunk.Op == events.ChunkData:
		l.data(c, t, s, o)
		return nil
	}
	return l.closeOutput(ctx, c, t, s, o)
}

// due reports whether a piece is the next one. It is not when it came before, perhaps from another producer.
func (o *openOutput) due(t *thread, p events.Chunk) (bool, error) {
	next := o.rec.Seq + 1
	switch {
	case p.Op == events.ChunkAbort && (!o.open || p.Seq != next):
		return false, nil
	case !o.open && o.removed:
		return false, fmt.Errorf("%w %s has ended, or was closed as aborted after its lease: begin another one, with an id of its own", ErrOutput, p.Output)
	case !o.open:
		return false, fmt.Errorf("%w %s is not open: publish its start first", ErrOutput, p.Output)
	case o.rec.Thread != t.key.Name:
		return false, fmt.Errorf("%w %s belongs to the thread %s", ErrOutput, p.Output, o.rec.Thread)
	case p.Seq > next:
		return false, fmt.Errorf("%w %s: piece %d after %d: publish those between first", ErrOutput, p.Output, p.Seq, o.rec.Seq)
	}
	return p.Seq == next, nil
}

// mustWait reports whether a piece could make a part of the artifact in the very commit that opens the output. Parts are
// uploaded before their commit; no collector may take one for waste, so a record must have named them before.
func (o *openOutput) mustWait(c *commit, p events.Chunk) bool {
	if o.fresh != c {
		return false
	}
	const grows = 3 // bytes at most for a byte that is no UTF-8
	if p.Op == events.ChunkData {
		return grows*(o.raw+len(p.Data)) >= record.PartSize
	}
	return o.raw > 0 && (grows*o.raw > output.DefaultThreshold/2 || o.rec.Start.Columns > 0 || o.rec.Start.Keep)
}

// openOutput begins an output.
func (l *lane) openOutput(c *commit, t *thread, s *staged, o *openOutput) error {
	if o.open || o.removed {
		return fmt.Errorf("%w %s was begun before: an output needs an id of its own", ErrOutput, s.chunk.Output)
	}
	c.news(t, s, t.head)
	c.start(t, resultDialect, nil)
	if t.session.learn(t, s, &dialect.Entry{}) {
		c.infos[t.session] = nil
	}
	s.timestamp(t, 0)
	sum := identity(s)
	o.rec = record.Output{
		ID: s.chunk.Output, Thread: t.key.Name, User: s.event.User, Start: s.chunk.Start, Begun: s.event.Time, Touched: s.event.Time,
		Artifact: artifacts.NewID(time.UnixMilli(s.event.Time), [10]byte(sum[:10])), NUID: hex.EncodeToString(sum[10:]),
	}
	o.open, o.fresh, o.session = true, c, t.key.Session
	o.body = newParts(o.rec, nil)
	o.sink = output.NewSink(o.config(l.p))
	c.touch(o)
	return nil
}

// identity names what a start event begins: the same for whoever applies it, and never again.
func identity(s *staged) [sha256.Size]byte {
	e := s.event
	b := fmt.Appendf(nil, "%s\x00%s\x00%s\x00", e.Thread, s.chunk.Output, e.Producer)
	return sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, e.Epoch), e.Seq))
}

// data takes a piece.
func (l *lane) data(c *commit, t *thread, s *staged, o *openOutput) {
	c.news(t, s, t.head)
	n := c.touch(o)
	piece := o.mask(l.p, s, record.Piece{Stream: s.chunk.Stream, Bytes: s.chunk.Data}, false)
	n.live = append(n.live, o.write(piece)...)
	o.note(piece)
	o.rec.Seq = s.chunk.Seq
	o.rec.Touched = max(o.rec.Touched, s.event.Time)
	o.raw += len(s.chunk.Data)
	l.p.stats.outputBytes.Add(int64(len(s.chunk.Data)))
}

// closeOutput ends an output with what arrived: a result in its thread and, when it was cut, an artifact. In a thread that
// has ended there is no result any more.
func (l *lane) closeOutput(ctx context.Context, c *commit, t *thread, s *staged, o *openOutput) error {
	if cause := l.outputs.counters[o.session].bad; cause != nil {
		return cause
	}
	d, ok := dialect.Lookup(resultDialect)
	if !ok {
		return fmt.Errorf("%w: this version has no dialect %q", ErrOutput, resultDialect)
	}
	n := c.touch(o)
	for _, h := range o.rec.Held {
		n.live = append(n.live, o.write(o.mask(l.p, s, record.Piece{Stream: h.Stream}, true))...)
	}
	sum, live := o.sink.Close()
	n.live = append(n.live, live...)
	n.ended, o.open, o.removed = true, false, true
	at := max(s.event.Time, o.rec.Touched)
	n.end = &events.LiveEnd{Aborted: s.chunk.Op == events.ChunkAbort}
	s.pointer = nil
	if sum.ArtifactID != "" {
		n.artifact = l.outputs.number(c, o).artifact(o, sum, at)
		n.end.Artifact = string(n.artifact.ID)
		s.pointer = pointer(n.artifact)
	}
	l.p.stats.outputs.Add(1)
	if t.head.Status == threads.StatusCompleted {
		c.news(t, s, t.head)
		return nil
	}
	s.text = o.result(s.chunk, sum, n.artifact)
	p, err := l.planStep(ctx, c, t, s, addition{dialect: d, operation: true})
	if err != nil {
		return fmt.Errorf("%w: %w", errHalfDone, err)
	}
	l.writeStep(c, t, s, p)
	n.end.Item, n.end.Node = t.head.N, t.head.Head().Ref.String()
	if n.artifact != nil {
		n.artifact.Node = n.end.Node
	}
	return nil
}

// config is how an output is shown.
func (o *openOutput) config(p *Persister) output.Config {
	return output.Config{Head: o.rec.Start.Head, Columns: o.rec.Start.Columns, Keep: o.rec.Start.Keep, Artifact: func() (output.Artifact, error) {
		if p.Parts == nil {
			return nil, errors.New("this persister stores no artifacts")
		}
		o.body.begun = true
		return o.body, nil
	}}
}

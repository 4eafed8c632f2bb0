package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/internal/runes"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Parts stores artifacts while they are being written.
type Parts interface {
	// PutPart stores the next part of an artifact, behind the one at sequence after (0: the first), and returns its own when
	// it is durable. Putting the same part there again gives the sequence that it has; record.ErrRefused: another is there.
	PutPart(ctx context.Context, token string, after uint64, part []byte) (uint64, error)
	// FinishParts makes an object of the parts under its name. Doing it again changes nothing.
	FinishParts(ctx context.Context, o record.Object) error
}

// Live tells subscribers what outputs print. A frame may be lost: they find the gap (SPEC O6).
type Live interface {
	PublishLive(t events.Thread, output string, frame events.Live) error
}

// touchedOutput is an output with news in a commit.
type touchedOutput struct {
	*openOutput
	id, token string
	thread    events.Thread

	ended    bool
	artifact *artifacts.Record // of an ended one that was cut
	whole    record.Object     // its bytes

	rec   record.Output // what the commit leaves of one that is open
	base  *record.Put   // of its base; nil: it stays as it is
	ready [][]byte      // parts to upload before

	from int64  // live text: what came before it, in bytes
	live []byte // and itself
	end  *events.LiveEnd
}

func (c *commit) touch(o *openOutput) *touchedOutput {
	for _, n := range c.outputs {
		if n.openOutput == o {
			return n
		}
	}
	of := events.Thread{Session: events.SessionOf(o.key), Name: o.Rec.Thread}
	n := &touchedOutput{openOutput: o, id: o.Rec.ID, token: o.Rec.NUID, thread: of, from: o.Total()}
	c.outputs = append(c.outputs, n)
	return n
}

// finishOutputs writes what the commit will leave of each output it touches.
func (c *commit) finishOutputs() {
	for _, n := range c.outputs {
		n.fresh, n.ready = nil, n.Ready()
		if !n.ended {
			var base []byte
			if n.rec, base = n.Value(); base != nil {
				n.base = &record.Put{Key: n.baseKey, Value: base, Expect: record.Any} // the record beside it is the fence
			}
			continue
		}
		if n.artifact != nil {
			n.whole = n.Whole(n.artifact.Object)
		}
		if n.Rec.Base > 0 {
			n.base = &record.Put{Key: n.baseKey, Expect: record.Any}
		}
		n.Forget() // the cache keeps that it has ended, and no more
	}
	for n := range c.numbers {
		c.numbers[n] = n.rec.Encode()
	}
}

// outputsPending says that a commit is on its way.
func (c *commit) outputsPending() {
	for _, n := range c.outputs {
		n.pending.Add(1)
	}
	for n := range c.numbers {
		n.pending.Add(1)
	}
}

// outputsThrough says that a commit is through stage 2, done or not.
func (c *commit) outputsThrough() {
	for _, n := range c.outputs {
		n.pending.Add(-1)
	}
	for n := range c.numbers {
		n.pending.Add(-1)
	}
}

// uploadOutputs stores the parts that are complete and lists the records: outputs, counters, then the others. A crash
// here leaves parts that no record counts yet: whoever applies the same events makes them again, finds them, and goes on.
func (p *Persister) uploadOutputs(ctx context.Context, c *commit) ([]record.Put, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	for _, n := range c.outputs {
		g.Go(func() error { return p.uploadParts(gctx, n) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	puts := make([]record.Put, 0, len(c.outputs)+len(c.numbers)+4)
	for _, n := range c.outputs {
		put := record.Put{Key: n.key, Expect: n.rev}
		if !n.ended {
			put.Value = n.rec.Encode()
		}
		puts = append(puts, put)
	}
	c.numbered = slices.Collect(maps.Keys(c.numbers))
	for _, n := range c.numbered {
		puts = append(puts, record.Put{Key: n.key, Value: c.numbers[n], Expect: n.rev})
	}
	for _, n := range c.outputs {
		if n.base != nil {
			puts = append(puts, *n.base)
		}
		if n.artifact != nil {
			puts = append(puts, record.Put{Key: events.ArtifactKey(n.thread.Session, string(n.artifact.ID)), Value: n.artifact.Encode()})
		}
	}
	return puts, nil
}

// uploadParts stores the parts of one output, one behind the other. When the store does not take them, for want of room or
// because there is something else in their place, the output goes on without an artifact: its events are prepared again,
// and its result says why (SPEC O5). Everybody else's entries do not wait for one tool's output.
func (p *Persister) uploadParts(ctx context.Context, n *touchedOutput) error {
	err := p.putParts(ctx, n)
	if errors.Is(err, record.ErrFull) || errors.Is(err, record.ErrRefused) {
		p.Log.Warn("an output loses its artifact", "session", n.thread.Session, "thread", n.thread.Name, "output", n.key, "error", err)
		p.lane.loseArtifact(n.key, err)
		return fmt.Errorf("%w: %s goes on without an artifact: %v", record.ErrConflict, n.key, err) // not ErrFull: it is not to be tried again
	}
	return err
}

func (p *Persister) putParts(ctx context.Context, n *touchedOutput) error {
	for len(n.ready) > 0 {
		seq, err := p.Parts.PutPart(ctx, n.token, n.last, n.ready[0])
		if err != nil {
			return fmt.Errorf("part of the artifact of %s: %w", n.key, err)
		}
		n.first = cmp.Or(n.first, seq)
		n.last = seq
		p.stats.stored.Add(int64(len(n.ready[0])))
		n.ready = n.ready[1:]
	}
	n.rec.Parts.First, n.rec.Parts.Last = n.first, n.last
	if n.artifact == nil {
		return nil
	}
	n.whole.First = n.first
	n.artifact.Locator = n.whole.Locator()
	if err := p.Parts.FinishParts(ctx, n.whole); err != nil {
		return fmt.Errorf("artifact of %s: %w", n.key, err)
	}
	return nil
}

// settleOutputs notes the revisions of what a commit stored, the first of them at sequence first.
func (c *commit) settleOutputs(first uint64) {
	for i, n := range c.outputs {
		n.rev = first + uint64(i)
	}
	for i, n := range c.numbered {
		n.rev = first + uint64(len(c.outputs)+i)
	}
}

// learnOutputs is settleOutputs after a commit whose answer was lost.
func (p *Persister) learnOutputs(ctx context.Context, c *commit) error {
	keys := make([]string, 0, len(c.outputs)+len(c.numbered))
	for _, n := range c.outputs {
		keys = append(keys, n.key)
	}
	for _, n := range c.numbered {
		keys = append(keys, n.key)
	}
	rs, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for i, r := range rs {
		if i < len(c.outputs) {
			c.outputs[i].rev = r.Seq
		} else { // somebody else may have taken a number since: then the next commit is prepared again
			c.numbered[i-len(c.outputs)].rev = r.Seq
		}
	}
	return nil
}

// frameText is how many bytes of text a live frame has at most; escaped, it is far below a message.
const frameText = 64 << 10

// publishLive tells subscribers what the commit brought: one frame an output, or a few of a large piece.
func (p *Persister) publishLive(c *commit) {
	if p.Live == nil {
		return
	}
	for _, n := range c.outputs {
		for at, rest := n.from, n.live; len(rest) > 0 || n.end != nil; {
			text := runes.Head(rest, frameText)
			frame := events.Live{Offset: at, Text: string(text)}
			if rest = rest[len(text):]; len(rest) == 0 {
				frame.End, n.end = n.end, nil
			}
			if err := p.Live.PublishLive(n.thread, n.id, frame); err != nil {
				p.Log.Debug("live frame", "output", n.key, "error", err)
			}
			at += int64(len(text))
		}
		n.live = nil
	}
}

// mostLost is how many outputs are remembered that have lost their artifact. One that is forgotten loses it again.
const mostLost = 1000

// loseArtifact and lostArtifact tell stage 1 which outputs have lost their artifact in stage 2.
func (l *lane) loseArtifact(key string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.lost {
		if len(l.lost) < mostLost {
			break
		}
		delete(l.lost, other)
	}
	l.lost[key] = cause
}

func (l *lane) lostArtifact(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cause := l.lost[key]
	delete(l.lost, key)
	return cause
}

package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// outputOf is an output of a session, as far as its pieces are accounted for: a thread's head says that it had them, and
// not what became of them.
type outputOf struct {
	id      string
	starts  []string // ends of the ids that its artifact can have, one for each event that can have begun it
	dropped bool     // it is not open, and neither a result nor an artifact has what came of it
	told    bool     // there is a finding of it
}

// outputKey names an output.
type outputKey struct{ session, id string }

// postPiece notes which output an event has a piece of.
func (a *accountant) postPiece(p *posting, e *events.Event) {
	c, err := events.ParseChunk(e.Body)
	if err != nil || a.lost != nil { // lost pieces cannot be applied again
		return
	}
	key := outputKey{e.Thread.Session, c.Output}
	o := a.outputs[key]
	if o == nil {
		o = &outputOf{id: strings.Clone(c.Output)}
		a.outputs[key] = o
	}
	switch {
	case c.Op == events.ChunkStart:
		sum := apply.OutputIdentity(e, c.Output)
		id := string(artifacts.NewID(time.UnixMilli(0), [10]byte(sum[:10])))
		o.starts = append(o.starts, id[strings.LastIndexByte(id, '_'):])
	case c.Op == events.ChunkData && len(c.Data) > 0:
		p.output = o
	}
}

// dropped finds the outputs of which nothing is kept although the threads of these names had their pieces.
func (a *accountant) dropped(ctx context.Context, names []events.Thread, where []whereabouts, has map[events.Thread]*entries) error {
	wanted := map[*outputOf]events.Thread{} // by the name under which a piece came
	for i, t := range names {
		unread := slices.ContainsFunc(where[i].heads, func(h headOf) bool { return has[h.of].unreadable != nil })
		for k := range a.threads[t] {
			p := &a.threads[t][k]
			if p.output != nil && !unread && p.at > where[i].removed && !a.refused(p) && where[i].had(p) {
				wanted[p.output] = t
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	session := names[0].Session
	open, err := a.l.List(ctx, events.OutputKeys(session))
	if err != nil {
		return err
	}
	for _, r := range open {
		if _, id, ok := events.ParseOutputKey(r.Key); ok {
			delete(wanted, a.outputs[outputKey{session, id}])
		}
	}
	// What was open a moment ago has its result by now: the heads are read behind the records.
	heads := map[events.Thread]threads.Head{}
	for _, t := range wanted {
		w, err := a.whereabouts(ctx, t)
		if err != nil {
			return fmt.Errorf("account for the outputs of %s: %w", t, err)
		}
		for _, h := range w.heads {
			heads[h.of] = h.Head
		}
	}
	for _, h := range heads {
		if err := a.results(ctx, session, h, wanted); err != nil {
			return err
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	rows, err := a.l.List(ctx, events.ArtifactKeys(session, ""))
	if err != nil {
		return err
	}
	for o := range wanted {
		if o.dropped = !slices.ContainsFunc(o.starts, func(end string) bool {
			return slices.ContainsFunc(rows, func(r record.Record) bool { return strings.HasSuffix(r.Key, end) })
		}); len(o.starts) == 0 {
			o.dropped = false // nobody knows what its artifact would be called
		}
	}
	return nil
}

// results strikes out the outputs that have a result in a thread.
func (a *accountant) results(ctx context.Context, session string, h threads.Head, wanted map[*outputOf]events.Thread) error {
	seen := map[casstore.Ref]bool{}
	for root, err := range a.src.Reader.Newest(ctx, h, 0) {
		if err != nil {
			return err
		}
		for step, err := range a.src.Reader.Walk(ctx, root) {
			if err != nil {
				return err
			}
			if len(wanted) == 0 || seen[step.At.Ref] {
				break
			}
			seen[step.At.Ref] = true
			if isResult(&step.State) {
				delete(wanted, a.outputs[outputKey{session, step.State.Entry.ID}])
			}
		}
	}
	return nil
}

// openOutput is the record of one.
type openOutput struct {
	key string
	seq uint64
	record.Output
}

// checkAllOpen is checkOpen of all that are: those that a killed server brought back are not.
func (c *checker) checkAllOpen(ctx context.Context, open []openOutput) error {
	rs, err := c.s.Records(ctx, events.EndedKey)
	if err != nil {
		return err
	}
	for _, o := range open {
		if o.seq <= record.Ended(rs[0]) {
			continue
		}
		if err := c.checkOpen(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// checkOpen finds what is lost of an open output: parts of its artifact, which no record of an artifact names yet, or what follows them.
func (c *checker) checkOpen(ctx context.Context, o openOutput) error {
	lost := func(format string, args ...any) error {
		return c.find(ctx, o.seq, Finding{Kind: Missing, Record: o.key, Detail: fmt.Sprintf(format, args...)})
	}
	if session, id, ok := events.ParseOutputKey(o.key); ok && o.Base > 0 {
		key := events.OutputBaseKey(session, id)
		rs, err := c.s.Records(ctx, key)
		if err != nil {
			return err
		}
		if !rs[0].Exists() {
			if err := lost("what follows its parts is not there: %s", key); err != nil {
				return err
			}
		}
	}
	n, size := 0, 0
	parts := record.Object{Bucket: events.ArtifactsBucket, Name: string(o.Artifact), NUID: o.NUID, Chunks: o.Parts.Count, First: o.Parts.First}
	err := c.s.ReadChunks(ctx, parts, 0, func(b []byte) error {
		n, size = n+1, size+len(b)
		return nil
	})
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return err
	}
	if n != o.Parts.Count || size != n*record.PartSize {
		return lost("%d bytes of the first %d of its parts are there", size, o.Parts.Count)
	}
	return nil
}

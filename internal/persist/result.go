package persist

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Wholes stores artifacts that are there as a whole. Each upload gets chunks of its own, is durable when the call returns, and
// exists for nobody until a record names it.
type Wholes interface {
	UploadFrom(ctx context.Context, bucket, name string, r io.Reader) (record.Object, error)
}

// maxCommitResults is how many artifacts of large results go into a commit; an entry by itself has fewer.
const maxCommitResults = 100

// mayAttach reports whether an event could have a large result, and so take a number of its session's artifacts.
func (p *Persister) mayAttach(s *staged) bool {
	return p.Wholes != nil && s.event.Kind == events.KindEntry && len(s.text) >= p.cfg.Artifacts.Least()
}

// results finds the large results of an entry (SPEC A4), with their text as it was before the size rules cut it, where that
// is in memory: the stored entry of a giant is its source too (SPEC T9). It changes nothing.
func (l *lane) results(c *commit, s *staged, d dialect.Dialect, before dialect.Memory, e *dialect.Entry) ([]project.Result, error) {
	if !l.p.mayAttach(s) {
		return nil, nil
	}
	large := project.Results(e.Items, l.p.cfg.Artifacts)
	if len(large) == 0 {
		return nil, nil
	}
	if cause := l.outputs.counters[s.event.Thread.Session].bad; cause != nil {
		return nil, cause
	}
	if len(c.results) > 0 && len(c.results)+len(large) > maxCommitResults {
		return nil, errBarrier
	}
	if s.cuts.Full == nil {
		return large, nil
	}
	whole, err := read(d, s.cuts.Full, &before)
	if err != nil || len(whole.Items) != len(e.Items) {
		return large, nil // the rules made another entry of it: the text is what its item is made of
	}
	texts := map[int]string{}
	for _, r := range project.Results(whole.Items, l.p.cfg.Artifacts) {
		texts[r.Index] = r.Text
	}
	for i := range large {
		if text := texts[large[i].Index]; text != "" {
			large[i].Text = text
		}
	}
	return large, nil
}

// attached is the artifact of a large result in a commit.
type attached struct {
	artifacts.Record
	text string
}

// attach gives large results their records, each with the next number of the session (SPEC A1). A session of omp has its
// numbers from omp, which goes on counting without us: there they have none, and an import takes nobody's number.
func (l *lane) attach(c *commit, d dialect.Dialect, stamp project.Stamp, large []project.Result) {
	for _, r := range large {
		id := stamp.ResultID(r)
		seq, filename := artifacts.Seq(""), string(id)+".log"
		if d.Name() != ompDialect {
			n := l.outputs.counters[stamp.Thread.Session]
			c.numbers[n] = nil
			seq = n.rec.Take()
			filename = artifacts.ToolFile(seq, "")
		}
		a := &attached{text: r.Text, Record: artifacts.Record{
			ID: id, Session: stamp.Thread.Session, Created: cmp.Or(stamp.Time, time.Now().UnixMilli()), Seq: seq,
			Node: stamp.Node.String(), ToolCall: r.Call,
			Filename: filename, MIME: artifacts.ResultMIME, Size: int64(len(r.Text)), Summary: r.Summary,
			Category: artifacts.Normal, Writer: artifacts.FromResult,
		}}
		a.Object = a.ObjectName()
		c.results = append(c.results, a)
	}
}

// uploadResults stores the artifacts of large results and lists their records. Equal entries in two threads of a session are
// one state, and have one artifact: the number of the second stays a gap. A crash here leaves objects that no record names;
// what is prepared again is uploaded again, with chunks of its own.
func (p *Persister) uploadResults(ctx context.Context, c *commit) ([]record.Put, error) {
	if len(c.results) == 0 {
		return nil, nil
	}
	keys := make([]string, len(c.results))
	for i, a := range c.results {
		keys[i] = events.ArtifactKey(a.Session, string(a.ID))
	}
	known, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	puts := make([]record.Put, len(keys))
	seen := map[string]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	for i, a := range c.results {
		if known[i].Exists() || seen[keys[i]] {
			continue
		}
		seen[keys[i]] = true
		g.Go(func() error {
			if a.Locator == nil { // else an attempt before this one has uploaded it
				o, err := p.Wholes.UploadFrom(ctx, events.ArtifactsBucket, a.Object, strings.NewReader(a.text))
				if err != nil {
					return err
				}
				a.Locator = o.Locator()
				p.stats.stored.Add(a.Size)
			}
			puts[i] = record.Put{Key: keys[i], Value: a.Encode(), Expect: known[i].Seq}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return compactPuts(puts), nil
}

package persist

import (
	"context"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Wholes stores artifacts that are there as a whole. Each upload gets chunks of its own, is durable when the call returns, and
// exists for nobody until a record names it.
type Wholes interface {
	UploadFrom(ctx context.Context, bucket, name string, r io.Reader) (record.Object, error)
}

// attached is the artifact of a large result in a commit.
type attached struct {
	artifacts.Record
	text string
}

// uploadResults stores the artifacts of large results and lists their records. Equal entries in two threads of a session are
// one state, and have one artifact: the number of the second stays a gap. A crash here leaves objects that no record names;
// what is prepared again is uploaded again, with chunks of its own.
func (p *Persister) uploadResults(ctx context.Context, c *commit) ([]record.Put, error) {
	if len(c.results) == 0 {
		return nil, nil
	}
	keys, marks := make([]string, len(c.results)), make([]string, len(c.results))
	for i, a := range c.results {
		keys[i] = events.ArtifactKey(a.Session, string(a.ID))
		marks[i] = events.SharedKeys(record.ObjectToken(a.Object))
	}
	known, err := p.Records.Records(ctx, slices.Concat(keys, marks)...)
	if err != nil {
		return nil, err
	}
	puts := make([]record.Put, 2*len(keys))
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
				if known[len(keys)+i].Seq != 0 {
					a.Object = a.ObjectBeside(hex.EncodeToString(c.id[:]))
				}
				o, err := p.Wholes.UploadFrom(ctx, events.ArtifactsBucket, a.Object, strings.NewReader(a.text))
				if err != nil {
					return err
				}
				a.Locator = o.Locator()
				p.stats.stored.Add(a.Size)
			}
			puts[2*i] = record.Put{Key: keys[i], Value: a.Encode(), Expect: known[i].Seq}
			if key := record.SharedKey(a.Record); key != "" {
				puts[2*i+1] = record.Put{Key: key, Value: []byte{1}, Expect: record.Any}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return compactPuts(puts), nil
}

package persist

import (
	"bytes"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

var refMark = []byte("blob:sha256:")

// held lists the blobs that an entry refers to by itself, where an image would be put back (SPEC T10): its content refers to
// them, so that gc keeps them. One that is not stored stays a ref in the text and nothing else. Whether it is stored must not
// depend on the batch: before the answer is no, all that came before is committed.
func (l *lane) held(ctx context.Context, c *commit, s *staged) ([]casstore.Ref, error) {
	if s.event.Kind != events.KindEntry || !dialect.IsJSON(s.event.Dialect) || !bytes.Contains(s.text, refMark) {
		return nil, nil
	}
	refs := slices.DeleteFunc(distinct(rehydrate.Refs(s.text)), func(r casstore.Ref) bool {
		return slices.ContainsFunc(s.blobs, func(b blob) bool { return b.ref == r })
	})
	if len(refs) == 0 {
		return nil, nil
	}
	stored, err := l.stored(ctx, refs)
	if err != nil || len(stored) == len(refs) {
		return stored, err
	}
	if err := l.barrier(ctx, c); err != nil {
		return nil, err
	}
	return l.stored(ctx, refs)
}

// stored lists those of some blobs that have a live record, in order.
func (l *lane) stored(ctx context.Context, refs []casstore.Ref) (live []casstore.Ref, err error) {
	keys := make([]string, len(refs))
	for i, r := range refs {
		keys[i] = events.BlobKey(r.Hex())
	}
	err = l.p.retry(ctx, "refs", func() error {
		rs, err := l.p.Records.Records(ctx, keys...)
		if err != nil {
			return err
		}
		there, err := liveBlobs(ctx, l.p.Bulk, rs)
		if err != nil {
			return err
		}
		for i, ref := range refs {
			if there[i] {
				live = append(live, ref)
			}
		}
		return nil
	})
	return live, err
}

// liveBlobs reports of each record of a blob whether it is live, and its bytes are there: one that a killed server brought back names
// bytes that a collector has freed (docs/adr/0022).
func liveBlobs(ctx context.Context, objects holder, rs []record.Record) ([]bool, error) {
	there := make([]bool, len(rs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	for i, r := range rs {
		if b, err := record.DecodeBlob(r.Value); r.Exists() && err == nil && !b.Gone {
			g.Go(func() (err error) {
				there[i], err = objects.Holds(ctx, b.Object)
				return err
			})
		}
	}
	return there, g.Wait()
}

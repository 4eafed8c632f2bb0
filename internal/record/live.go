package record

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"
)

// Holder knows whether an object is there. Safe for concurrent use.
type Holder interface {
	Holds(ctx context.Context, o Object) (bool, error)
}

// holders is how many objects are asked for at the same time.
const holders = 8

// LiveBlobs reports of each record of a blob whether it is live, and its bytes are there: one that a killed server
// brought back names bytes that a collector has freed (docs/adr/0022).
func LiveBlobs(ctx context.Context, objects Holder, rs []Record) ([]bool, error) {
	there := make([]bool, len(rs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(holders)
	for i, r := range rs {
		if b, err := DecodeBlob(r.Value); r.Exists() && err == nil && !b.Gone {
			g.Go(func() (err error) {
				there[i], err = objects.Holds(ctx, b.Object)
				return err
			})
		}
	}
	return there, g.Wait()
}

// TouchBlobs is LiveBlobs, with the live records of which a collector could take the blob for old, to be written again (DESIGN 8): so
// either the touch or the collector wins.
func (f Fence) TouchBlobs(ctx context.Context, objects Holder, rs []Record) (there []bool, touches []Put, err error) {
	if there, err = LiveBlobs(ctx, objects, rs); err != nil {
		return nil, nil, err
	}
	for i, r := range rs {
		if there[i] && f.Stale(r.Seq) {
			touches = append(touches, Put{Key: r.Key, Value: r.Value, Expect: r.Seq})
		}
	}
	return there, touches, nil
}

// TouchPack is the same of a pack's record. It keeps its place among the packs.
func (f Fence) TouchPack(r Record, p Pack) (touch Put, stale bool) {
	p.Order = cmp.Or(p.Order, r.Seq)
	return Put{Key: r.Key, Value: p.Encode(), Expect: r.Seq}, f.Stale(r.Seq)
}

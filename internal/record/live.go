package record

import (
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

package natsio

import (
	"context"

	"spool/pkg/casstore"
)

// SeekBlob reads a blob from any place, in bounded memory, and says how long it is. Errors wrap casstore.ErrNotFound or
// casstore.ErrGone.
func (s *Store) SeekBlob(ctx context.Context, ref casstore.Ref) (*ObjectReader, int64, error) {
	b, err := s.blobRecord(ctx, ref)
	if err != nil {
		return nil, 0, err
	}
	return s.c.OpenObject(ctx, b.Object), b.Object.Size, nil
}

package natsio

import (
	"context"
	"fmt"
	"io"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// SeekBlob reads a blob from any place, in bounded memory, and says how long it is. Errors wrap casstore.ErrNotFound or
// casstore.ErrGone.
func (s *Store) SeekBlob(ctx context.Context, ref casstore.Ref) (io.ReadSeekCloser, int64, error) {
	b, err := s.LiveBlob(ctx, ref)
	if err != nil {
		return nil, 0, err
	}
	return s.objects.OpenObject(ctx, b.Object), b.Object.Size, nil
}

// HasBlob tells whether a blob is stored.
func (s *Store) HasBlob(ctx context.Context, ref casstore.Ref) (bool, error) {
	rs, err := s.records.Records(ctx, events.BlobKey(ref.Hex()))
	if err != nil || !rs[0].Exists() {
		return false, err
	}
	b, err := record.DecodeBlob(rs[0].Value)
	if err != nil {
		return false, fmt.Errorf("%s: %w", ref, err)
	}
	if b.Gone {
		return false, nil
	}
	return s.objects.Holds(ctx, b.Object)
}

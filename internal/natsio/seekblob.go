package natsio

import (
	"context"
	"errors"
	"io"

	"spool/pkg/casstore"
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
	b, err := s.LiveBlob(ctx, ref)
	switch {
	case errors.Is(err, casstore.ErrNotFound), errors.Is(err, casstore.ErrGone):
		return false, nil
	case err != nil:
		return false, err
	}
	return s.Holds(ctx, b.Object)
}

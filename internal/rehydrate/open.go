package rehydrate

import (
	"bytes"
	"context"
	"errors"
	"io"

	"spool/pkg/casstore"
)

// ahead is how much of a blob is read before a byte of it is passed on, where a blob that turns out to be corrupt must leave
// no trace. A larger one is read twice then.
const ahead = 4 << 20

// open reads a blob of an entry. With Warn, one that is missing or corrupt is told to it, and the reader is nil (SPEC T10);
// without, it is an error, of open or of the reader.
func (s Source) open(ctx context.Context, index int64, ref casstore.Ref) (io.Reader, error) {
	if s.Warn == nil {
		return s.openBlob(ctx, ref)
	}
	r, err := s.sound(ctx, ref)
	if isMissing(err) {
		s.Warn(Missing{Ref: ref, Entry: index, Err: err})
		return nil, nil
	}
	return r, err
}

// sound reads a blob that was seen to be what its hash says.
func (s Source) sound(ctx context.Context, ref casstore.Ref) (io.Reader, error) {
	r, err := s.openBlob(ctx, ref)
	if err != nil {
		return nil, err
	}
	var small bytes.Buffer
	_, err = io.CopyN(&small, r, ahead)
	if errors.Is(err, io.EOF) {
		return &small, nil
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return nil, err
	}
	return s.openBlob(ctx, ref)
}

func (s Source) openBlob(ctx context.Context, ref casstore.Ref) (io.Reader, error) {
	if s.Open != nil {
		return s.Open(ctx, ref)
	}
	b, err := s.Blobs.Blob(ctx, ref)
	return bytes.NewReader(b), err
}

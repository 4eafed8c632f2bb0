package natsio

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"spool/internal/record"
)

// objectFile is what OpenObject returns.
type objectFile struct {
	ctx context.Context
	obs Objects
	o   record.Object

	r    io.Reader // from at on
	at   int64
	want int64     // place of the next Read
	sum  hash.Hash // of all before at
}

// ErrDigest: the bytes of an object are not those that were stored.
var ErrDigest = errors.New("object has another digest")

// OpenObject reads an object from any place, in bounded memory. Whoever reads to its end gets ErrDigest instead of its last
// bytes when it does not have the digest that its record tells. The reader belongs to one goroutine.
// Missing chunks are found while reading: record.ErrNotFound.
func (obs Objects) OpenObject(ctx context.Context, o record.Object) io.ReadSeekCloser {
	return obs.newObjectReader(ctx, o)
}

func (obs Objects) newObjectReader(ctx context.Context, o record.Object) *objectFile {
	return &objectFile{ctx: ctx, obs: obs, o: o, r: obs.readOnce(ctx, o), sum: sha256.New()}
}

// Close is io.Closer's; there is nothing to close.
func (r *objectFile) Close() error { return nil }

// Seek chooses where the next Read begins; it reads nothing. Chunks have no index: going forward reads what lies between.
func (r *objectFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.want
	case io.SeekEnd:
		offset += r.o.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek %s/%s: %d is before the beginning", r.o.Bucket, r.o.Name, offset)
	}
	r.want = offset
	return offset, nil
}

// Read is io.Reader's.
func (r *objectFile) Read(p []byte) (int, error) {
	if want := r.want; want < r.at {
		*r = *r.obs.newObjectReader(r.ctx, r.o)
		r.want = want
	}
	n, err := io.CopyN(r.sum, r.r, r.want-r.at)
	if r.at += n; err != nil {
		return 0, r.end(err)
	}
	m, err := r.r.Read(p)
	r.sum.Write(p[:m])
	r.at += int64(m)
	if r.at == r.o.Size { // also who counts and does not read on must not take them for the object
		err = r.end(io.EOF)
	}
	if errors.Is(err, ErrDigest) {
		return 0, err
	}
	r.want = r.at
	return m, err
}

// end turns the end of an object with another digest into an error.
func (r *objectFile) end(err error) error {
	if errors.Is(err, io.EOF) && r.o.Sum != [32]byte{} && string(r.sum.Sum(nil)) != string(r.o.Sum[:]) {
		return fmt.Errorf("read %s/%s: %w", r.o.Bucket, r.o.Name, ErrDigest)
	}
	return err
}

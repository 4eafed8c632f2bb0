package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"spool/pkg/casstore"
)

// The kinds of findings: what is wrong with something that is stored.
const (
	Corrupt      = "corrupt"      // bytes are not those that were stored
	Missing      = "missing"      // what is referred to is not there
	Inconsistent = "inconsistent" // all is intact and does not fit together
	Unreadable   = "unreadable"   // a record that cannot be decoded
	Misnamed     = "misnamed"     // an artifact is intact, and its object's name leads to other bytes, or nowhere: readers go by the record
)

// Damage is why something is not good.
type Damage struct{ Kind, Detail string }

// KindOf says what is wrong with what could not be read; "" if nobody could look.
func KindOf(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil, Temporary(err), errors.Is(err, ErrDenied):
		return ""
	case errors.Is(err, casstore.ErrNotFound), errors.Is(err, casstore.ErrGone), errors.Is(err, ErrNotFound):
		return Missing
	}
	return Corrupt
}

// ObjectReader gives the bytes of an object, of which missing ones are ErrNotFound, and what its own meta message says.
type ObjectReader interface {
	ReadChunks(ctx context.Context, o Object, limit int, f func(chunk []byte) error) error
	Stat(ctx context.Context, bucket, name string) (Object, error)
}

// CheckBytes gives an object's bytes to f and compares size and digest with what its record says. An error: nobody could look, or f's.
func CheckBytes(ctx context.Context, s ObjectReader, o Object, f func(chunk []byte) error) (wrong *Damage, err error) {
	sum, size := sha256.New(), int64(0)
	var stopped error
	err = s.ReadChunks(ctx, o, 0, func(chunk []byte) error {
		sum.Write(chunk)
		size += int64(len(chunk))
		stopped = f(chunk)
		return stopped
	})
	switch {
	case stopped != nil:
		return nil, stopped
	case err != nil && KindOf(ctx, err) == "":
		return nil, err
	case err != nil:
		return &Damage{KindOf(ctx, err), err.Error()}, nil
	case size != o.Size:
		return &Damage{Corrupt, fmt.Sprintf("%s/%s has %d bytes, want %d", o.Bucket, o.Name, size, o.Size)}, nil
	case o.Sum != [32]byte{} && !bytes.Equal(sum.Sum(nil), o.Sum[:]):
		return &Damage{Corrupt, fmt.Sprintf("%s/%s has the SHA-256 %x, want %x", o.Bucket, o.Name, sum.Sum(nil), o.Sum)}, nil
	}
	return nil, nil
}

// CheckMeta compares an object's meta message, which any client of the object store goes by, with what its record says.
func CheckMeta(ctx context.Context, s ObjectReader, o Object) (wrong *Damage, err error) {
	got, err := s.Stat(ctx, o.Bucket, o.Name)
	switch {
	case err != nil && KindOf(ctx, err) == "":
		return nil, err
	case err != nil:
		return &Damage{KindOf(ctx, err), fmt.Sprintf("the meta message of %s/%s: %v", o.Bucket, o.Name, err)}, nil
	case got.NUID != o.NUID:
		return &Damage{Misnamed, fmt.Sprintf("the meta message of %s/%s is of %s, the record of %s", o.Bucket, o.Name, got.NUID, o.NUID)}, nil
	case got.Size != o.Size || got.Chunks != o.Chunks || o.Sum != [32]byte{} && got.Sum != o.Sum:
		return &Damage{Inconsistent, fmt.Sprintf("the meta message of %s/%s says %d bytes in %d chunks, the record %d in %d, or another digest",
			o.Bucket, o.Name, got.Size, got.Chunks, o.Size, o.Chunks)}, nil
	}
	return nil, nil
}

package casstore

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// Verify reads r and hashes it on the way: where r ends, and its bytes are not those that ref names, the error is
// ErrCorrupt instead of io.EOF.
func Verify(r io.Reader, ref Ref) io.Reader { return &verifier{r, ref, sha256.New()} }

type verifier struct {
	r   io.Reader
	ref Ref
	sum hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && [sha256.Size]byte(v.sum.Sum(nil)) != v.ref.Sum() {
		err = fmt.Errorf("%s: %w: the bytes have another hash", v.ref, ErrCorrupt)
	}
	return n, err
}

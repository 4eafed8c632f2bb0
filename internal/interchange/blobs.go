package interchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"spool/internal/transcript"
	"spool/pkg/casstore"
)

// BlobStore holds blobs by their hash. natsio.Store is one.
type BlobStore interface {
	PutBlob(ctx context.Context, b []byte) (casstore.Ref, error)
	HasBlob(ctx context.Context, ref casstore.Ref) (bool, error)
}

// Blobs brings the blobs that session files refer to from the folder "blobs" that is nearest above them. It is a
// transcript.Blobs.
type Blobs struct {
	Store BlobStore

	mu   sync.Mutex
	done map[casstore.Ref]error
}

// Fetch stores a blob unless it is stored (SPEC T8, T10). Its bytes must have the hash that they are called by.
func (b *Blobs) Fetch(ctx context.Context, from transcript.Source, ref casstore.Ref) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err, ok := b.done[ref]; ok && err == nil {
		return nil
	}
	err := b.fetch(ctx, from, ref)
	if b.done == nil {
		b.done = map[casstore.Ref]error{}
	}
	b.done[ref] = err
	return err
}

func (b *Blobs) fetch(ctx context.Context, from transcript.Source, ref casstore.Ref) error {
	bytes, err := readBlob(from, ref)
	if err == nil {
		_, err = b.Store.PutBlob(ctx, bytes)
		return err
	}
	if has, e := b.Store.HasBlob(ctx, ref); has || e != nil {
		return e
	}
	return err
}

const (
	blobsDir = "blobs"
	maxUp    = 6       // folders above a file in which its blobs are looked for
	maxBlob  = 1 << 30 // bytes of one
)

// readBlob reads the blob that a file refers to and hashes it. Errors wrap casstore.ErrNotFound or ErrCorrupt.
func readBlob(from transcript.Source, ref casstore.Ref) ([]byte, error) {
	dir := path.Dir(from.Path)
	for range maxUp {
		name := path.Join(dir, blobsDir, ref.Hex())
		f, err := from.FS.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			dir = path.Join(dir, "..")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("blob %s cannot be read: %w", ref, err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxBlob+1))
		_ = f.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("blob %s cannot be read: %w", ref, err)
		case len(b) > maxBlob || casstore.SumBlob(b) != ref:
			return nil, fmt.Errorf("blob %s is corrupt: %s has another hash: %w", ref, name, casstore.ErrCorrupt)
		}
		return b, nil
	}
	return nil, fmt.Errorf("blob %s is in no folder %s above %s: %w", ref, blobsDir, from.Path, casstore.ErrNotFound)
}

package casstore

import "context"

// The roles of a store. Each is one method, so that a caller asks for no more than it uses. All are safe for concurrent use,
// and end early with the context's error. storetest.Run is the conformance suite.

// PackGetter reads packs. It follows packs that were moved: it returns a pack that holds what the named one held. The
// caller shares the pack and does not change what it reads from it. Errors wrap ErrNotFound (never written), ErrGone
// (collected), ErrCorrupt or ErrVersion.
type PackGetter interface {
	Pack(ctx context.Context, id PackID) (*Pack, error)
}

// NodeLocator finds a pack that holds a node by looking into the headers of packs: the last resort of whoever has no
// locator, or one that leads to a pack without the node. Errors wrap ErrNotFound.
type NodeLocator interface {
	Locate(ctx context.Context, ref Ref) (Located, error)
}

// BlobGetter reads blobs, and hashes what it read again. The caller owns the bytes. Errors wrap ErrNotFound, ErrGone or
// ErrCorrupt.
type BlobGetter interface {
	Blob(ctx context.Context, ref Ref) ([]byte, error)
}

// BlobPutter stores bytes under their SHA-256. PutBlob returns when the bytes are durable; putting the same bytes again
// stores nothing and makes a collector see them as new.
type BlobPutter interface {
	PutBlob(ctx context.Context, b []byte) (Ref, error)
}

package casstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// Memory is a store in memory that plays every role. The zero value is empty and ready. Safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	packs map[PackID]storedPack // guarded by mu
	blobs map[Ref][]byte        // guarded by mu
	moved map[PackID]PackID     // guarded by mu
	gone  map[PackID]bool       // guarded by mu
}

type storedPack struct{ header, body []byte }

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{} }

var (
	_ PackGetter = (*Memory)(nil)
	_ BlobGetter = (*Memory)(nil)
	_ BlobPutter = (*Memory)(nil)
)

// Pack implements PackGetter.
func (m *Memory) Pack(ctx context.Context, id PackID) (*Pack, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	at := id
	for to, ok := m.moved[at]; ok; to, ok = m.moved[at] {
		at = to
	}
	stored, ok := m.packs[at]
	gone := m.gone[at]
	m.mu.Unlock()
	switch {
	case gone:
		return nil, fmt.Errorf("pack %s: %w", id, ErrGone)
	case !ok:
		return nil, fmt.Errorf("pack %s: %w", id, ErrNotFound)
	}
	p, err := OpenPack(stored.header, stored.body)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", id, err)
	}
	return p, nil
}

// PutPack stores a pack; putting the same bytes again under the same id is a no-op. Errors wrap ErrCorrupt when they are not a pack.
func (m *Memory) PutPack(ctx context.Context, id PackID, header, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := OpenPack(header, body); err != nil {
		return fmt.Errorf("put pack %s: %w", id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packs == nil {
		m.packs = make(map[PackID]storedPack)
	}
	if _, ok := m.packs[id]; !ok {
		m.packs[id] = storedPack{bytes.Clone(header), bytes.Clone(body)}
	}
	return nil
}

// Blob implements BlobGetter.
func (m *Memory) Blob(ctx context.Context, ref Ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	b, ok := m.blobs[ref]
	m.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s: %w", ref, ErrNotFound)
	}
	if SumBlob(b) != ref {
		return nil, fmt.Errorf("%s: %w", ref, ErrCorrupt)
	}
	return append([]byte{}, b...), nil
}

// PutBlob implements BlobPutter.
func (m *Memory) PutBlob(ctx context.Context, b []byte) (Ref, error) {
	if err := ctx.Err(); err != nil {
		return Ref{}, err
	}
	ref := SumBlob(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = make(map[Ref][]byte)
	}
	if _, ok := m.blobs[ref]; !ok {
		m.blobs[ref] = bytes.Clone(b)
	}
	return ref, nil
}

// MovePack makes a pack stand for another one, as a repack does.
func (m *Memory) MovePack(from, to PackID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(map[PackID]PackID)
	}
	m.moved[from] = to
	delete(m.packs, from)
}

// RemovePack removes a pack, as a collector does.
func (m *Memory) RemovePack(id PackID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = make(map[PackID]bool)
	}
	m.gone[id] = true
	delete(m.packs, id)
}

// CorruptPack flips a bit in the last byte of a stored pack's body.
func (m *Memory) CorruptPack(id PackID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := m.packs[id]
	stored.body = flipped(stored.body)
	m.packs[id] = stored
}

// CorruptBlob flips a bit in the last byte of a stored blob.
func (m *Memory) CorruptBlob(ref Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[ref] = flipped(m.blobs[ref])
}

// flipped is a copy, because readers may hold b.
func flipped(b []byte) []byte {
	c := bytes.Clone(b)
	c[len(c)-1] ^= 1
	return c
}

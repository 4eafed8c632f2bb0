// Package storetest is the conformance suite of the store roles that pkg/casstore declares. Every implementation runs it,
// the one in memory included.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
)

// Store is a store that plays every role, and a way to put packs into it.
type Store interface {
	casstore.PackGetter
	casstore.BlobGetter
	casstore.BlobPutter

	// PutPack returns when the pack is durable; putting the same bytes again under the same id is a no-op. The store keeps no reference to
	// header and body. Errors wrap ErrCorrupt when they are not a pack.
	PutPack(ctx context.Context, id casstore.PackID, header, body []byte) error
}

// Corrupter is implemented by a store whose stored bytes a test can damage; without it those tests are skipped.
type Corrupter interface {
	CorruptPack(id casstore.PackID) // flips a bit in the body
	CorruptBlob(ref casstore.Ref)   // flips a bit; the blob is not empty
}

// Mover is implemented by a store in which a test can do what a repack does.
type Mover interface {
	MovePack(from, to casstore.PackID)
}

// Remover is implemented by a store in which a test can do what a collector does.
type Remover interface {
	RemovePack(id casstore.PackID)
}

// Run runs the suite. open returns an empty store, which it closes with t.Cleanup if need be.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"pack round trip":      packRoundTrip,
		"pack again":           packAgain,
		"pack missing":         packMissing,
		"pack that is none":    packThatIsNone,
		"pack corrupt":         packCorrupt,
		"pack moved":           packMoved,
		"pack removed":         packRemoved,
		"pack of large node":   packOfLargeNode,
		"blob round trip":      blobRoundTrip,
		"blob missing":         blobMissing,
		"blob corrupt":         blobCorrupt,
		"blob is the caller's": blobIsTheCallers,
		"concurrent use":       concurrentUse,
		"cancelled context":    cancelledContext,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// newPack builds a pack of chained nodes whose payloads hold that text.
func newPack(t *testing.T, text string, nodes int) (id casstore.PackID, header, body []byte, refs []casstore.Ref) {
	t.Helper()
	b := casstore.NewPackBuilder()
	var parent casstore.Ref
	for i := range nodes {
		n := casstore.Node{Type: "test", Payload: casstore.AppendString(nil, fmt.Sprint(text, i)), Refs: []casstore.Ref{parent}}
		parent = b.AddNode(&n)
		refs = append(refs, parent)
	}
	header, body = must.Two(b.Finish())(t)
	_, _ = rand.Read(id[:])
	return id, header, body, refs
}

func mustPut(t *testing.T, s Store, id casstore.PackID, header, body []byte) {
	t.Helper()
	if err := s.PutPack(t.Context(), id, header, body); err != nil {
		t.Fatalf("PutPack(%s) = %v, want nil", id, err)
	}
}

// checkPack reads every node of a pack.
func checkPack(t *testing.T, s Store, id casstore.PackID, refs []casstore.Ref) {
	t.Helper()
	p, err := s.Pack(t.Context(), id)
	if err != nil {
		t.Fatalf("Pack(%s) = %v, want nil", id, err)
	}
	for _, ref := range refs {
		b, err := p.Encoded(ref)
		if err != nil || casstore.SumNode(b) != ref {
			t.Fatalf("Encoded(%s) = %d bytes, %v, want the node", ref, len(b), err)
		}
	}
}

func packRoundTrip(t *testing.T, s Store) {
	for _, nodes := range []int{1, 3, 5000} {
		id, header, body, refs := newPack(t, "round trip", nodes)
		mustPut(t, s, id, header, body)
		checkPack(t, s, id, refs)
	}
}

func packAgain(t *testing.T, s Store) {
	id, header, body, refs := newPack(t, "again", 10)
	mustPut(t, s, id, header, body)
	mustPut(t, s, id, header, body)
	clear(header)
	clear(body)
	checkPack(t, s, id, refs)
}

func packMissing(t *testing.T, s Store) {
	id, _, _, _ := newPack(t, "missing", 1)
	if _, err := s.Pack(t.Context(), id); !errors.Is(err, casstore.ErrNotFound) {
		t.Errorf("Pack(never written) = %v, want ErrNotFound", err)
	}
}

func packThatIsNone(t *testing.T, s Store) {
	id, header, body, _ := newPack(t, "none", 10)
	header[len(header)/2] ^= 1
	if err := s.PutPack(t.Context(), id, header, body); !errors.Is(err, casstore.ErrCorrupt) {
		t.Errorf("PutPack(damaged header) = %v, want ErrCorrupt", err)
	}
	if _, err := s.Pack(t.Context(), id); !errors.Is(err, casstore.ErrNotFound) {
		t.Errorf("Pack(refused) = %v, want ErrNotFound", err)
	}
}

func packCorrupt(t *testing.T, s Store) {
	damage, ok := s.(Corrupter)
	if !ok {
		t.Skip("the store is no Corrupter")
	}
	id, header, body, refs := newPack(t, "corrupt", 100)
	mustPut(t, s, id, header, body)
	damage.CorruptPack(id)
	p, err := s.Pack(t.Context(), id)
	for i := 0; err == nil && i < len(refs); i++ {
		_, err = p.Encoded(refs[i])
	}
	if !errors.Is(err, casstore.ErrCorrupt) {
		t.Errorf("reading a damaged pack = %v, want ErrCorrupt", err)
	}
}

func packMoved(t *testing.T, s Store) {
	mover, ok := s.(Mover)
	if !ok {
		t.Skip("the store is no Mover")
	}
	first, header, body, refs := newPack(t, "moved", 10)
	mustPut(t, s, first, header, body)
	second, third := casstore.PackID{1}, casstore.PackID{2}
	mustPut(t, s, second, header, body)
	mover.MovePack(first, second)
	checkPack(t, s, first, refs)
	mustPut(t, s, third, header, body)
	mover.MovePack(second, third)
	checkPack(t, s, first, refs)
}

func packRemoved(t *testing.T, s Store) {
	remover, ok := s.(Remover)
	if !ok {
		t.Skip("the store is no Remover")
	}
	id, header, body, _ := newPack(t, "removed", 10)
	mustPut(t, s, id, header, body)
	remover.RemovePack(id)
	if _, err := s.Pack(t.Context(), id); !errors.Is(err, casstore.ErrGone) {
		t.Errorf("Pack(collected) = %v, want ErrGone", err)
	}
}

func packOfLargeNode(t *testing.T, s Store) {
	large := make([]byte, 5<<20)
	_, _ = rand.Read(large)
	b := casstore.NewPackBuilder()
	ref := b.AddNode(&casstore.Node{Type: "test", Payload: casstore.AppendBin(nil, large)})
	header, body := must.Two(b.Finish())(t)
	id := casstore.PackID{7}
	mustPut(t, s, id, header, body)
	checkPack(t, s, id, []casstore.Ref{ref})
}

func blobRoundTrip(t *testing.T, s Store) {
	large := make([]byte, 5<<20)
	_, _ = rand.Read(large)
	for _, b := range [][]byte{{}, {0}, []byte("text"), large} {
		for range 2 {
			ref, err := s.PutBlob(t.Context(), b)
			if err != nil || ref != casstore.SumBlob(b) {
				t.Fatalf("PutBlob(%d bytes) = %s, %v, want %s, nil", len(b), ref, err, casstore.SumBlob(b))
			}
			got, err := s.Blob(t.Context(), ref)
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("Blob(%s) = %d bytes, %v, want the %d bytes put", ref, len(got), err, len(b))
			}
		}
	}
}

func blobMissing(t *testing.T, s Store) {
	if _, err := s.Blob(t.Context(), casstore.SumBlob([]byte("never put"))); !errors.Is(err, casstore.ErrNotFound) {
		t.Errorf("Blob(never put) = %v, want ErrNotFound", err)
	}
}

func blobCorrupt(t *testing.T, s Store) {
	damage, ok := s.(Corrupter)
	if !ok {
		t.Skip("the store is no Corrupter")
	}
	ref := must.Get(s.PutBlob(t.Context(), []byte("soon damaged")))(t)
	damage.CorruptBlob(ref)
	if _, err := s.Blob(t.Context(), ref); !errors.Is(err, casstore.ErrCorrupt) {
		t.Errorf("Blob(damaged) = %v, want ErrCorrupt", err)
	}
}

func blobIsTheCallers(t *testing.T, s Store) {
	b := []byte("mine before and after")
	ref := must.Get(s.PutBlob(t.Context(), b))(t)
	clear(b)
	for range 2 {
		got, err := s.Blob(t.Context(), ref)
		if err != nil || string(got) != "mine before and after" {
			t.Fatalf("Blob = %q, %v, want what was put", got, err)
		}
		clear(got)
	}
}

func concurrentUse(t *testing.T, s Store) {
	shared, header, body, refs := newPack(t, "shared", 50)
	mustPut(t, s, shared, header, body)
	var wg sync.WaitGroup
	for worker := range 8 {
		id, header, body, own := newPack(t, fmt.Sprint("worker", worker), 20)
		wg.Go(func() {
			same, err := s.PutBlob(t.Context(), []byte("the same bytes"))
			if err == nil {
				_, err = s.Blob(t.Context(), same)
			}
			if err == nil {
				err = s.PutPack(t.Context(), id, header, body)
			}
			for _, want := range []struct {
				id   casstore.PackID
				refs []casstore.Ref
			}{{shared, refs}, {id, own}} {
				var p *casstore.Pack
				if err == nil {
					p, err = s.Pack(t.Context(), want.id)
				}
				for i := 0; err == nil && i < len(want.refs); i++ {
					_, err = p.Encoded(want.refs[i])
				}
			}
			if err != nil {
				t.Errorf("worker %d: %v", worker, err)
			}
		})
	}
	wg.Wait()
}

func cancelledContext(t *testing.T, s Store) {
	id, header, body, _ := newPack(t, "cancelled", 1)
	mustPut(t, s, id, header, body)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Pack(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Pack(cancelled) = %v, want context.Canceled", err)
	}
	if _, err := s.PutBlob(ctx, []byte("cancelled")); !errors.Is(err, context.Canceled) {
		t.Errorf("PutBlob(cancelled) = %v, want context.Canceled", err)
	}
}

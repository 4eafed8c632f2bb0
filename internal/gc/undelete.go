package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/casstore"
)

// ErrNothing: there is no tombstone of that name whose bytes are still there.
var ErrNothing = errors.New("nothing to undelete")

// Undelete takes tombstones back whose bytes are still there, because Config.Quarantine kept them: those of the packs and blobs
// named (a pack's id, a node's or a blob's ref), and all that they lead to; with no name, every one. It says which records it
// restored. Something should refer to them soon: nothing else keeps the next cycle from condemning them again.
func (c *Collector) Undelete(ctx context.Context, names ...string) (restored []string, err error) {
	w := newWorld()
	if err := w.read(ctx, c.Records, 1); err != nil {
		return nil, err
	}
	u := undeletion{c: c, w: w, want: map[string]bool{}}
	if len(names) == 0 {
		u.all()
	}
	for _, name := range names {
		if err := u.name(ctx, name); err != nil {
			return nil, err
		}
	}
	f, err := c.Records.Fence(ctx, c.cfg.Lane)
	if err != nil {
		return nil, err
	}
	// Referents first: a crash leaves records that nothing refers to, never one that refers to a tombstone.
	for _, key := range u.order() {
		rs, err := c.Records.Records(ctx, key)
		if err != nil {
			return restored, err
		}
		value, err := c.revived(ctx, rs[0])
		if err != nil {
			return restored, fmt.Errorf("undelete %s: %w", key, err)
		}
		if _, err := c.Records.Commit(ctx, f, []record.Put{{Key: key, Value: value, Expect: rs[0].Seq}}); err != nil {
			return restored, fmt.Errorf("undelete %s: %w", key, err)
		}
		restored = append(restored, key)
	}
	if len(restored) == 0 {
		return nil, ErrNothing
	}
	return restored, nil
}

// revived is the record that was there before a tombstone, once its bytes are seen to be whole.
func (c *Collector) revived(ctx context.Context, r record.Record) ([]byte, error) {
	if !r.Exists() {
		return nil, ErrNothing
	}
	id, ok := packIDOf(r.Key)
	if !ok {
		b, err := record.DecodeBlob(r.Value)
		if err != nil {
			return nil, err
		}
		n := int64(0)
		if err := c.Bulk.ReadChunks(ctx, b.Object, 0, func(p []byte) error { n += int64(len(p)); return nil }); err != nil || n != b.Object.Size {
			return nil, fmt.Errorf("%w: %d of %d bytes: %w", ErrNothing, n, b.Object.Size, err)
		}
		b.Gone = false
		return b.Encode(), nil
	}
	p, err := record.DecodePack(r.Value)
	if err != nil {
		return nil, err
	}
	raw, err := c.Bulk.Read(ctx, p.Object)
	if err != nil || p.Header > int64(len(raw)) {
		return nil, fmt.Errorf("%w: bytes of pack %s: %w", ErrNothing, id, err)
	}
	if _, err := casstore.OpenPack(raw[:p.Header], raw[p.Header:]); err != nil {
		return nil, err
	}
	p.Gone = false
	return p.Encode(), nil
}

// undeletion collects what belongs together.
type undeletion struct {
	c    *Collector
	w    *world
	want map[string]bool
}

// gone reports whether a pack has a tombstone that can be taken back: its nodes are in no other pack, and its bytes are known.
func (u *undeletion) gone(id casstore.PackID) bool {
	p, ok := u.w.packs[id]
	_, moved := u.w.moved[id]
	return ok && p.Gone && !moved && p.Object.NUID != ""
}

func (u *undeletion) all() {
	for id := range u.w.packs {
		if u.gone(id) {
			u.want[packKey(id)] = true
		}
	}
	for sum, b := range u.w.blobs {
		if b.gone && b.token != u.w.hash("") {
			u.want[blobKey(sum)] = true
		}
	}
}

func (u *undeletion) name(ctx context.Context, name string) error {
	if id, err := casstore.ParsePackID(name); err == nil {
		if !u.gone(id) {
			return fmt.Errorf("%w: pack %s has no tombstone that says where its bytes are", ErrNothing, id)
		}
		return u.pack(ctx, id)
	}
	ref, err := casstore.ParseRef(name)
	if err != nil {
		return fmt.Errorf("undelete %q: %w, or a pack's id", name, err)
	}
	if ref.Kind() == casstore.KindBlob {
		if b, ok := u.w.blobs[ref.Sum()]; !ok || !b.gone {
			return fmt.Errorf("%w: %s has no tombstone", ErrNothing, ref)
		}
		u.want[blobKey(ref.Sum())] = true
		return nil
	}
	for id := range u.w.packs {
		if !u.gone(id) {
			continue
		}
		h, err := u.c.header(ctx, u.w.packs[id].Pack)
		if err != nil {
			continue // its bytes are gone as well
		}
		if _, ok := h.Find(ref); ok {
			return u.pack(ctx, id)
		}
	}
	return fmt.Errorf("%w: no tombstone of a pack holds %s", ErrNothing, ref)
}

// pack wants a pack and whatever it refers to that is gone.
func (u *undeletion) pack(ctx context.Context, id casstore.PackID) error {
	if !u.gone(id) || u.want[packKey(id)] {
		return nil
	}
	u.want[packKey(id)] = true
	h, err := u.c.header(ctx, u.w.packs[id].Pack)
	if err != nil {
		return fmt.Errorf("undelete pack %s: %w", id, err)
	}
	for _, l := range h.Outside() {
		if l.Ref.Kind() != casstore.KindBlob {
			if err := u.pack(ctx, l.Pack); err != nil {
				return err
			}
		} else if b, ok := u.w.blobs[l.Ref.Sum()]; ok && b.gone {
			u.want[blobKey(l.Ref.Sum())] = true
		}
	}
	return nil
}

// order lists what is wanted: blobs, then packs, oldest first.
func (u *undeletion) order() []string {
	keys := make([]string, 0, len(u.want))
	place := map[string]uint64{}
	for key := range u.want {
		keys = append(keys, key)
		if id, ok := packIDOf(key); ok {
			place[key] = u.w.packs[id].order()
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(a, b)) })
	return keys
}

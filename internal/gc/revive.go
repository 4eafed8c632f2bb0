package gc

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/casstore"
)

// write makes the records so. Referents first: a crash leaves records that nothing refers to, never one that refers to what is missing.
func (u *undeletion) write(ctx context.Context, done *Undeleted) error {
	back := map[casstore.PackID]casstore.Bits{} // what stays buried
	keys := map[string]uint64{}                 // with the sequence that was read
	for id, x := range u.open {
		p, some := u.w.packs[id], false
		left := casstore.NewBits(x.header.Len())
		for i := range x.header.Len() {
			switch {
			case x.whole.Has(i):
				some = some || p.Gone || p.IsBuried(i)
			case p.Gone || p.IsBuried(i):
				left.Set(i)
			}
		}
		if !some {
			continue
		}
		if !slices.ContainsFunc(left, func(w uint64) bool { return w != 0 }) {
			left = nil
		}
		back[id], keys[packKey(id)] = left, p.seq
		for key := range x.touch {
			if _, known := keys[key]; !known && u.fence.Stale(u.seq(key)) {
				keys[key] = u.seq(key)
			}
		}
	}
	for sum, there := range u.blobs {
		if there {
			keys[blobKey(sum)] = u.w.blobs[sum].seq
		}
	}
	place := func(key string) uint64 {
		id, _ := packIDOf(key)
		return u.w.packs[id].order()
	}
	order := slices.SortedFunc(maps.Keys(keys), func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	for some := range slices.Chunk(order, condemnBatch) {
		if err := u.writeSome(ctx, some, keys, back, done); err != nil {
			return err
		}
	}
	return nil
}

// seq is that of a record as it was read.
func (u *undeletion) seq(key string) uint64 {
	if id, ok := packIDOf(key); ok {
		return u.w.packs[id].seq
	}
	sum, _ := hex.DecodeString(key[len("blob."):])
	return u.w.blobs[[32]byte(sum)].seq
}

func (u *undeletion) writeSome(ctx context.Context, keys []string, seqs map[string]uint64,
	back map[casstore.PackID]casstore.Bits, done *Undeleted) error {
	var rs []record.Record
	err := retry.Do(ctx, nil, func() (err error) { rs, err = u.c.Records.Records(ctx, keys...); return err })
	if err != nil {
		return err
	}
	var puts []record.Put
	var restored []string
	unburied := 0
	for _, r := range rs {
		if r.Seq != seqs[r.Key] {
			return fmt.Errorf("undelete %s: %w", r.Key, record.ErrConflict)
		}
		value, gone, n, err := revive(r, back)
		if err != nil {
			return fmt.Errorf("undelete %s: %w", r.Key, err)
		}
		if unburied += n; gone {
			restored = append(restored, r.Key)
		}
		puts = append(puts, record.Put{Key: r.Key, Value: value, Expect: r.Seq})
	}
	if err := u.c.At(StepUndelete); err != nil {
		return err
	}
	if _, err := u.c.Records.Commit(ctx, u.fence, puts); err != nil {
		return fmt.Errorf("undelete: %w", err)
	}
	done.Restored, done.Unburied = append(done.Restored, restored...), done.Unburied+unburied
	return nil
}

// revive is a record as it is to be: back, with what stays buried, or touched.
func revive(r record.Record, back map[casstore.PackID]casstore.Bits) (value []byte, gone bool, unburied int, err error) {
	id, ok := packIDOf(r.Key)
	if !ok {
		b, err := record.DecodeBlob(r.Value)
		gone, b.Gone = b.Gone, false
		return b.Encode(), gone, 0, err
	}
	p, err := record.DecodePack(r.Value)
	p.Order = cmp.Or(p.Order, r.Seq)
	if left, ok := back[id]; ok {
		for i := range p.Nodes {
			if was := p.IsBuried(i); !p.Gone && was && (left == nil || !left.Has(i)) {
				unburied++
			}
		}
		gone, p.Gone, p.Buried = p.Gone, false, left
	}
	return p.Encode(), gone, unburied, err
}

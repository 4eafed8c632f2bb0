package record_test

import (
	"context"
	"errors"
	"testing"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// bucket is records in memory, which change after a number of them was asked for: so they do while requests are under way.
type bucket struct {
	now    map[string][]byte
	asked  int
	change map[int]func()
}

func (b *bucket) read(_ context.Context, keys ...string) ([]record.Record, error) {
	out := make([]record.Record, len(keys))
	for i := len(keys) - 1; i >= 0; i-- { // the last one is answered first
		if f := b.change[b.asked]; f != nil {
			f()
		}
		b.asked++
		out[i] = record.Record{Key: keys[i], Value: b.now[keys[i]]}
		if len(out[i].Value) > 0 {
			out[i].Seq = 1
		}
	}
	return out, nil
}

func (b *bucket) put(id casstore.PackID, p record.Pack) {
	b.now[events.PackKey(id.String())] = p.Encode()
}

func (b *bucket) move(from, to casstore.PackID) {
	b.now[events.MovedKey(from.String())] = record.Moved{To: to}.Encode()
}

func TestFindPack(t *testing.T) {
	one, two, three := casstore.PackID{1}, casstore.PackID{2}, casstore.PackID{3}
	for name, c := range map[string]struct {
		set  func(b *bucket)
		want casstore.PackID
		err  error
	}{
		"it is there":   {func(b *bucket) { b.put(one, record.Pack{Nodes: 1}) }, one, nil},
		"it never was":  {func(*bucket) {}, one, casstore.ErrNotFound},
		"it is garbage": {func(b *bucket) { b.put(one, record.Pack{Gone: true}) }, one, casstore.ErrGone},
		"it moved": {func(b *bucket) {
			b.put(one, record.Pack{Gone: true})
			b.move(one, two)
			b.put(two,
				record.Pack{})
		}, two, nil},
		"it was forgotten":             {func(b *bucket) { b.move(one, two); b.put(two, record.Pack{}) }, two, nil},
		"it moved twice":               {func(b *bucket) { b.move(one, two); b.move(two, three); b.put(three, record.Pack{}) }, three, nil},
		"it came back":                 {func(b *bucket) { b.put(one, record.Pack{}); b.move(one, two); b.put(two, record.Pack{}) }, two, nil},
		"where it moved to is garbage": {func(b *bucket) { b.move(one, two); b.put(two, record.Pack{Gone: true}) }, two, casstore.ErrGone},
		"it moved a hundred times": {func(b *bucket) {
			for i := byte(0); i < 100; i++ {
				b.move(casstore.PackID{1, i}, casstore.PackID{1, i + 1})
			}
			b.put(casstore.PackID{1, 100}, record.Pack{})
		}, casstore.PackID{1, 100}, nil},
		"a circle":          {func(b *bucket) { b.move(one, two); b.move(two, one) }, one, casstore.ErrCorrupt},
		"another version's": {func(b *bucket) { b.now[events.PackKey(one.String())] = []byte{0x91, 0x7f} }, one, record.ErrValue},
		"it moves between two answers": {func(b *bucket) {
			b.put(one, record.Pack{})
			b.change[1] = func() { b.put(one, record.Pack{Gone: true}); b.move(one, two); b.put(two, record.Pack{}) }
		}, two, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bucket{now: map[string][]byte{}, change: map[int]func(){}}
			c.set(b)
			got, err := record.FindPack(t.Context(), b.read, one)
			if got.ID != c.want || !errors.Is(err, c.err) {
				t.Errorf("FindPack = %v, %v, want %v, %v", got.ID, err, c.want, c.err)
			}
			if lost := errors.Is(c.err, casstore.ErrGone) || errors.Is(c.err, casstore.ErrNotFound); record.IsGone(err) != lost {
				t.Errorf("IsGone(%v) = %v", err, !lost)
			}
		})
	}
}

package gc

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spool/pkg/casstore"
)

// TestHeads: what was told of threads is, whenever it is looked at and whatever is forgotten meanwhile, the last of each and, of those that
// were there since the first reading ended, every one.
func TestHeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hs, late, seq := newHeads(), false, uint64(0)
		last, past := map[string]uint64{}, []uint64{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "thread")
			if late = late || rapid.IntRange(0, 20).Draw(t, "late") == 0; late && last[name] > 0 {
				past = append(past, last[name])
			}
			var h *head
			delete(last, name)
			if seq++; rapid.IntRange(0, 3).Draw(t, "removed") > 0 {
				last[name] = seq
				h = &head{seq: seq, counts: counts{int64(seq), -1, 1 << 40}}
				for at := range rapid.IntRange(0, 3).Draw(t, "roots") {
					h.roots = append(h.roots, located(seq, at))
				}
				h.hints = h.roots[:len(h.roots)/2]
			}
			switch hs.put(name, h, late); rapid.IntRange(0, 9).Draw(t, "look") {
			case 0:
				hs.settle()
			case 1:
				hs.settle()
				hs.compact()
			}
		}
		var now, was []uint64
		err := hs.each(rapid.Bool().Draw(t, "spend"), func(h *head, c colour) error {
			if c == firm {
				now = append(now, h.seq)
			} else {
				was = append(was, h.seq)
			}
			for at, l := range h.roots {
				if l != located(h.seq, at) || at < len(h.hints) && h.hints[at] != l {
					return fmt.Errorf("root %d of %d is %s", at, h.seq, l)
				}
			}
			if len(h.hints) != len(h.roots)/2 || h.entries != int64(h.seq) || h.items != -1 || h.bytes != 1<<40 {
				return fmt.Errorf("head %d: %+v", h.seq, h)
			}
			return nil
		})
		var want []uint64
		entries := int64(0)
		for _, seq := range last {
			want, entries = append(want, seq), entries+int64(seq)
		}
		for _, list := range [][]uint64{now, was, want, past} {
			slices.Sort(list)
		}
		if err != nil || !slices.Equal(now, want) || !slices.Equal(was, past) || hs.n != len(want) || hs.entries != entries {
			t.Fatalf("%v: heads %v, want %v; past %v, want %v; %d threads, %d entries", err, now, want, was, past, hs.n, hs.entries)
		}
	})
}

func located(seq uint64, at int) casstore.Located {
	return casstore.Located{Ref: casstore.SumNode(fmt.Append(nil, seq, at)), Pack: packID(int(seq) % 3)}
}

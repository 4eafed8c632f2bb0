package fsck

import (
	"fmt"
	"testing"

	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// An item that comes again late, from a persister that slept while another one went on, leaves no gap behind it.
func TestLateItem(t *testing.T) {
	for name, numbers := range map[string][]int64{
		"one":    {1, 2, 3, 4, 5, 2, 6},
		"some":   {1, 2, 3, 4, 5, 2, 3, 6, 7},
		"caught": {1, 2, 3, 2, 3, 4},
	} {
		h := &held{}
		for _, n := range numbers {
			h.take(n, fmt.Appendf(nil, `{"n":%d}`, n), false)
		}
		if last := numbers[len(numbers)-1]; len(h.missing) > 0 || h.last != last {
			t.Errorf("%s: %v are missing, the last is %d, want none and %d", name, h.missing, h.last, last)
		}
	}
	h := &held{}
	for _, n := range []int64{1, 2, 5, 2, 6} {
		h.take(n, nil, false)
	}
	if len(h.missing) != 2 {
		t.Errorf("%v are missing, want 3 and 4", h.missing)
	}
}

// Two that repeat what is there, one behind the other, and the last word is theirs: nothing is missing.
func TestTwoRepeat(t *testing.T) {
	at := func(n int64) casstore.Ref { return casstore.SumNode(fmt.Append(nil, n)) }
	c := &checker{states: map[casstore.Ref]*state{}}
	for n := int64(1); n <= 8; n++ {
		c.states[at(n)] = &state{parent: at(n - 1)}
	}
	h := &head{Head: threads.Head{N: 8, Recent: []casstore.Located{{Ref: at(8)}}}}
	it := &held{}
	for _, n := range []int64{1, 2, 3, 4, 5, 6, 7, 8, 2, 3, 6, 7, 8} {
		it.take(n, fmt.Appendf(nil, `{"n":%d,"node":%q}`, n, at(n)), false)
	}
	if wrong, err := c.itemsOf(t.Context(), h, it); wrong != itemsGood || err != nil || it.last != 8 {
		t.Errorf("itemsOf = %d, %v, want nothing wrong; %v are missing up to %d", wrong, err, it.missing, it.last)
	}
}

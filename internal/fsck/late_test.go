package fsck

import (
	"fmt"
	"testing"
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

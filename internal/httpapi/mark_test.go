package httpapi

import "spool/internal/must"

import "testing"

// A reader leaves out what it has, and what comes late of a thread that had the name before.
func TestMarkCovers(t *testing.T) {
	for _, c := range []struct {
		had, item mark
		want      bool
	}{
		{mark{}, mark{n: 1}, false},
		{mark{}, mark{1, 7}, false},
		{mark{n: 2}, mark{n: 2}, true},
		{mark{n: 2}, mark{n: 3}, false},
		{mark{n: 2}, mark{1, 7}, false},
		{mark{2, 7}, mark{3, 7}, false},
		{mark{2, 7}, mark{2, 7}, true},
		{mark{2, 7}, mark{n: 3}, true},
		{mark{2, 7}, mark{1, 9}, false},
		{mark{2, 9}, mark{5, 7}, true},
	} {
		must.Same(t, c.had.covers(c.item), c.want, "%v covers %v = %v, want %v", c.had, c.item)
	}
}

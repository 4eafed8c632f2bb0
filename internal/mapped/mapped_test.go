package mapped

import (
	"strconv"
	"strings"
	"testing"

	"spool/internal/must"
)

func TestList(t *testing.T) {
	must.Same(t, strings.Join(List([]int{2, 1, 1}, strconv.Itoa), " "), "2 1 1", "List = %q, want %q")
	must.Same(t, List([]int(nil), strconv.Itoa) != nil, true, "List of nothing is a list: %v, want %v")
}

package client

import (
	"fmt"
	"testing"

	"spool/internal/must"
)

// Forks of forks have something of a session too; a circle of parents, which only a broken record makes, ends.
func TestDescendants(t *testing.T) {
	parents := map[string]string{"a": "", "b": "a", "c": "b", "d": "c", "e": "x", "x": "e", "self": "self", "other": ""}
	all := func(yield func(id, parent string)) {
		for id, parent := range parents {
			yield(id, parent)
		}
	}
	for of, want := range map[string]string{"a": "[b c d]", "c": "[d]", "d": "[]", "e": "[x]", "self": "[]"} {
		must.Same(t, fmt.Sprint(descendants(of, all)), want, "descendants(%s) = %s, want %s", of)
	}
}

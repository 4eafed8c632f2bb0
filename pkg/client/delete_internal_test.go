package client

import (
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/sessions"
)

// Forks of forks may have something of a session too; a circle of parents, which only a broken record makes, ends.
func TestDescendants(t *testing.T) {
	infos := map[string]sessions.Info{
		"a": {}, "b": {Parent: "a"}, "c": {Parent: "b"}, "d": {Parent: "c"}, "e": {Parent: "x"}, "x": {Parent: "e"},
		"self": {Parent: "self"}, "other": {}, "heir": {Origins: "gone a"}, "late": {Parent: "heir", Origins: "other"},
	}
	for of, want := range map[string]string{
		"a": "[b c d heir late]", "c": "[d]", "d": "[]", "e": "[x]", "self": "[]", "gone": "[heir late]", "other": "[late]",
	} {
		must.Same(t, fmt.Sprint(descendants(of, infos)), want, "descendants(%s) = %s, want %s", of)
	}
}

package main

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/sessions"
)

// In a terminal no line of a tree is wider than it, and the marks of an entry are there.
func TestTreeFits(t *testing.T) {
	file := must.Get(sessions.Load([]byte(`{"type":"session","version":3,"id":"s","timestamp":"2026-11-20T10:00:00Z","cwd":"/"}
{"type":"message","id":"aaaa","parentId":null,"timestamp":"2026-11-20T10:00:01Z","message":{"role":"user","content":"` + strings.Repeat("果樹園 ", 20) + `"}}
`)))(t)
	for _, columns := range []int{40, 0} {
		var b strings.Builder
		tree := &client.Tree{Tree: file.Tree()}
		drawChain(&b, columns, tree, tree.Roots()[0], "├─ ", "")
		line := strings.TrimSuffix(b.String(), "\n")
		if !strings.HasPrefix(line, "├─ aaaa  user: 果樹園 ") || !strings.HasSuffix(line, "  <- leaf") || (text.Width(line) > 40) != (columns == 0) {
			t.Errorf("%d columns: a tree has the line %q", columns, line)
		}
	}
}

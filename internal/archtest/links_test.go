package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spool/internal/must"
)

var (
	linkText = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	unmarked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names that a page's headings have.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(unmarked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// TestLinks: what a document leads to in this repository is there, with its heading.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "deploy/*/*.md", "examples/*/*.md", "adapters/*/*.md"} {
		pages = append(pages, must.Get(filepath.Glob(filepath.Join(root, pattern)))(t)...)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages: have they moved?", len(pages))
	}
	read := func(path string) string { return fenced.ReplaceAllString(string(must.Get(os.ReadFile(path))(t)), "") }
	for _, page := range pages {
		for _, m := range linkText.FindAllStringSubmatch(read(page), -1) {
			to, anchor, named := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			path := page
			if to != "" {
				path = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s leads to %s, which is not there", page, m[1])
			} else if named && !anchors(read(path))[anchor] {
				t.Errorf("%s leads to %s, and there is no such heading", page, m[1])
			}
		}
	}
}

package redact_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/redact"
)

var update = flag.Bool("update", false, "write the tables of docs/secrets.md")

// TestDocument: docs/secrets.md has the table of the rules and the list of the kinds that the tests try.
func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "secrets.md")
	old := must.Get(os.ReadFile(path))(t)
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = strings.TrimSpace(k.name)
	}
	slices.Sort(names)
	for mark, text := range map[string]string{
		"rules": redact.Default().Table(), "kinds": fmt.Sprintf("%d kinds: %s.\n", len(names), strings.Join(names,
			", ")),
	} {
		begin, end := []byte("<!-- "+mark+": begin -->\n"), []byte("<!-- "+mark+": end -->\n")
		from, to := bytes.Index(old, begin), bytes.Index(old, end)
		if from < 0 || to < from {
			t.Fatalf("%s has no place for %s", path, mark)
		}
		if got := string(old[from+len(begin) : to]); got != text && !*update {
			t.Errorf("%s has other %s than the code; go test ./internal/redact -run TestDocument -update writes them",
				path, mark)
		}
		old = slices.Concat(old[:from+len(begin)], []byte(text), old[to:])
	}
	if *update {
		must.Do(t, os.WriteFile(path, old, 0o600))
	}
}

// TestEveryRuleHasAKind: each rule finds one of the kinds.
func TestEveryRuleHasAKind(t *testing.T) {
	found := map[string]bool{}
	name := regexp.MustCompile(`\[redacted:([a-z0-9-]+)\]`)
	for i, k := range kinds {
		g := &maker{rand.New(rand.NewPCG(11, uint64(i)))}
		for _, place := range k.places {
			got, _ := mask().Clean(fmt.Appendf(nil, place, k.make(g)), false)
			for _, m := range name.FindAllSubmatch(got, -1) {
				found[string(m[1])] = true
			}
		}
	}
	for _, id := range redact.Default().IDs() {
		if !found[id] {
			t.Errorf("rule %s finds no kind", id)
		}
	}
}

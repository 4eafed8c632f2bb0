package faulttest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"spool/internal/must"
	"strings"
	"testing"
)

// TestFaultsDocument: every row of docs/faults.md names its tests as `folder`: TestA, TestB; and each of them exists there.
func TestFaultsDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/faults.md"))(t)
	token := regexp.MustCompile("`([a-z0-9/_]+)`|((?:Test|Fuzz)[A-Za-z0-9_]+)")
	tests := map[string]map[string]bool{}
	rows := 0
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| fault |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			t.Errorf("line %d has %d columns, want 4: fault, injected how, promise, checked by", i+1, len(cells))
			continue
		}
		folder, named := "", false
		for _, m := range token.FindAllStringSubmatch(cells[3], -1) {
			if m[1] != "" {
				folder = m[1]
				continue
			}
			named = true
			if tests[folder] == nil {
				tests[folder] = testsOf(t, folder)
			}
			if !tests[folder][m[2]] {
				t.Errorf("line %d: folder %q has no test %s", i+1, folder, m[2])
			}
		}
		if !named {
			t.Errorf("line %d names no test: %s", i+1, cells[0])
		}
	}
	if rows == 0 {
		t.Error("no rows were found")
	}
}

func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files := must.Get(filepath.Glob(filepath.Join("../..", folder, "*_test.go")))(t)
	for _, f := range files {
		text := must.Get(os.ReadFile(f))(t)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}

package text_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/text"
)

// Columns begin at the same place of the screen, whatever is in them.
func TestTable(t *testing.T) {
	var out strings.Builder
	table := text.NewTable(&out)
	fmt.Fprintln(table, "NAME\tAGE\tREST")
	for _, name := range []string{"plum", "果樹園の木", "작은 나무", "👩‍🌾 x", "é", ""} {
		fmt.Fprintf(table, "%s\t1\tend\n", name)
	}
	fmt.Fprintln(table, "a line without columns may be as long as it likes")
	must.Do(t, table.Flush())
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		mark := strings.LastIndexAny(line, "1")
		if i == 0 {
			mark = strings.Index(line, "AGE")
		}
		if mark < 0 {
			continue
		}
		if got := text.Width(line[:mark]); got != len("果樹園の木")/3*2+2 {
			t.Errorf("line %q: the second column begins at %d, want 12", line, got)
		}
	}
	first := out.String()
	fmt.Fprint(table, "a\tb")
	if err := table.Flush(); err != nil || out.String() != first+"a  b" {
		t.Errorf("a second table = %q, %v, want %q", out.String()[len(first):], err, "a  b")
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"plum", 6, "plum  "}, {"plum", 4, "plum"}, {"plum tree", 5, "plum…"}, {"果樹園", 5, "果樹…"}, {"果樹園", 4, "果… "}, {"果", 1, "…"}, {"x", 0, ""}} {
		must.Same(t, text.Fit(tt.in, tt.n), tt.want, "Fit(%q, %d) = %q, want %q", tt.in, tt.n)
	}
}

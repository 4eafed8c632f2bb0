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

// fitted is a table in a terminal of so many columns.
func fitted(t *testing.T, columns int, lines string) string {
	t.Helper()
	var out strings.Builder
	table := text.NewTable(&out)
	table.Columns = columns
	fmt.Fprint(table, lines)
	must.Do(t, table.Flush())
	return out.String()
}

// The first cell is whole as long as there is room for the others beside it.
func TestTableKeepsTheFirst(t *testing.T) {
	for columns, want := range map[int]string{
		36: "019aa0c4-5be0-7c31  codex  What the…\n",
		25: "019aa0c…  codex  What th…\n",
	} {
		got := fitted(t, columns, "019aa0c4-5be0-7c31\tcodex\tWhat the labels say\n")
		must.Same(t, got, want, "table in "+fmt.Sprint(columns)+" columns = %q, want %q")
	}
}

// The lines with the most cells fit into the terminal: the widest cells are cut, and no others.
func TestTableFits(t *testing.T) {
	const whole = "summary of all that is here\nNAME    AGE  WHAT\nplum    1    a tree by the south wall\nquince  22   果樹園の木の下\n"
	for columns, want := range map[int]string{
		0:  whole,
		80: whole,
		26: "summary of all that is here\nNAME    AGE  WHAT\nplum    1    a tree by th…\nquince  22   果樹園の木の…\n",
		3:  "summary of all that is here\nNAME    AGE  WHAT\nplum    1    a tree …\nquince  22   果樹園…\n",
	} {
		got := fitted(t, columns, "summary of all that is here\nNAME\tAGE\tWHAT\nplum\t1\ta tree by the south wall\nquince\t22\t果樹園の木の下\n")
		must.Same(t, got, want, "table in "+fmt.Sprint(columns)+" columns = %q, want %q")
	}
}

// What is an id is never cut, at any width, and a column is as wide as its widest one; cells around it are.
func TestTableCutsNoID(t *testing.T) {
	ids := map[string]string{"art_20261120_090916_19AQ1AYPAVM3ZN4E": "art_20261120_09", "second-try-of-the-orchard": "second-try-of-the-orchard"}
	for columns := 10; columns < 160; columns++ {
		var out strings.Builder
		table := text.NewTable(&out)
		table.Columns = columns
		table.Short = func(cell string) (string, bool) { form, id := ids[cell]; return form, id }
		fmt.Fprint(table, "ARTIFACT\tSESSION\tTYPE\tNAME\n")
		for _, name := range []string{"make.log", strings.Repeat("a long name ", 20)} {
			fmt.Fprintf(table, "art_20261120_090916_19AQ1AYPAVM3ZN4E\tsecond-try-of-the-orchard\ttext/plain and more\t%s\n", name)
		}
		must.Do(t, table.Flush())
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
			if fields := strings.Fields(line); !strings.HasPrefix(fields[0], "art_20261120_09") || strings.Contains(fields[0], "…") ||
				fields[1] != "second-try-of-the-orchard" {
				t.Errorf("%d columns: %q cuts an id", columns, line)
			}
			if w := text.Width(line); columns >= 64 && w > columns {
				t.Errorf("line %d has %d columns, want %d at most: %q", i, w, columns, line)
			}
		}
	}
}

// Lines without columns are whole also where there are no others.
func TestTableWithoutColumns(t *testing.T) {
	must.Same(t, fitted(t, 80, "nothing is here yet\n"), "nothing is here yet\n", "table = %q, want %q")
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

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{
		{"one two three", 7, "one two|three"}, {"one two three", 0, "one two three"}, {"  one two", 6, "  one|  two"}, {"abcdefgh", 3, "abc|def|gh"},
		{"梨の木を切りますか", 6, "梨の木|を切り|ますか"}, {"", 5, ""}, {"a 0123456789", 5, "a|01234|56789"}, {"      x y", 4, "    |x y"},
	} {
		if got := strings.Join(text.Wrap(c.line, c.columns), "|"); got != c.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

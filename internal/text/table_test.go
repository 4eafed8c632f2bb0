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
		fmt.Fprintf(table, "%s\t1d\tend\n", name)
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
		must.Same(t, text.Width(line[:mark]), len("果樹園の木")/3*2+2, "line %q: the second column begins at %d, want %d", line)
	}
	first := out.String()
	fmt.Fprint(table, "a\tb")
	if err := table.Flush(); err != nil || out.String() != first+"a  b" {
		t.Errorf("a second table = %q, %v, want %q", out.String()[len(first):], err, "a  b")
	}
}

// Numbers end at the same column, and so does what stands above them; what names a line, and a column with a word in it, begin at one.
func TestTableOfNumbers(t *testing.T) {
	must.Same(t, fitted(t, 80, "all that is here\nNAME\tENTRIES\tSIZE\tAGE\tITEMS\tFAILED\n7\t9\t512 B\t8d\t-\t1.5 %\n"+
		"12\t1,019\t949.6 KiB\t9d\t1.1M\t12 %\nall\t\t1 MiB\t\t-3\t\n"), `all that is here
NAME  ENTRIES       SIZE  AGE  ITEMS  FAILED
7           9      512 B  8d       -   1.5 %
12      1,019  949.6 KiB  9d    1.1M    12 %
all                1 MiB          -3
`, "table = %q, want %q")
	must.Same(t, fitted(t, 80, "ok\tevents\t7 messages\nok\tgc\t1\nok\tdead\t22\n"),
		"ok  events  7 messages\nok  gc               1\nok  dead            22\n",
		"table = %q, want %q")
}

// A rest in words goes on below itself between them; a word without room is left to the terminal.
func TestTableWraps(t *testing.T) {
	for columns, want := range map[int]string{
		0:  "ok  events  7 of them wait for a persister\nok  gc      none yet\n",
		30: "ok  events  7 of them wait for\n            a persister\nok  gc      none yet\n",
		20: "ok  events  7 of them wait for a persister\nok  gc      none yet\n",
	} {
		var out strings.Builder
		table := text.NewTable(&out)
		table.Columns, table.Wrap = columns, true
		fmt.Fprint(table, "ok\tevents\t7 of them wait for a persister\nok\tgc\tnone yet\n")
		must.Do(t, table.Flush())
		must.Same(t, out.String(), want, "table = %q, want %q")
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
	const whole = "summary of all that is here\nNAME    AGE  WHAT\nplum    1d   a tree by the south wall\nquince  22d  果樹園の木の下\n"
	for columns, want := range map[int]string{
		0:  whole,
		80: whole,
		26: "summary of all that is here\nNAME    AGE  WHAT\nplum    1d   a tree by th…\nquince  22d  果樹園の木の…\n",
		3:  "summary of all that is here\nNAME    AGE  WHAT\nplum    1d   a tree …\nquince  22d  果樹園…\n",
	} {
		got := fitted(t, columns, "summary of all that is here\nNAME\tAGE\tWHAT\nplum\t1d\ta tree by the south wall\nquince\t22d\t果樹園の木の下\n")
		must.Same(t, got, want, "table in "+fmt.Sprint(columns)+" columns = %q, want %q")
	}
}

// What is an id is never cut, at any width, and a column is as wide as its widest one; cells around it are.
func TestTableCutsNoID(t *testing.T) {
	ids := map[string]string{"art_20261120_090916_19AQ1AYPAVM3ZN4E": "art_20261120_09",
		"second-try-of-the-orchard": "second-try-of-the-orchard"}
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
	}{{"plum", 6, "plum  "}, {"plum", 4, "plum"}, {"plum tree", 5, "plum…"}, {"果樹園", 5, "果樹…"}, {"果樹園", 4, "果… "},
		{"果", 1, "…"}, {"x", 0, ""}} {
		must.Same(t, text.Fit(tt.in, tt.n), tt.want, "Fit(%q, %d) = %q, want %q", tt.in, tt.n)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{
		{"one two three", 7, "one two|three"}, {"one two three", 0, "one two three"}, {"  one two", 6, "  one|  two"},
		{"abcdefgh", 3, "abc|def|gh"},
		{"梨の木を切りますか", 6, "梨の木|を切り|ますか"}, {"", 5, ""}, {"a 0123456789", 5, "a|01234|56789"}, {"      x y", 4, "    |x y"},
	} {
		must.Same(t, strings.Join(text.Wrap(c.line, c.columns), "|"), c.want, "Wrap(%q, %d) = %q, want %q", c.line, c.columns)
	}
}

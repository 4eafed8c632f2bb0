package text

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Width is how many columns of a terminal a text takes: two for a character of Chinese, Japanese or Korean and for most
// emoji, none for a combining one. The text has no control characters.
func Width(s string) int { return displaywidth.String(s) }

// Fit is the text in exactly so many columns: filled with spaces, or cut with an ellipsis.
func Fit(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	s = Cut(s, columns)
	return s + strings.Repeat(" ", columns-Width(s))
}

// Cut is the text in at most so many columns; an ellipsis stands for what is gone.
func Cut(s string, columns int) string { return displaywidth.TruncateString(s, max(columns, 0), "…") }

// gap is between the columns of a table.
const gap = 2

// Table aligns the columns of what is written to it by their width on a terminal. A line is cells that end with a tab, and
// a rest that is not part of a column. It holds everything until Flush.
type Table struct {
	Columns int // of the terminal, in which the lines with the most cells are to fit: their widest cells are cut; 0 = nothing is

	// Short is a cell as it may stand where the lines are too long otherwise; such a form is never cut. nil = none has one.
	Short func(cell string) string

	out  io.Writer
	text bytes.Buffer
}

// NewTable makes a table that is written to out.
func NewTable(out io.Writer) *Table { return &Table{out: out} }

// Write takes a part of the table; it never fails.
func (t *Table) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush writes the table, and begins a new one.
func (t *Table) Flush() error {
	lines := strings.SplitAfter(t.text.String(), "\n")
	t.text.Reset()
	widths, rest := measure(lines)
	whole := map[string]bool{} // cells that are not cut
	if t.Short != nil && t.Columns > 0 && sum(widths)+gap*len(widths)+min(rest, roomy) > t.Columns {
		t.shorten(lines, whole)
		widths, rest = measure(lines)
	}
	first, most := t.most(append(slices.Clone(widths), rest))
	for _, line := range lines {
		all, last := cells(line), lastCell(line)
		if len(all) == len(widths) && len(all) > 0 {
			last = Cut(last, most)
		}
		for i, cell := range all {
			most := most
			if i == 0 {
				most = first
			}
			if !whole[cell] {
				cell = Cut(cell, most)
			}
			t.text.WriteString(cell)
			for range min(widths[i], most) - Width(cell) + gap {
				t.text.WriteByte(' ')
			}
		}
		t.text.WriteString(last)
		if strings.HasSuffix(line, "\n") {
			t.text.WriteByte('\n')
		}
	}
	_, err := t.text.WriteTo(t.out)
	t.text.Reset()
	return err
}

// measure is how wide the columns are, and the rest of the lines with the most cells.
func measure(lines []string) (widths []int, rest int) {
	for _, line := range lines {
		for i, cell := range cells(line) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	for _, line := range lines {
		if strings.Count(line, "\t") == len(widths) {
			rest = max(rest, Width(lastCell(line)))
		}
	}
	return widths, rest
}

// roomy is how much of the rest of its lines a table wants to show before it takes short forms.
const roomy = 20

// shorten puts short forms into lines, and into short.
func (t *Table) shorten(lines []string, short map[string]bool) {
	for i, line := range lines {
		all := cells(line)
		for k, cell := range all {
			if s := t.Short(cell); s != cell {
				all[k], short[s] = s, true
			}
		}
		lines[i] = strings.Join(append(all, line[strings.LastIndexByte(line, '\t')+1:]), "\t")
	}
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}

// narrowest is the least to which a cell is cut: where that is not enough, lines are longer than the terminal.
const narrowest = 8

// most is how wide the first cell, and each other one, may be so that lines of cells of these widths fit. The first one names what the
// line is about: it is cut only where the others would not fit beside it.
func (t *Table) most(widths []int) (first, others int) {
	if t.Columns <= 0 {
		first = slices.Max(widths)
		return first, first
	}
	room := t.Columns - gap*(len(widths)-1)
	if others = widest(widths[1:], room-widths[0]); others > 0 {
		return widths[0], others
	}
	first = max(widest(widths, room), narrowest)
	return first, first
}

// widest is how wide cells of these widths may be in a room; 0: it would be less than narrowest.
func widest(widths []int, room int) int {
	most := narrowest
	for _, w := range widths {
		most = max(most, w)
	}
	for ; most >= narrowest; most-- {
		taken := 0
		for _, w := range widths {
			taken += min(w, most)
		}
		if taken <= room {
			return most
		}
	}
	return 0
}

// lastCell is the rest of a line.
func lastCell(line string) string {
	return strings.TrimSuffix(line[strings.LastIndexByte(line, '\t')+1:], "\n")
}

// cells are those that end with a tab.
func cells(line string) []string {
	all := strings.Split(line, "\t")
	return all[:len(all)-1]
}

package text

import (
	"bytes"
	"io"
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
	var widths []int
	for _, line := range lines {
		for i, cell := range cells(line) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	for _, line := range lines {
		for i, cell := range cells(line) {
			t.text.WriteString(cell)
			for range widths[i] - Width(cell) + gap {
				t.text.WriteByte(' ')
			}
		}
		t.text.WriteString(line[strings.LastIndexByte(line, '\t')+1:])
	}
	_, err := t.text.WriteTo(t.out)
	t.text.Reset()
	return err
}

// cells are those that end with a tab.
func cells(line string) []string {
	all := strings.Split(line, "\t")
	return all[:len(all)-1]
}

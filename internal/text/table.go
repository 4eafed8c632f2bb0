package text

import (
	"bytes"
	"io"
	"regexp"
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

// Right is Fit with the spaces before the text.
func Right(s string, columns int) string {
	s = Cut(s, columns)
	return strings.Repeat(" ", max(columns-Width(s), 0)) + s
}

// Cut is the text in at most so many columns; an ellipsis stands for what is gone.
func Cut(s string, columns int) string { return displaywidth.TruncateString(s, max(columns, 0), "…") }

// gap is between the columns of a table.
const gap = 2

// Table aligns the columns of what is written to it by their width on a terminal: to the left, and to the right where all but the first
// line has numbers. A line is cells that end with a tab, and a rest that is a column only among the lines with the most cells. It holds
// everything until Flush.
type Table struct {
	Columns int // of the terminal, in which the lines with the most cells are to fit: their widest cells are cut; 0 = nothing is

	Wrap bool // the rest of a line that has no room goes on below itself, and nothing is cut

	// Short is an id as it may stand where the lines are too long otherwise; neither it nor that form is cut. false: the cell is no id,
	// or one that nobody knows. nil = none is.
	Short func(cell string) (form string, id bool)

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
	ids := make([]int, len(widths)) // the widest id of each column
	if taken := sum(widths) + gap*len(widths); t.Short != nil && t.Columns > 0 && taken+rest > t.Columns {
		ids = t.shorten(lines, len(widths), taken+min(rest, roomy) > t.Columns)
		widths, rest = measure(lines)
	}
	room, right := t.fit(append(slices.Clone(widths), rest), append(ids, 0)), ofNumbers(lines, len(widths))
	for _, line := range lines {
		var out strings.Builder
		all, last := cells(line), lastCell(line)
		for i, cell := range all {
			out.WriteString(align(cell, room[i], right[i]) + "  ")
		}
		if len(all) == len(widths) && len(all) > 0 {
			last = align(last, room[len(all)], right[len(all)])
		}
		if len(all) > 0 {
			last = t.wrapped(strings.TrimRight(last, " "), sum(room[:len(all)])+gap*len(all))
			last = strings.TrimRight(out.String()+last, " ")
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

// number is a figure as it stands in a table: 1,772, 0.25, 46M, 536.1 KiB, 12.5 %.
var number = regexp.MustCompile(`^[+-]?[0-9]+(,[0-9]{3})*(\.[0-9]+)?( ?[kKMGTP]?i?B?| %)$`)

// wrapped is the rest of a line that begins so far in. A word that has no room, as a digest, is left to the terminal: it is copied whole.
func (t *Table) wrapped(rest string, in int) string {
	large := func(word string) bool { return Width(word) > t.Columns-in }
	if !t.Wrap || t.Columns <= 0 || slices.ContainsFunc(strings.Fields(rest), large) {
		return rest
	}
	return strings.Join(Wrap(rest, t.Columns-in), "\n"+strings.Repeat(" ", in))
}

// ofNumbers says which columns, and whether the rest of the lines with the most cells, have numbers below their first
// line, or nothing ("-"). The first column never has: it names what its line is about.
func ofNumbers(lines []string, columns int) []bool {
	some, other := make([]bool, columns+1), make([]bool, columns+1)
	header := true
	for _, line := range lines {
		all := cells(line)
		if len(all) == columns {
			all = append(all, lastCell(line))
		}
		if len(all) < 2 {
			continue
		}
		for i, cell := range all[1:] {
			is := number.MatchString(cell)
			some[i+1] = some[i+1] || is
			other[i+1] = other[i+1] || !header && !is && cell != "" && cell != "-"
		}
		header = false
	}
	for i := range some {
		some[i] = some[i] && !other[i]
	}
	return some
}

// align is a cell in so many columns.
func align(cell string, columns int, right bool) string {
	if right {
		return Right(cell, columns)
	}
	return Fit(cell, columns)
}

// roomy is how much of the rest of its lines a table wants to show before it takes short forms.
const roomy = 20

// shorten puts the forms of ids into lines, if it must, and gives the widest of each column.
func (t *Table) shorten(lines []string, columns int, must bool) (widest []int) {
	widest = make([]int, columns)
	for i, line := range lines {
		all := cells(line)
		for k, cell := range all {
			form, id := t.Short(cell)
			if must && id {
				all[k] = form
			}
			if id {
				widest[k] = max(widest[k], Width(all[k]))
			}
		}
		lines[i] = strings.Join(append(all, line[strings.LastIndexByte(line, '\t')+1:]), "\t")
	}
	return widest
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}

// narrowest is the least to which a cell is cut: where that is not enough, lines are longer than the terminal.
const narrowest = 8

// fit is how wide each cell may be so that lines of cells of these widths fit, if none is narrower than the ids in it. The first one names
// what the line is about: it is cut only where the others would not fit beside it.
func (t *Table) fit(widths, ids []int) []int {
	if t.Columns <= 0 || t.Wrap {
		return widths
	}
	room := t.Columns - gap*(len(widths)-1)
	first := widths[0]
	most := widest(widths[1:], ids[1:], room-first)
	if most == 0 {
		most = max(widest(widths, ids, room), narrowest)
		first = min(first, most)
	}
	for i, w := range widths {
		widths[i] = max(min(w, most), ids[i])
	}
	widths[0] = max(first, ids[0])
	return widths
}

// widest is how wide cells of these widths may be in a room, beside ids; 0: it would be less than narrowest.
func widest(widths, ids []int, room int) int {
	most := narrowest
	for _, w := range widths {
		most = max(most, w)
	}
	for ; most >= narrowest; most-- {
		taken := 0
		for i, w := range widths {
			taken += max(min(w, most), ids[i])
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

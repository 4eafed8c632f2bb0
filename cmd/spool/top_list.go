package main

import (
	"strings"

	"spool/internal/text"
)

// rowID tells a row from others when rows come, go and move: a name, or the number of an item and which of its lines it is.
type rowID struct {
	name string
	n    int64
	line int
}

// cursor is where one is in the rows of a view.
type cursor struct {
	at, first int    // the chosen row, and the one at the top of the screen
	on        rowID  // of the chosen row
	filter    string // words that each row has
	still     bool   // the chosen row stays where it is on the screen when rows come before it
}

func (l *cursor) where() *cursor { return l }

// choose makes a row the chosen one, and scrolls to it.
func (l *cursor) choose(v topView, i, room int) {
	l.at = max(min(i, v.size()-1), 0)
	if l.on = (rowID{}); v.size() > 0 {
		l.on = v.id(l.at)
	}
	l.first = min(l.first, l.at, max(v.size()-room, 0))
	l.first = max(l.first, l.at-room+1, 0)
}

// refind finds the chosen row among rows that changed; one that is gone leaves the next one.
func (l *cursor) refind(v topView, room int) {
	was, near := l.at, -1
	for i := range v.size() {
		id := v.id(i)
		if id == l.on {
			l.at, near = i, -1
			break
		}
		if near < 0 && id.name == l.on.name && id.n == l.on.n {
			near = i
		}
	}
	if near >= 0 {
		l.at = near
	}
	if l.still {
		l.first += l.at - was
	}
	l.choose(v, l.at, room)
}

// has tells whether texts have all words of the filter, letter case aside.
func (l *cursor) has(texts ...string) bool { return l.filter == "" || l.in(lower(texts...)) }

func lower(texts ...string) string { return strings.ToLower(strings.Join(texts, "\n")) }

// in is has of what is in lower case.
func (l *cursor) in(all string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(l.filter)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// column is a column of a table on the screen.
type column struct {
	title string
	width int // with what parts it from the next one; 0: what is left
	right bool
	spare int // which goes first where there is no room: the highest; 0 stays
}

// restful is how many columns of the screen are wanted for what is left.
const restful = 20

// fitting are the columns that there is room for.
func fitting(all []column, width int) []column {
	for {
		need, last := restful, -1
		for i, c := range all {
			need += c.width
			if c.spare > 0 && (last < 0 || c.spare > all[last].spare) {
				last = i
			}
		}
		if need <= width || last < 0 {
			return all
		}
		all = append(append([]column(nil), all[:last]...), all[last+1:]...)
	}
}

// tableRow lays cells, by the titles of their columns, out in a line as wide as the screen.
func tableRow(columns []column, width int, cell func(title string) string) string {
	var b strings.Builder
	left := width
	for _, c := range fitting(columns, width) {
		n := left
		if c.width > 0 {
			n = min(c.width, left)
		}
		left -= n
		switch s := cell(c.title); {
		case n < 2:
			b.WriteString(text.Fit("", n))
		case c.right:
			b.WriteString(text.Fit(text.Right(text.Cut(s, n-1), n-1), n))
		default:
			b.WriteString(text.Fit(text.Cut(s, n-1), n))
		}
	}
	return b.String()
}

// Package text writes figures for people, and reads theirs.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
)

// Bytes is a size in binary units, to three digits: "512 B", "1.5 KiB", "20.3 MiB".
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for v >= 1024 && unit < 5 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, " KMGTP"[unit])
}

// units of a size, in bytes. What ends like another one comes behind it.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseBytes reads a size that is not negative: 1048576, 64MiB, 1.5GiB, 100GB. bare: it has no unit.
func ParseBytes(s string) (n int64, bare bool, err error) {
	number, unit, bare := strings.TrimSpace(s), 1.0, true
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit, bare = strings.TrimSpace(rest), u.bytes, false
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(f >= 0 && f*unit < 1<<60) {
		return 0, bare, fmt.Errorf("%q is no size: use bytes, or a unit, as in 64MiB or 100GB", s)
	}
	return int64(f * unit), bare, nil
}

// Ago is how long before now a time in Unix milliseconds was: "now", "5m", "3h", "2d", or a date. "" for none.
func Ago(ms int64, now time.Time) string {
	if ms == 0 {
		return ""
	}
	t := time.UnixMilli(ms)
	switch d := now.Sub(t); {
	case d < 0:
		return t.Format("2006-01-02")
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 60*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return t.Format("2006-01-02")
}

// Printable replaces what could move a terminal's cursor, change its colours, or turn the direction of what stands behind it.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' && r != '\t', r == 0x7f, r >= 0x80 && r < 0xa0,
			r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return '·'
		}
		return r
	}, s)
}

// Line is a text in one line that is Printable.
func Line(s string) string { return Printable(strings.Join(strings.Fields(s), " ")) }

// Wrap divides a line, at spaces where there are some, into lines of at most so many columns; 0: it stays one. What is
// indented goes on as far in.
func Wrap(line string, columns int) (out []string) {
	if columns <= 0 {
		return []string{line}
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	for Width(line) > columns {
		head := displaywidth.TruncateString(line, columns, "")
		rest := line[len(head):]
		if !strings.HasPrefix(rest, " ") { // a word is cut, unless it fills the line
			if at := strings.LastIndexByte(head, ' '); at >= len(indent) && at > 0 {
				head, rest = head[:at], head[at:]+rest
			}
		}
		if head == "" {
			break
		}
		out = append(out, head)
		if line = strings.TrimLeft(rest, " "); len(indent) <= columns/2 {
			line = indent + line
		}
	}
	return append(out, line)
}

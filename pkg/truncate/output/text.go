package output

import (
	"fmt"
	"strings"

	"spool/internal/runes"
)

// Line shortens a text to at most n UTF-16 units (SPEC U2) and "…". A character of which only half would fit is left out.
func Line(text string, n int) (line string, cut bool) {
	units := 0
	for i, r := range text {
		if units++; r > 0xFFFF {
			units++
		}
		if units > n {
			return text[:i] + ellipsis, true
		}
	}
	return text, false
}

// Limits of a Cut: lines and bytes.
type Limits struct{ Lines, Bytes int }

// Reason is which limit cut a text.
type Reason string

const (
	ByLines Reason = "lines"
	ByBytes Reason = "bytes"
)

// Cut is the part of a text that is within Limits, in whole lines. Lines are what stands between newlines: an empty text
// has one, and so does what follows the last newline.
type Cut struct {
	Content               string
	By                    Reason // "" if the text was not cut
	TotalLines            int
	TotalBytes            int
	Lines, Bytes          int  // of Content
	LastLinePartial       bool // Tail: the last line alone was over the limit, and Content is its end
	FirstLineExceedsLimit bool // Head: the first line alone was over the limit, and Content is empty
}

// whole is a text that is not cut; cut tells that it must be.
func whole(text string, most Limits) (c Cut, cut bool) {
	lines := strings.Count(text, "\n") + 1
	c = Cut{Content: text, TotalLines: lines, TotalBytes: len(text), Lines: lines, Bytes: len(text)}
	return c, lines > most.Lines || len(text) > most.Bytes
}

// Head keeps lines from the beginning.
func Head(text string, most Limits) Cut {
	c, cut := whole(text, most)
	if !cut {
		return c
	}
	c.Lines, c.By = 0, ByLines
	end := 0
	for c.Lines < most.Lines {
		next := len(text)
		if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
			next = end + n
		}
		if next > most.Bytes {
			c.By = ByBytes
			break
		}
		c.Lines++
		end = next + 1
	}
	c.Content = text[:max(end-1, 0)]
	c.Bytes = len(c.Content)
	c.FirstLineExceedsLimit = c.Lines == 0 && c.By == ByBytes
	return c
}

// Tail keeps lines from the end.
func Tail(text string, most Limits) Cut {
	c, cut := whole(text, most)
	if !cut {
		return c
	}
	c.Lines, c.By = 0, ByLines
	start := len(text) + 1
	for c.Lines < most.Lines {
		from := strings.LastIndexByte(text[:start-1], '\n') + 1
		if len(text)-from > most.Bytes {
			c.By = ByBytes
			break
		}
		c.Lines++
		start = from
	}
	c.Content = text[min(start, len(text)):]
	if c.Lines == 0 && c.By == ByBytes {
		c.Content = runes.Tail(text, most.Bytes)
		c.Lines, c.LastLinePartial = 1, true
	}
	c.Bytes = len(c.Content)
	return c
}

// HeadNotice tells a reader how to go on after Head; "" if nothing was cut.
func (c Cut) HeadNotice() string {
	if c.By == "" {
		return ""
	}
	return fmt.Sprintf("\n\n[Showing lines 1-%d of %d. Use :%d to continue]", c.Lines, c.TotalLines, c.Lines+1)
}

// TailNotice tells a reader what came before Tail, and where all of it is; "" if nothing was cut.
func (c Cut) TailNotice(artifact string) string {
	if c.By == "" {
		return ""
	}
	part := fmt.Sprintf("lines %d-%d of %d", c.TotalLines-c.Lines+1, c.TotalLines, c.TotalLines)
	if c.LastLinePartial {
		part = fmt.Sprintf("last %s of line %d", size(int64(c.Bytes)), c.TotalLines)
	}
	if artifact != "" {
		artifact = ". Full output: artifact://" + artifact
	}
	return fmt.Sprintf("\n\n[Showing %s%s]", part, artifact)
}

// size is a number of bytes for a reader.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1fMB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1fGB", float64(n)/(1<<30))
}

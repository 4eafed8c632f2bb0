package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spool/pkg/events"
)

// mostCalls is how many calls are remembered; a result of an older one stands alone.
const mostCalls = 1000

// Calls finds the call of each result. The zero value is ready.
type Calls struct {
	open  map[callID]Item
	order []callID // of open, the oldest first
	last  callID   // whose item came last
}

type callID struct {
	thread events.Thread
	call   string
}

// Result is what a reader is told of a result beside itself.
type Result struct {
	Call  Item          // zero: it is not there
	Under bool          // nothing came between them
	Took  time.Duration // 0: nobody said
}

// Next takes the next item. Of a result, known says if its call was there.
func (c *Calls) Next(i Item) (r Result, known bool) {
	id := callID{i.Thread, i.Call}
	defer func() {
		if c.last = (callID{}); i.Kind == events.TypeToolCall || known {
			c.last = id
		}
	}()
	switch i.Kind {
	case events.TypeToolCall:
		if c.open == nil {
			c.open = map[callID]Item{}
		}
		if _, again := c.open[id]; !again {
			c.order = append(c.order, id)
		}
		c.open[id] = Item{N: i.N, At: i.At, Kind: i.Kind, Tool: i.Tool, Brief: i.Brief}
		for len(c.order) > mostCalls {
			delete(c.open, c.order[0])
			c.order = c.order[1:]
		}
	case events.TypeToolResult:
		if r.Call, known = c.open[id]; !known {
			return r, false
		}
		r.Under = c.last == id
		if d := i.At.Sub(r.Call.At); !i.At.IsZero() && !r.Call.At.IsZero() && d > 0 {
			r.Took = d
		}
	}
	return r, known
}

// earlier takes a call that is not shown: its result is told which it is of.
func (c *Calls) earlier(i Item) {
	c.Next(i)
	c.last = callID{}
}

// facts are what a reader is told of a result in its heading.
func (r Result) facts(i Item) string {
	var out []string
	if r.Call.N > 0 && !r.Under {
		out = append(out, "of #"+strconv.FormatInt(r.Call.N, 10)+" "+r.Call.Who())
	}
	if r.Took > 0 {
		out = append(out, took(r.Took))
	}
	if i.Exit != 0 {
		out = append(out, fmt.Sprintf("exit code %d", i.Exit))
	}
	if i.Lines > 1 {
		out = append(out, fmt.Sprintf("%s lines", count(i.Lines)))
	}
	if i.Output == "" {
		out = append(out, "no output")
	}
	if i.Cut {
		out = append(out, "cut")
	}
	return strings.Join(out, ", ")
}

func lines(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(s, "\n") + 1
}

// took is a duration to three digits or so.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// count is a number with its thousands apart.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for at := len(s) - 3; at > 0 && n > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// fold is the beginning of a text, and how many lines are left out of it; full: none is. It leaves nothing out that is no longer than
// what it would say instead.
func fold(s string, full bool) (head string, more int) {
	all := strings.Split(s, "\n")
	if full || len(all) <= Folded+2 {
		return s, 0
	}
	return strings.Join(all[:Folded], "\n"), len(all) - Folded
}

// piece is a part of a text that was said.
type piece struct {
	code bool
	text string
}

// pieces divides a text at its fences of code.
func pieces(s string) (out []piece) {
	var lines []string
	fence := ""
	flush := func() {
		if body := strings.Trim(strings.Join(lines, "\n"), "\n"); body != "" {
			out = append(out, piece{fence != "", body})
		}
		lines = nil
	}
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		mark := strings.TrimLeft(line, " ")
		ticks := mark[:len(mark)-len(strings.TrimLeft(mark, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			flush()
			fence = ticks
		case fence != "" && len(ticks) >= len(fence) && mark == ticks:
			flush()
			fence = ""
		default:
			lines = append(lines, line)
		}
	}
	flush()
	return out
}

package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"spool/internal/text"
	"spool/pkg/events"
)

// Head is what stands before the items.
type Head struct {
	Thread events.Thread
	Title  string
	Facts  []string
}

// Form writes items one after the other.
type Form interface {
	Begin(Head) string
	Earlier(Item) // a call that is not shown, and whose result is
	Item(Item) string
	End() string
}

// Terminal is the form of a terminal, and of plain text.
type Terminal struct {
	Columns int    // lines are wrapped there; 0: never
	Colour  bool   // by the escape sequences of ECMA-48
	Full    bool   // nothing is folded
	Unfold  string // how one has what is folded; "": --full
	Zone    *time.Location

	calls Calls
	day   string
}

// Folded is how many lines of a long input or output are shown.
const Folded = 8

// Colours by what they stand for.
const (
	faint  = "2"
	bold   = "1"
	user   = "1;32"
	agent  = "1;36"
	call   = "36"
	good   = "32"
	bad    = "31"
	asks   = "1;33"
	normal = ""
	change = "+-" // each line by its sign
)

// Begin implements Form.
func (t *Terminal) Begin(h Head) string {
	out := t.paint(bold, text.Printable(cmp.Or(h.Title, h.Thread.String()))) + "\n"
	facts := h.Facts
	if h.Title != "" {
		facts = append([]string{h.Thread.String()}, facts...)
	}
	if len(facts) > 0 {
		out += t.block("", faint, text.Printable(strings.Join(facts, " · ")))
	}
	return out
}

// Earlier implements Form.
func (t *Terminal) Earlier(i Item) { t.calls.earlier(i) }

// End implements Form.
func (t *Terminal) End() string { return "" }

// Item implements Form.
func (t *Terminal) Item(i Item) string {
	r, known := t.calls.Next(i)
	out := t.newDay(i)
	switch i.Kind {
	case events.TypeToolCall:
		out += "\n" + t.heading(call, "● ", i, i.Argument()) + t.folded("    ", change, i.Input)
		for _, fact := range i.Facts {
			out += t.block("    ", call, fact)
		}
	case events.TypeToolResult:
		mark, colour := "✓ ", good
		if i.Failed {
			mark, colour = "✗ ", bad
		}
		out += "  └ " + t.paint(colour, mark) + t.paint(faint, strings.TrimSpace(fmt.Sprintf("#%d %s", i.N, r.facts(i)))) + "\n"
		if body := i.Output; body != "" {
			colour := faint
			if i.Failed {
				colour = normal
			}
			out += t.folded("    ", colour, body)
		} else if !known {
			out += t.block("    ", faint, i.Text)
		}
		if i.Whole != "" && i.Cut {
			out += t.block("    ", faint, "all of it: spool artifact get "+i.Whole)
		}
	case events.TypeThinking:
		out += "\n" + t.heading(faint, "", i, "") + t.folded("  ", faint, i.Text)
	case events.TypeStatus, events.TypeTurnEnd:
		out += "\n" + t.block("", faint, strings.Join(append([]string{t.place(i) + " " + cmp.Or(i.Brief, i.Who())}, i.Facts...), " · "))
	default:
		out += "\n" + t.heading(colourOf(i.Kind), "", i, "") + t.prose(i.Text)
	}
	for _, image := range i.Images {
		out += t.block("  ", call, "["+image.Name()+"]")
	}
	return out
}

func colourOf(kind string) string {
	switch kind {
	case events.TypeMessage:
		return user
	case events.TypePendingPrompt, events.TypePendingPromptResolved:
		return asks
	}
	return agent
}

// newDay is a line with the date where one begins.
func (t *Terminal) newDay(i Item) string {
	if i.At.IsZero() {
		return ""
	}
	day := i.At.In(t.zone()).Format("Mon 2 Jan 2006")
	if day == t.day {
		return ""
	}
	t.day = day
	return "\n" + t.paint(faint, "── "+day+" ──") + "\n"
}

func (t *Terminal) zone() *time.Location {
	if t.Zone == nil {
		return time.UTC
	}
	return t.Zone
}

// place is the number and the time of an item.
func (t *Terminal) place(i Item) string {
	out := fmt.Sprintf("#%d", i.N)
	if !i.At.IsZero() {
		out += " " + i.At.In(t.zone()).Format(time.TimeOnly)
	}
	return out
}

// heading is who, what of it fits beside, and where.
func (t *Terminal) heading(colour, mark string, i Item, beside string) string {
	who, place := text.Printable(mark+i.Who()), t.place(i)
	if beside != "" {
		if t.Columns > 0 {
			beside = text.Cut(beside, max(t.Columns-text.Width(who)-text.Width(place)-4, 10))
		}
		beside = "  " + beside
	}
	return t.paint(colour, who) + beside + "  " + t.paint(faint, place) + "\n"
}

// prose is what was said: paragraphs wrapped, headings and code told apart.
func (t *Terminal) prose(s string) string {
	out := ""
	for k, p := range pieces(s) {
		if k > 0 {
			out += "\n"
		}
		if p.code {
			out += t.block("    ", call, p.text)
			continue
		}
		for line := range strings.SplitSeq(p.text, "\n") {
			colour := normal
			if strings.HasPrefix(line, "#") {
				colour = bold
			}
			out += t.block("  ", colour, line)
		}
	}
	return out
}

// folded is a block of which a long one is only begun.
func (t *Terminal) folded(indent, colour, s string) string {
	if s == "" {
		return ""
	}
	head, more := fold(s, t.Full)
	out := t.block(indent, colour, head)
	if more > 0 {
		out += t.block(indent, faint, fmt.Sprintf("… %s more lines (%s)", count(int64(more)), cmp.Or(t.Unfold, "--full")))
	}
	return out
}

// block is lines behind an indent, each wrapped where the terminal ends.
func (t *Terminal) block(indent, colour, s string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		line = text.Printable(strings.ReplaceAll(line, "\t", "    "))
		room := 0
		if t.Columns > 0 {
			room = max(t.Columns-len(indent), 10)
		}
		c := colour
		if colour == change {
			c = map[string]string{"+ ": good, "- ": bad}[line[:min(len(line), 2)]]
		}
		for _, part := range text.Wrap(line, room) {
			out.WriteString(strings.TrimRight(indent+t.paint(c, part), " ") + "\n")
		}
	}
	return out.String()
}

func (t *Terminal) paint(colour, s string) string {
	if !t.Colour || colour == normal || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

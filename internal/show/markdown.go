package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"spool/internal/text"
	"spool/pkg/events"
)

// Markdown is the form of a Markdown file. What was said in Markdown stays as it is, but for what would move the cursor of a terminal.
type Markdown struct {
	Full bool // nothing is folded
	Zone *time.Location

	calls Calls
}

// Begin implements Form.
func (m *Markdown) Begin(h Head) string {
	out := "# " + text.Line(cmp.Or(h.Title, h.Thread.String())) + "\n"
	for _, fact := range append([]string{h.Thread.String()}, h.Facts...) {
		out += "\n- " + text.Line(fact)
	}
	return out + "\n"
}

// Earlier implements Form.
func (m *Markdown) Earlier(i Item) { m.calls.earlier(i) }

// End implements Form.
func (m *Markdown) End() string { return "" }

// Item implements Form.
func (m *Markdown) Item(i Item) string {
	r, known := m.calls.Next(i)
	who, place := text.Line(i.Who()), placeOf(i, m.Zone, time.DateTime)
	out := ""
	switch i.Kind {
	case events.TypeToolCall:
		out = "\n**" + who + "** " + code(i.Argument()) + " · " + place + "\n" + m.fenced(i.Input)
		for _, fact := range i.Facts {
			out += "\n" + text.Line(fact) + "\n"
		}
	case events.TypeToolResult:
		says := "Result"
		if i.Failed {
			says = "Failed"
		}
		out = "\n" + strings.TrimSuffix(says+" · "+place+" · "+r.facts(i), " · ") + "\n" + m.fenced(i.Output)
		if i.Output == "" && !known {
			out += "\n" + i.Text + "\n"
		}
	case events.TypeThinking:
		out = "\n*" + who + "* · " + place + "\n\n> " + strings.ReplaceAll(strings.TrimSpace(i.Text), "\n", "\n> ") + "\n"
	case events.TypeStatus, events.TypeTurnEnd:
		out = "\n*" + strings.Join(append([]string{cmp.Or(i.Brief, who)}, i.Facts...), " · ") + "* · " + place + "\n"
	default:
		out = "\n## " + who + " · " + place + "\n\n" + strings.TrimSpace(i.Text) + "\n"
	}
	for _, image := range i.Images {
		out += "\n*[" + text.Line(image.Name()) + "]*\n"
	}
	return printable(out)
}

// fenced is a block of code, folded, between fences that it does not have.
func (m *Markdown) fenced(s string) string {
	if s == "" {
		return ""
	}
	head, more := fold(s, m.Full)
	fence := "```"
	for strings.Contains(head, fence) {
		fence += "`"
	}
	out := "\n" + fence + "\n" + head + "\n" + fence + "\n"
	if more > 0 {
		out += fmt.Sprintf("\n… %s more lines\n", count(int64(more)))
	}
	return out
}

// code is a text in a line as code.
func code(s string) string {
	if s == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + strings.TrimSpace(" "+s+" ") + fence
}

// placeOf is the number and the time of an item.
func placeOf(i Item, zone *time.Location, layout string) string {
	out := fmt.Sprintf("#%d", i.N)
	if i.At.IsZero() {
		return out
	}
	at := i.At
	if zone != nil {
		at = at.In(zone)
	}
	return out + " " + at.Format(layout)
}

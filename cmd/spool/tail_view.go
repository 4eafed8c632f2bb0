package main

import (
	"cmp"
	"image/color"
	"time"

	"charm.land/lipgloss/v2"

	"spool/internal/shortid"
	"spool/internal/show"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// tailView is how items look on a terminal: a line each, as wide as it at most, a result under its call with the time it
// took, and of a session's id what no other one that was shown begins with.
type tailView struct {
	width  func() int // columns
	colour bool
	calls  show.Calls
	seen   shortid.Seen // sessions
}

// newTailView is nil when the output is no terminal.
func newTailView(a *app) *tailView {
	if a.columns() == 0 {
		return nil
	}
	return &tailView{colour: a.coloured(), width: a.columns}
}

// line is the next item.
func (v *tailView) line(i *client.Item) string {
	it := show.Read(i.Raw)
	r, known := v.calls.Next(it)
	place := itemPlace(i, v.seen.Short(i.Session))
	switch {
	case known:
		return v.result(it, r)
	case it.Kind == events.TypeToolCall:
		return v.show(place+"  ", it.Brief, lipgloss.Cyan)
	}
	colours := map[string]color.Color{
		events.TypeMessage: lipgloss.Green, events.TypeThinking: lipgloss.BrightBlack, events.TypePendingPrompt: lipgloss.Yellow,
	}
	return v.show(place+" "+it.Kind+"  ", it.Brief, colours[it.Kind])
}

// result is a line under its call; one that other lines came before says again what was called.
func (v *tailView) result(i show.Item, r show.Result) string {
	mark, colour := "✓ ", color.Color(lipgloss.Green)
	if i.Failed {
		mark, colour = "✗ ", lipgloss.Red
	}
	head, brief := "         └ "+mark, i.Argument()
	if r.Took > 0 {
		head += r.Took.Round(time.Millisecond).String() + "  "
	}
	if !r.Under {
		brief = text.Cut(r.Call.Brief, 40) + "  " + brief
	}
	return v.show(head, brief, colour)
}

// show cuts a line to the terminal. No colour is nil.
func (v *tailView) show(head, brief string, colour color.Color) string {
	width := cmp.Or(v.width(), 80)
	head = text.Cut(head, width)
	brief = text.Cut(brief, width-text.Width(head))
	if !v.colour {
		return head + brief
	}
	if colour != nil {
		brief = lipgloss.NewStyle().Foreground(colour).Render(brief)
	}
	return styleDim.Render(head) + brief
}

package main

import (
	"cmp"
	"image/color"
	"os"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"spool/internal/jsonscan"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// maxOpenCalls is how many calls without their result are remembered; a result of an older one stands alone.
const maxOpenCalls = 1000

// tailView is how items look on a terminal: a line each, as wide as it at most, and a result under its call with the time
// it took.
type tailView struct {
	width  func() int // columns
	colour bool

	calls map[callID]call
	order []callID // of calls, the oldest first
	under callID   // whose lines were shown last
}

// callID is what a call and its result share (SPEC I3).
type callID struct {
	thread     events.Thread
	invocation string
}

type call struct {
	brief string
	at    time.Time // zero = nobody said
}

// newTailView is nil when the output is no terminal.
func newTailView(a *app) *tailView {
	f, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &tailView{colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", calls: map[callID]call{}, width: func() int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
		return 80
	}}
}

// line is the next item.
func (v *tailView) line(i *client.Item) string {
	tool := jsonscan.Get(i.Metadata, "tool") // an item without, or of another shape, is shown by its text
	invocation, _ := jsonscan.Text(jsonscan.Get(tool, "invocation_id"))
	failed, _ := jsonscan.Bool(jsonscan.Get(tool, "is_error"))
	id := callID{events.Thread{Session: i.Session, Name: i.Thread}, invocation}
	at, _ := time.Parse(time.RFC3339, i.CreatedAt)
	brief := line(i.Text())
	switch i.Type() {
	case events.TypeToolCall:
		v.remember(id, call{brief, at})
		v.under = id
		return v.show(itemPlace(i)+"  ", brief, lipgloss.Cyan)
	case events.TypeToolResult:
		if c, ok := v.calls[id]; ok {
			return v.result(id, c, at, brief, failed)
		}
	}
	v.under = callID{}
	colours := map[string]color.Color{"message": lipgloss.Green, events.TypeThinking: lipgloss.BrightBlack, events.TypePendingPrompt: lipgloss.Yellow}
	return v.show(itemPlace(i)+" "+i.Type()+"  ", brief, colours[i.Type()])
}

// remember keeps a call until its result comes.
func (v *tailView) remember(id callID, c call) {
	if _, again := v.calls[id]; !again {
		v.order = append(v.order, id)
	}
	v.calls[id] = c
	for len(v.order) > maxOpenCalls {
		delete(v.calls, v.order[0])
		v.order = v.order[1:]
	}
}

// result is a line under its call; one that other lines came before says again what was called.
func (v *tailView) result(id callID, c call, at time.Time, brief string, failed bool) string {
	mark, colour := "✓ ", color.Color(lipgloss.Green)
	if failed {
		mark, colour = "✗ ", lipgloss.Red
	}
	head := "         └ " + mark
	if d := at.Sub(c.at); !c.at.IsZero() && !at.IsZero() && d >= 0 {
		head += d.Round(time.Millisecond).String() + "  "
	}
	if v.under != id {
		brief = text.Cut(c.brief, 40) + "  " + brief
	}
	v.under = id
	return v.show(head, strings.TrimPrefix(brief, "→ "), colour)
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

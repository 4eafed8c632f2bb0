package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"spool/internal/show"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// What is kept of a thread, and read of it at once, however long it is.
const (
	mostItems     = 500
	mostItemBytes = 8 << 20
	itemsPage     = 100
	itemsNear     = 40 // rows from an end of what is kept at which more is read
)

// span is which items are wanted: those from a number on, or where that is 0 those before one, and the last ones where both are 0.
type span struct {
	from, before int64
	most         int // 0: none, only what the head says
}

// itemRead is an item as it is shown, and how much it takes.
type itemRead struct {
	show.Item
	bytes int
}

// itemsRead is what came of reading a span.
type itemsRead struct {
	items []itemRead
	last  int64  // number of the thread's last item
	life  uint64 // which of the threads that had the name
}

// reader reads items of threads for the screen.
func (l *lookout) reader(a *app) func(events.Thread, span) (itemsRead, error) {
	return func(t events.Thread, s span) (out itemsRead, err error) {
		head, err := l.client.Thread(t).Head(a.ctx)
		if err != nil {
			return out, err
		}
		out.last, out.life = head.N, head.Life
		if s.most == 0 || s.from > head.N || head.N == 0 {
			return out, nil
		}
		before := s.before
		if before == 0 || before > head.N {
			before = head.N + 1
		}
		all := l.client.Thread(t).ItemsBack(a.ctx, head, before)
		if s.from > 0 {
			all = l.client.Thread(t).ItemsFrom(a.ctx, head, s.from)
		}
		size := 0
		for p, err := range all {
			if err != nil {
				return out, err
			}
			item := show.Read(p.Data)
			new(showCmd).images(a, l.client, &item)
			out.items = append(out.items, itemRead{item, len(p.Data)})
			if size += len(p.Data); len(out.items) == s.most || size > mostItemBytes/2 {
				break
			}
		}
		if s.from == 0 {
			slices.Reverse(out.items)
		}
		return out, nil
	}
}

// itemsView is a thread as spool show writes it: a row a line. Of a long thread it keeps a part, and reads on where one comes to an
// end of it. Who is at the end follows.
type itemsView struct {
	cursor
	m        *top
	thread   events.Thread
	items    []itemRead
	last     int64 // of the thread
	life     uint64
	begin    int64 // item to begin at; 0: the end
	loaded   bool
	asked    int  // reads so far: of an earlier one than the last nothing is taken
	reading  bool // the last one has not come back
	moving   bool // and is to be in the place of what is kept
	ticking  bool
	unfolded map[int64]bool
	lines    []itemRow
}

type itemRow struct {
	n    int64
	line int
	text string
}

// What happens to a view of items.
type (
	itemsCame struct {
		v    *itemsView
		at   int // which read it was
		span span
		anew bool // in the place of what was kept
		read itemsRead
		err  error
	}
	itemsTick struct{ v *itemsView }
)

func newItemsView(m *top, t events.Thread, begin int64) *itemsView {
	return &itemsView{cursor: cursor{still: true}, m: m, thread: t, begin: begin, unfolded: map[int64]bool{}}
}

func (v *itemsView) open() tea.Cmd {
	if v.begin > 0 {
		return v.read(span{from: max(v.begin-itemsPage/2, 1), most: itemsPage}, true)
	}
	return v.read(span{most: itemsPage}, true)
}

func (v *itemsView) read(s span, anew bool) tea.Cmd {
	v.reading, v.moving = true, anew
	v.asked++
	at := v.asked
	return func() tea.Msg {
		got, err := v.m.read(v.thread, s)
		return itemsCame{v, at, s, anew, got, err}
	}
}

// tick looks for new items: who is at the end is shown them, who is not is told how many there are.
func (v *itemsView) tick() tea.Cmd {
	v.ticking = false
	switch {
	case v.reading:
		return v.soon()
	case !v.loaded:
		return v.open()
	case v.following():
		return v.read(span{from: v.end() + 1, most: itemsPage}, false)
	}
	return v.read(span{from: v.end() + 1}, false)
}

func (v *itemsView) soon() tea.Cmd {
	if v.ticking {
		return nil
	}
	v.ticking = true
	return tea.Tick(min(v.m.every, time.Second), func(time.Time) tea.Msg { return itemsTick{v} })
}

func (v *itemsView) start() int64 {
	if len(v.items) == 0 {
		return 1
	}
	return v.items[0].N
}

func (v *itemsView) end() int64 {
	if len(v.items) == 0 {
		return 0
	}
	return v.items[len(v.items)-1].N
}

// following tells that the last line of the thread is the chosen one.
func (v *itemsView) following() bool { return v.at >= len(v.lines)-1 && v.end() == v.last }

// take keeps what came of reading, and asks for what is to come next.
func (v *itemsView) take(c itemsCame) tea.Cmd {
	if c.at != v.asked {
		return v.soon()
	}
	v.reading, v.moving = false, false
	if c.err != nil {
		v.m.tell("", c.err)
		return v.soon()
	}
	if v.loaded && !c.anew && c.read.life != v.life {
		v.m.tell("the thread was made anew", nil)
		v.unfolded = map[int64]bool{}
		return v.read(span{most: itemsPage}, true)
	}
	followed, room := v.following(), v.m.room()
	v.last, v.life = c.read.last, c.read.life
	switch got := c.read.items; {
	case c.anew:
		v.items, v.loaded, followed = got, true, c.span.from == 0
	case c.span.from > 0 && c.span.from == v.end()+1:
		v.items = append(v.items, got...)
		for v.tooMuch() {
			v.items = v.items[1:]
		}
	case c.span.from == 0 && c.span.before == v.start():
		v.items = append(slices.Clone(got), v.items...)
		for v.tooMuch() {
			v.items = v.items[:len(v.items)-1]
		}
	}
	v.refresh()
	switch {
	case c.anew && v.begin > 0:
		at := slices.IndexFunc(v.lines, func(l itemRow) bool { return l.n >= v.begin })
		v.choose(v, max(at, 0), room)
		v.first, v.begin = max(v.at-room/3, 0), 0
		v.choose(v, v.at, room)
	case c.anew && c.span.from > 0:
		v.choose(v, 0, room)
	case followed:
		v.choose(v, v.size()-1, room)
	default:
		v.refind(v, room)
	}
	if more := v.need(); more != nil && len(c.read.items) > 0 {
		return more
	}
	return v.soon()
}

func (v *itemsView) tooMuch() bool {
	size := 0
	for i := range v.items {
		size += v.items[i].bytes
	}
	return len(v.items) > 1 && (len(v.items) > mostItems || size > mostItemBytes)
}

// need reads on where the chosen row is near an end of what is kept.
func (v *itemsView) need() tea.Cmd {
	switch {
	case v.reading || !v.loaded:
		return nil
	case v.at < itemsNear && v.start() > 1:
		return v.read(span{before: v.start(), most: itemsPage}, false)
	case v.at > len(v.lines)-itemsNear && v.end() < v.last:
		return v.read(span{from: v.end() + 1, most: itemsPage}, false)
	}
	return nil
}

// refresh makes the lines.
func (v *itemsView) refresh() {
	v.lines = v.lines[:0]
	form := show.Terminal{Columns: max(v.m.width, 1), Colour: v.m.colour, Unfold: "enter", Zone: time.Local}
	for i := range v.items {
		it := &v.items[i]
		form.Full = v.unfolded[it.N]
		shown := strings.ReplaceAll(form.Item(it.Item), "\t", "    ")
		if !v.has(it.Who(), it.Kind, it.Brief, it.Text, it.Input, it.Output) {
			continue
		}
		for k, line := range strings.Split(strings.TrimSuffix(shown, "\n"), "\n") {
			v.lines = append(v.lines, itemRow{it.N, k, line})
		}
	}
}

func (v *itemsView) name() string { return v.thread.Name }

func (v *itemsView) nothing() string {
	switch {
	case !v.loaded:
		return "reading …"
	case v.filter != "":
		return "no item that is read has these words"
	}
	return "this thread has no items yet"
}

// heading says what of the thread is read, and whether it is followed.
func (v *itemsView) heading(width int) string {
	out := fmt.Sprintf("items %d to %d of %d", v.start(), v.end(), v.last)
	switch {
	case !v.loaded:
		out = ""
	case v.moving:
		out += ", reading …"
	case v.filter != "":
		out = "those with the words among " + out
	case v.following():
		out += ", following"
	case v.end() < v.last:
		out += text.Sprintf(", %d items below", v.last-v.end())
	}
	return text.Cut(out, width)
}

func (v *itemsView) size() int      { return len(v.lines) }
func (v *itemsView) id(i int) rowID { return rowID{n: v.lines[i].n, line: v.lines[i].line} }

// coloured is what show.Terminal paints with.
var coloured = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (v *itemsView) row(i, width int, chosen bool) string {
	line := v.lines[i].text
	if chosen {
		return styleAt.Render(text.Fit(text.Cut(coloured.ReplaceAllString(line, ""), width), width))
	}
	return lipgloss.NewStyle().Inline(true).MaxWidth(width).Render(line)
}

func (v *itemsView) questions() (out []client.Prompt) {
	for _, p := range v.m.fleet.prompts {
		if p.Thread == v.thread {
			out = append(out, p)
		}
	}
	return out
}

func (v *itemsView) keys() []binding {
	return []binding{
		{"enter space right l", "enter space", "all of a long item, or only its beginning", "unfold", func() tea.Cmd {
			if len(v.lines) > 0 {
				n := v.lines[v.at].n
				v.unfolded[n] = !v.unfolded[n]
				v.m.changed(v)
			}
			return nil
		}},
		{"g home", "g", "to the first item", "", func() tea.Cmd {
			if v.start() <= 1 {
				return v.stay(0)
			}
			return v.read(span{from: 1, most: itemsPage}, true)
		}},
		{"G end", "G", "to the last item, and follow", "", func() tea.Cmd {
			if v.end() == v.last {
				return v.stay(v.size() - 1)
			}
			return v.read(span{most: itemsPage}, true)
		}},
		{"]", "]", "next prompt of a person", "", func() tea.Cmd { return v.turn(1) }},
		{"[", "[", "previous prompt of a person", "", func() tea.Cmd { return v.turn(-1) }},
	}
}

// stay chooses a row of what is kept: what was to come in its place is not wanted any more.
func (v *itemsView) stay(i int) tea.Cmd {
	if v.moving {
		v.asked++
		v.reading, v.moving = false, false
	}
	v.choose(v, i, v.m.room())
	return v.soon()
}

// turn goes to the next prompt of a person, of what is read.
func (v *itemsView) turn(by int) tea.Cmd {
	prompts := map[int64]bool{}
	for i := range v.items {
		prompts[v.items[i].N] = v.items[i].Kind == events.TypeMessage
	}
	for i := v.at + by; i >= 0 && i < len(v.lines); i += by {
		if l := v.lines[i]; l.line == 0 && prompts[l.n] && (by < 0 || l.n != v.lines[v.at].n) {
			v.choose(v, i, v.m.room())
			break
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

// top is the screen of spool top: views, of which the last one is shown, under two lines of what the fleet does and where one is, and
// over one line that is typed in, says what was done, or which keys there are.
type top struct {
	every  time.Duration
	look   func() (fleet, error)
	answer func(client.Prompt, json.RawMessage) error
	read   func(events.Thread, span) (itemsRead, error)
	colour bool

	width, height int
	fleet         fleet
	seen          bool
	views         []topView // from the sessions down
	input         *input    // what is typed; nil: keys are commands
	help          bool      // the keys are shown
	note          string    // what was done, or went wrong
	failed        bool      // note says what went wrong
}

// topView is rows, one of which is chosen.
type topView interface {
	where() *cursor
	name() string             // in the line that says where one is
	heading(width int) string // of the rows
	size() int
	id(i int) rowID
	row(i, width int, chosen bool) string
	nothing() string // in the place of rows
	refresh()        // what it shows, or the filter, has changed
	questions() []client.Prompt
	keys() []binding // before those of all views
}

// binding is what keys do.
type binding struct {
	keys  string // as tea.Key says them
	shown string // among the keys
	does  string
	brief string // in the last line of the screen, if there
	do    func() tea.Cmd
}

// input is a line that is typed.
type input struct {
	label   string
	typed   string
	changed func(typed string)
	enter   func(typed string) (cmd tea.Cmd, done bool)
	esc     func()
}

// What happens beside keys: a look came back, the time for the next has come, an answer was given.
type (
	looked struct {
		fleet fleet
		err   error
		took  time.Duration
	}
	lookAgain struct{}
	answered  struct {
		prompt client.Prompt
		err    error
	}
)

func newTop(every time.Duration, look func() (fleet, error), answer func(client.Prompt, json.RawMessage) error) *top {
	m := &top{every: every, look: look, answer: answer, width: 80, height: 24}
	m.views = []topView{&sessionsView{m: m}}
	m.changed(m.view())
	return m
}

// Init implements tea.Model.
func (m *top) Init() tea.Cmd { return m.lookNow() }

func (m *top) lookNow() tea.Cmd {
	return func() tea.Msg {
		began := time.Now()
		f, err := m.look()
		return looked{f, err, time.Since(began)}
	}
}

// Update implements tea.Model.
func (m *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.changed(m.views...)
	case looked:
		if m.tell("", msg.err); msg.err == nil {
			m.fleet, m.seen = msg.fleet, true
			for _, v := range m.views {
				if _, apart := v.(*itemsView); !apart { // it reads its thread by itself
					m.changed(v)
				}
			}
		}
		return m, tea.Tick(max(m.every, busy*msg.took), func(time.Time) tea.Msg { return lookAgain{} })
	case lookAgain:
		return m, m.lookNow()
	case itemsCame:
		if slices.Contains(m.views, topView(msg.v)) {
			return m, msg.v.take(msg)
		}
	case itemsTick:
		if slices.Contains(m.views, topView(msg.v)) {
			return m, msg.v.tick()
		}
	case answered:
		m.tell(msg.prompt.ID+" is answered", msg.err)
	case tea.PasteMsg:
		m.typing(text.Line(msg.Content))
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// changed has views show what is now. The chosen row of each stays chosen.
func (m *top) changed(views ...topView) {
	for _, v := range views {
		v.refresh()
		v.where().refind(v, m.room())
	}
}

func (m *top) view() topView { return m.views[len(m.views)-1] }

func (m *top) push(v topView) tea.Cmd {
	m.tell("", nil)
	m.views = append(m.views, v)
	m.changed(v)
	if items, ok := v.(*itemsView); ok {
		return items.open()
	}
	return nil
}

// session finds a session of the fleet; nil: it is not there.
func (m *top) session(id string) *fleetSession {
	for i := range m.fleet.sessions {
		if m.fleet.sessions[i].ID == id {
			return &m.fleet.sessions[i]
		}
	}
	return nil
}

// tell puts a note at the bottom: an error in the place of what was done.
func (m *top) tell(done string, err error) {
	if m.note, m.failed = done, err != nil; m.failed {
		m.note = err.Error()
	}
}

// keys are those of the view, then those of all.
func (m *top) keys() []binding {
	v := m.view()
	l := v.where()
	move := func(by func() int) func() tea.Cmd {
		return func() tea.Cmd {
			l.choose(v, by(), m.room())
			if items, ok := v.(*itemsView); ok {
				return items.need()
			}
			return nil
		}
	}
	own := v.keys()
	all := []binding{
		{"up k", "↑ k", "the row above", "", move(func() int { return l.at - 1 })},
		{"down j", "↓ j", "the row below", "", move(func() int { return l.at + 1 })},
		{"pgup ctrl+b", "PgUp", "a screen up", "", move(func() int { return l.at - m.room() })},
		{"pgdown ctrl+f", "PgDn", "a screen down", "", move(func() int { return l.at + m.room() })},
		{"g home", "g Home", "the first row", "", move(func() int { return 0 })},
		{"G end", "G End", "the last row", "", move(func() int { return v.size() - 1 })},
		{"/", "/", "only rows with the words that are typed", "filter", m.startFilter},
		{"a", "a", "answer the question that waits", "answer", m.startAnswer},
		{"esc", "esc", "all rows again, or back to where one was", m.brief("", "back"), func() tea.Cmd {
			if l.filter != "" {
				l.filter = ""
				m.changed(v)
				return nil
			}
			return m.back()
		}},
		{"left h backspace", "←", "back to where one was", "", m.back},
		{"?", "?", "these keys", "", func() tea.Cmd { m.help = true; return nil }},
		{"q", "q", "end spool top", "quit", func() tea.Cmd { return tea.Quit }},
	}
	for _, b := range own { // what a view does with a key is not done otherwise
		all = slices.DeleteFunc(all, func(c binding) bool { return strings.Fields(c.keys)[0] == strings.Fields(b.keys)[0] })
	}
	return append(own, all...)
}

func (m *top) brief(alone, under string) string {
	if len(m.views) > 1 {
		return under
	}
	return alone
}

func (m *top) back() tea.Cmd {
	if len(m.views) > 1 {
		m.views = m.views[:len(m.views)-1]
		m.changed(m.view())
	}
	return nil
}

func (m *top) key(k tea.KeyPressMsg) tea.Cmd {
	switch pressed := k.String(); {
	case pressed == "ctrl+z":
		return tea.Suspend
	case pressed == "ctrl+c" && m.input == nil:
		return tea.Quit
	case m.input != nil:
		return m.edit(pressed, k.Text)
	case m.help && pressed != "q":
		m.help = false
	default:
		for _, b := range m.keys() {
			if slices.Contains(strings.Fields(b.keys), pressed) {
				return b.do()
			}
		}
	}
	return nil
}

// edit takes a key for the line that is typed.
func (m *top) edit(pressed, typed string) tea.Cmd {
	in := m.input
	switch pressed {
	case "ctrl+c", "esc":
		m.input = nil
		in.esc()
	case "backspace":
		if r := []rune(in.typed); len(r) > 0 {
			in.typed = string(r[:len(r)-1])
			in.changed(in.typed)
		}
	case "ctrl+u":
		in.typed = ""
		in.changed("")
	case "enter":
		cmd, done := in.enter(in.typed)
		if done {
			m.input = nil
		}
		return cmd
	default:
		m.typing(text.Printable(typed))
	}
	return nil
}

func (m *top) typing(s string) {
	if m.input != nil && s != "" {
		m.input.typed += s
		m.input.changed(m.input.typed)
	}
}

// startFilter shows the rows that have the words, as they are typed.
func (m *top) startFilter() tea.Cmd {
	v := m.view()
	set := func(words string) {
		v.where().filter = words
		m.changed(v)
	}
	m.input = &input{label: "/", typed: v.where().filter, changed: set, esc: func() { set("") },
		enter: func(string) (tea.Cmd, bool) { return nil, true }}
	return nil
}

// startAnswer asks for the answer to the first question of the view.
func (m *top) startAnswer() tea.Cmd {
	asked := m.view().questions()
	switch {
	case len(asked) == 0:
		m.tell("nothing waits for an answer here", nil)
		return nil
	case !asked[0].Answerable:
		m.tell("this is answered where its agent runs", nil)
		return nil
	}
	p, how := asked[0], "answer"
	if p.Kind == events.PromptApproval {
		how = "y or n"
	}
	m.tell("", nil)
	in := &input{changed: func(string) {}, esc: func() {}}
	label := func(how string) { in.label = text.Cut(text.Line(p.Text), m.width/2) + "  [" + how + "] " }
	label(how)
	in.enter = func(typed string) (tea.Cmd, bool) {
		value, ok := answerOf(p, typed)
		if !ok {
			label("answer y or n")
			return nil, false
		}
		m.tell("sending the answer", nil)
		return func() tea.Msg { return answered{p, m.answer(p, value)} }, true
	}
	m.input = in
	return nil
}

// answerOf is what was typed as the answer to a prompt, in JSON. An approval wants y or n.
func answerOf(p client.Prompt, typed string) (value json.RawMessage, ok bool) {
	if p.Kind == events.PromptApproval {
		switch strings.ToLower(strings.TrimSpace(typed)) {
		case "y", "yes":
			return json.RawMessage("true"), true
		case "n", "no":
			return json.RawMessage("false"), true
		}
		return nil, false
	}
	value, err := json.Marshal(typed)
	return value, err == nil && typed != ""
}

var (
	styleTitle = lipgloss.NewStyle().Bold(true)
	styleAt    = lipgloss.NewStyle().Reverse(true)
	styleDim   = lipgloss.NewStyle().Faint(true)
	styleNeeds = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleGood  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleBad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// View implements tea.Model.
func (m *top) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen, v.WindowTitle = true, "spool top"
	return v
}

// room is how many rows there is room for.
func (m *top) room() int { return max(m.height-4, 1) }

// lines are the screen: as many as it has, none wider than it.
func (m *top) lines() []string {
	summary := "looking …"
	if m.seen {
		summary = m.fleet.summary()
	}
	out := []string{styleTitle.Render(text.Cut("spool top  "+summary, m.width)), m.place()}
	if m.help {
		out = append(out, m.helpLines()...)
	} else {
		v := m.view()
		l := v.where()
		out = append(out, styleDim.Render(v.heading(m.width)))
		for i := l.first; i < min(l.first+m.room(), v.size()); i++ {
			out = append(out, v.row(i, m.width, i == l.at))
		}
		if v.size() == 0 && m.seen {
			out = append(out, text.Cut(v.nothing(), m.width))
		}
	}
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	out = append(out[:max(m.height-1, 0)], m.bottom())
	return out[max(len(out)-m.height, 0):]
}

// place is where one is, behind what waits for somebody.
func (m *top) place() string {
	waits, path, about := "", []string{}, ""
	if n := len(m.fleet.prompts); n > 0 {
		waits = text.Cut(text.Sprintf("%d questions without an answer", n), m.width)
	}
	for _, v := range m.views {
		name := v.name()
		if f := v.where().filter; f != "" {
			name += " /" + f
		}
		path = append(path, name)
		if threads, ok := v.(*threadsView); ok && threads.of != nil {
			about = "  " + threads.of.Name()
		}
	}
	at := strings.Join(path, " › ")
	if at == "sessions" {
		at = ""
	}
	if waits != "" {
		at = "  " + at
	}
	if room := m.width - text.Width(waits); room > 4 {
		return styleNeeds.Render(waits) + text.Cut(text.Printable(at+about), room)
	}
	return styleNeeds.Render(waits)
}

func (m *top) helpLines() (out []string) {
	column := 0
	all := m.keys()
	for _, b := range all {
		column = max(column, text.Width(b.shown)+2)
	}
	for _, b := range all {
		out = append(out, text.Cut(text.Fit(b.shown, column)+b.does, m.width))
	}
	return out
}

func (m *top) bottom() string {
	line := func(style lipgloss.Style, s string) string { return style.Render(text.Cut(s, m.width)) }
	switch {
	case m.input != nil:
		return line(styleNeeds, m.input.label+m.input.typed+"▏")
	case m.failed:
		return line(styleBad, text.Line(m.note))
	case m.note != "":
		return line(styleGood, text.Line(m.note))
	case m.help:
		return line(styleDim, "any key: back")
	}
	out := "? keys"
	for _, b := range m.keys() {
		key, _, _ := strings.Cut(b.shown, " ")
		more := out + "  " + key + " " + b.brief
		if b.brief != "" && text.Width(more) <= m.width { // of a narrow screen what is left out is behind ?
			out = more
		}
	}
	return line(styleDim, out)
}

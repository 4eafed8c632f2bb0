package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"spool/internal/project"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// top is the screen of spool top: what is seen, what is chosen, and a question that is being answered.
type top struct {
	every  time.Duration
	look   func() (fleet, error)
	answer func(client.Prompt, json.RawMessage) error

	width, height int
	fleet         fleet
	seen          bool
	short         map[string]string // of the ids that programs made up, as in a listing
	named         int               // width of the column of sessions
	chosen        string            // session; the cursor stays with it when the rows move
	first         int               // row that is at the top of the screen
	inside        bool              // the chosen session's threads are shown
	note          string            // what was done, or went wrong
	failed        bool              // note says what went wrong

	asked *client.Prompt // being answered
	typed string
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

func newTop(every time.Duration, look func() (fleet, error), answer func(client.Prompt, json.RawMessage) error) top {
	return top{every: every, look: look, answer: answer, width: 80, height: 24}
}

// Init implements tea.Model.
func (m top) Init() tea.Cmd { return m.lookNow() }

func (m top) lookNow() tea.Cmd {
	return func() tea.Msg {
		began := time.Now()
		f, err := m.look()
		return looked{f, err, time.Since(began)}
	}
}

// Update implements tea.Model.
func (m top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.scroll()
	case looked:
		if m.tell("", msg.err); msg.err == nil {
			m.fleet, m.seen = msg.fleet, true
			m.shorten()
			m.choose(m.at())
		}
		return m, tea.Tick(max(m.every, busy*msg.took), func(time.Time) tea.Msg { return lookAgain{} })
	case lookAgain:
		return m, m.lookNow()
	case answered:
		m.tell(msg.prompt.ID+" is answered", msg.err)
	case tea.PasteMsg:
		m.typed += text.Line(msg.Content)
	case tea.KeyPressMsg:
		if m.asked != nil {
			return m.typing(msg)
		}
		return m.key(msg)
	}
	return m, nil
}

// shorten finds how the sessions are shown.
func (m *top) shorten() {
	ids := make([]string, len(m.fleet.sessions))
	for i := range ids {
		ids[i] = m.fleet.sessions[i].ID
	}
	m.short, m.named = shortid.Shorten(ids), 0
	for _, id := range ids {
		m.named = max(m.named, text.Width(cmp.Or(m.short[id], id)))
	}
	m.named = min(max(m.named, len("SESSION"))+2, nameColumn)
}

// nameColumn is the most columns of a screen for the name of a session or a thread.
const nameColumn = 22

// tell puts a note at the bottom: an error in the place of what was done.
func (m *top) tell(done string, err error) {
	if m.note, m.failed = done, err != nil; m.failed {
		m.note = err.Error()
	}
}

func (m top) key(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch k.String() {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "esc", "left", "backspace":
		m.inside = false
	case "enter", "right":
		m.inside = m.current() != nil
	case "up", "k":
		m.choose(m.at() - 1)
	case "down", "j":
		m.choose(m.at() + 1)
	case "pgup":
		m.choose(m.at() - m.rows())
	case "pgdown":
		m.choose(m.at() + m.rows())
	case "home", "g":
		m.choose(0)
	case "end", "G":
		m.choose(len(m.fleet.sessions) - 1)
	case "a":
		s := m.current()
		switch {
		case s == nil || len(s.prompts) == 0:
			m.tell("nothing waits for an answer here", nil)
		case !s.prompts[0].Answerable:
			m.tell("this is answered where its agent runs", nil)
		default:
			m.asked, m.typed = &s.prompts[0], ""
			m.tell("", nil)
		}
	}
	return m, nil
}

// typing takes the answer to a question.
func (m top) typing(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch k.String() {
	case "ctrl+c", "esc":
		m.asked = nil
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	case "enter":
		value, ok := answerOf(*m.asked, m.typed)
		if !ok {
			m.tell("answer y or n", nil)
			return m, nil
		}
		p := *m.asked
		m.asked = nil
		m.tell("sending the answer", nil)
		return m, func() tea.Msg { return answered{p, m.answer(p, value)} }
	default:
		m.typed += text.Line(k.Text)
	}
	return m, nil
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

// at is the row of the chosen session; one that is gone leaves the first.
func (m *top) at() int {
	for i := range m.fleet.sessions {
		if m.fleet.sessions[i].ID == m.chosen {
			return i
		}
	}
	return 0
}

func (m *top) choose(i int) {
	if len(m.fleet.sessions) == 0 {
		m.chosen, m.inside = "", false
		return
	}
	i = min(max(i, 0), len(m.fleet.sessions)-1)
	if id := m.fleet.sessions[i].ID; id != m.chosen {
		m.chosen, m.inside = id, false
	}
	m.scroll()
}

func (m *top) current() *fleetSession {
	if len(m.fleet.sessions) == 0 {
		return nil
	}
	return &m.fleet.sessions[m.at()]
}

// rows is how many sessions there is room for.
func (m *top) rows() int { return max(m.height-4, 1) }

// scroll keeps the chosen row on the screen.
func (m *top) scroll() {
	at := m.at()
	m.first = min(m.first, at, max(len(m.fleet.sessions)-m.rows(), 0))
	m.first = max(m.first, at-m.rows()+1, 0)
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
func (m top) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen, v.WindowTitle = true, "spool top"
	return v
}

// lines are the screen: as many as it has, none wider than it.
func (m top) lines() []string {
	summary, waits := "looking …", ""
	if m.seen {
		summary = m.fleet.summary()
		if n := len(m.fleet.prompts); n > 0 {
			waits = text.Sprintf("%d questions without an answer", n)
		}
	}
	out := []string{styleTitle.Render(text.Cut("spool top  "+summary, m.width)), styleNeeds.Render(text.Cut(waits, m.width))}
	s := m.current()
	switch {
	case m.inside && s != nil:
		out = append(out, m.threads(s)...)
	default:
		out = append(out, styleDim.Render(row(m.width, m.named, "SESSION", "HARNESS", "STATE", "ITEMS/S", "MESSAGES", "AGE", "WHAT")))
		for i := m.first; i < min(m.first+m.rows(), len(m.fleet.sessions)); i++ {
			out = append(out, m.session(&m.fleet.sessions[i]))
		}
		if m.seen && s == nil {
			out = append(out, text.Cut("no sessions yet: spool import, spool publish, spool exec", m.width))
		}
	}
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	out = append(out[:max(m.height-1, 0)], m.bottom())
	return out[max(len(out)-m.height, 0):]
}

func (m top) bottom() string {
	switch {
	case m.asked != nil:
		how := "answer"
		if m.asked.Kind == events.PromptApproval {
			how = "y or n"
		}
		ask := text.Cut(text.Line(m.asked.Text), m.width/2)
		if m.note != "" {
			how = m.note
		}
		return styleNeeds.Render(text.Cut(fmt.Sprintf("%s  [%s] %s▏", ask, how, m.typed), m.width))
	case m.failed:
		return styleBad.Render(text.Cut(text.Line(m.note), m.width))
	case m.note != "":
		return styleGood.Render(text.Cut(text.Line(m.note), m.width))
	case m.inside:
		return styleDim.Render(text.Cut("esc back  a answer  q quit", m.width))
	}
	return styleDim.Render(text.Cut("↑ ↓ choose  enter threads  a answer  q quit", m.width))
}

// row lays cells out in a line as wide as the screen; the first one has named columns, and the last one what is left.
func row(width, named int, cells ...string) string {
	columns := [...]int{named, 8, 12, 8, 9, 11}
	var b strings.Builder
	left := width
	for i, c := range cells {
		n := left
		if i < len(cells)-1 {
			n = min(columns[i], left)
		}
		left -= n
		switch {
		case n < 2:
			c = ""
		case i == 3, i == 4: // numbers
			c = text.Right(c, n-1)
		default:
			c = text.Cut(c, n-1)
		}
		b.WriteString(text.Fit(c, n))
	}
	return b.String()
}

func (m top) session(s *fleetSession) string {
	rate := ""
	if s.rate > 0 {
		rate = fmt.Sprintf("%.1f", s.rate)
	}
	l := row(m.width, m.named, cmp.Or(m.short[s.ID], s.ID), text.Line(s.Agent()), s.state(), rate, fmt.Sprint(s.Messages),
		text.Ago(s.Modified, m.fleet.at), text.Line(s.what()))
	switch {
	case s.ID == m.chosen:
		return styleAt.Render(l)
	case len(s.prompts) > 0:
		return styleNeeds.Render(l)
	case s.runs > 0:
		return styleGood.Render(l)
	case s.Status == sessions.StatusError:
		return styleBad.Render(l)
	}
	return l
}

// threads shows what is in a session.
func (m top) threads(s *fleetSession) []string {
	out := []string{styleTitle.Render(text.Cut(s.ID+"  "+text.Line(s.Name()), m.width)),
		styleDim.Render(row(m.width, nameColumn, "THREAD", "DIALECT", "STATUS", "ITEMS", "ENTRIES", "AGE", "TOKENS IN/OUT"))}
	for _, t := range s.threads {
		h, open := &t.Head, project.OpenTurn(&t.Head)
		out = append(out, row(m.width, nameColumn, t.Name, h.Dialect, h.Status.String(), fmt.Sprint(h.N), fmt.Sprint(h.Entries),
			text.Ago(h.Updated, m.fleet.at),
			fmt.Sprintf("%d/%d", h.TokensIn+open.InputTokens, h.TokensOut+open.OutputTokens)))
	}
	for _, p := range s.prompts {
		out = append(out, styleNeeds.Render(text.Cut("? "+text.Line(p.Text), m.width)))
	}
	return out
}

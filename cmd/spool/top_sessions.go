package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"spool/internal/project"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
)

// nameColumn is the most columns of a screen for the name of a session or a thread.
const nameColumn = 22

// sessionsView is the fleet: a row a session.
type sessionsView struct {
	cursor
	m        *top
	shown    []*fleetSession
	short    map[string]string // of the ids that programs made up, as in a listing
	named    int               // width of the column of sessions
	texts    []string          // that a filter looks in; nil: it was not asked for yet
	as       time.Time         // of the fleet that they are of
	order    string            // title of the column that rows are sorted by; "": who needs somebody first, then the newest
	reversed bool
}

// orders are what rows can be sorted by, each the highest first; names begin with the lowest.
var orders = []struct {
	key, title string
	compare    func(a, b *fleetSession) int
}{
	{"A", "AGE", func(a, b *fleetSession) int { return cmp.Compare(b.Modified, a.Modified) }},
	{"M", "MESSAGES", func(a, b *fleetSession) int { return cmp.Compare(b.Messages, a.Messages) }},
	{"R", "ITEMS/S", func(a, b *fleetSession) int { return cmp.Compare(b.rate, a.rate) }},
	{"S", "STATE", func(a, b *fleetSession) int { return cmp.Compare(a.form.State, b.form.State) }},
	{"P", "PROJECT", func(a, b *fleetSession) int { return cmp.Compare(a.Cwd, b.Cwd) }},
	{"W", "WHAT", func(a, b *fleetSession) int { return cmp.Compare(strings.ToLower(a.what()), strings.ToLower(b.what())) }},
}

func (v *sessionsView) name() string { return "sessions" }

func (v *sessionsView) nothing() string {
	if v.filter != "" {
		return "no session is like that"
	}
	return "no sessions yet: spool import, spool publish, spool exec"
}

func (v *sessionsView) refresh() {
	all := v.m.fleet.sessions
	if !v.as.Equal(v.m.fleet.at) || v.named == 0 {
		v.shorten()
	}
	if v.filter != "" && v.texts == nil {
		v.texts = make([]string, len(all))
		for i := range all {
			s := &all[i]
			v.texts[i] = lower(s.ID, s.Name(), s.what(), s.Cwd, s.Agent(), s.form.State)
		}
	}
	v.shown = v.shown[:0]
	for i := range all {
		if v.filter == "" || v.in(v.texts[i]) {
			v.shown = append(v.shown, &all[i])
		}
	}
	for _, o := range orders {
		if o.title == v.order {
			slices.SortStableFunc(v.shown, func(a, b *fleetSession) int {
				if v.reversed {
					a, b = b, a
				}
				return o.compare(a, b)
			})
		}
	}
}

// shorten finds how the sessions are shown.
func (v *sessionsView) shorten() {
	ids := make([]string, len(v.m.fleet.sessions))
	for i := range ids {
		ids[i] = v.m.fleet.sessions[i].ID
	}
	v.short, v.named, v.as, v.texts = shortid.Shorten(ids), 0, v.m.fleet.at, nil
	for _, id := range ids {
		v.named = max(v.named, text.Width(cmp.Or(v.short[id], id)))
	}
	v.named = min(max(v.named, len("SESSION"))+2, nameColumn)
}

func (v *sessionsView) columns() []column {
	return []column{{title: "SESSION", width: v.named}, {title: "HARNESS", width: 8, spare: 3}, {title: "STATE", width: 12},
		{title: "ITEMS/S", width: 8, right: true, spare: 4}, {title: "MESSAGES", width: 9, right: true, spare: 5},
		{title: "AGE", width: 11, spare: 2}, {title: "PROJECT", width: 16, spare: 6}, {title: "WHAT"}}
}

func (v *sessionsView) heading(width int) string {
	return tableRow(v.columns(), width, func(title string) string {
		switch {
		case title != v.order:
			return title
		case v.reversed:
			return title + "↑"
		}
		return title + "↓"
	})
}

func (v *sessionsView) size() int      { return len(v.shown) }
func (v *sessionsView) id(i int) rowID { return rowID{name: v.shown[i].ID} }

func (v *sessionsView) row(i, width int, chosen bool) string {
	s := v.shown[i]
	l := tableRow(v.columns(), width, func(title string) string {
		switch title {
		case "SESSION":
			return cmp.Or(v.short[s.ID], s.ID)
		case "HARNESS":
			return text.Line(s.Agent())
		case "STATE":
			return s.form.State
		case "ITEMS/S":
			if s.rate == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f", s.rate)
		case "MESSAGES":
			return fmt.Sprint(s.Messages)
		case "AGE":
			return text.Ago(s.Modified, v.m.fleet.at)
		case "PROJECT":
			if s.Cwd == "" {
				return ""
			}
			return text.Line(path.Base(s.Cwd))
		}
		return text.Line(s.what())
	})
	switch {
	case chosen:
		return styleAt.Render(l)
	case s.form.State == view.Waiting:
		return styleNeeds.Render(l)
	case s.form.State == view.Running:
		return styleGood.Render(l)
	case s.form.State == view.Failed:
		return styleBad.Render(l)
	}
	return l
}

func (v *sessionsView) current() *fleetSession {
	if len(v.shown) == 0 {
		return nil
	}
	return v.shown[v.at]
}

func (v *sessionsView) questions() []client.Prompt {
	if s := v.current(); s != nil {
		return s.prompts
	}
	return nil
}

func (v *sessionsView) keys() []binding {
	out := []binding{{"enter right l", "enter →", "the threads of the session", "threads", func() tea.Cmd {
		if s := v.current(); s != nil {
			return v.m.push(&threadsView{m: v.m, session: s.ID, short: v.short[s.ID]})
		}
		return nil
	}}}
	for _, o := range orders {
		out = append(out, binding{o.key, o.key, "sort by " + strings.ToLower(o.title) + ", once more the other way round, then as before", "",
			func() tea.Cmd {
				switch {
				case v.order != o.title:
					v.order, v.reversed = o.title, false
				case !v.reversed:
					v.reversed = true
				default:
					v.order, v.reversed = "", false
				}
				v.m.changed(v)
				return nil
			}})
	}
	return out
}

// threadsView is a session: a row a thread, then a row a question that waits.
type threadsView struct {
	cursor
	m       *top
	session string
	short   string        // of its id, as the fleet shows it
	of      *fleetSession // nil: it is gone
	shown   []client.Thread
	asked   []client.Prompt
}

func (v *threadsView) name() string { return cmp.Or(v.short, v.session) }

func (v *threadsView) nothing() string {
	switch {
	case v.of == nil:
		return "this session is not there"
	case v.filter != "":
		return "no thread is like that"
	}
	return "this session has no threads"
}

func (v *threadsView) refresh() {
	v.of, v.shown, v.asked = v.m.session(v.session), nil, nil
	if v.of == nil {
		return
	}
	for _, t := range v.of.threads {
		if v.has(t.Name, t.Head.Dialect, t.Head.Status.String()) {
			v.shown = append(v.shown, t)
		}
	}
	for _, p := range v.of.prompts {
		if v.has(p.Text, p.ID) {
			v.asked = append(v.asked, p)
		}
	}
}

var threadColumns = []column{{title: "THREAD", width: nameColumn}, {title: "DIALECT", width: 8, spare: 3}, {title: "STATUS", width: 12},
	{title: "ITEMS", width: 8, right: true}, {title: "ENTRIES", width: 9, right: true, spare: 2}, {title: "AGE", width: 11, spare: 1},
	{title: "TOKENS IN/OUT"}}

func (v *threadsView) heading(width int) string {
	return tableRow(threadColumns, width, func(title string) string { return title })
}

func (v *threadsView) size() int { return len(v.shown) + len(v.asked) }

func (v *threadsView) id(i int) rowID {
	if i < len(v.shown) {
		return rowID{name: v.shown[i].Name}
	}
	p := v.asked[i-len(v.shown)]
	return rowID{name: p.Thread.Name + " " + p.ID}
}

func (v *threadsView) row(i, width int, chosen bool) string {
	if i >= len(v.shown) {
		l := text.Cut("? "+text.Line(v.asked[i-len(v.shown)].Text), width)
		if chosen {
			return styleAt.Render(text.Fit(l, width))
		}
		return styleNeeds.Render(l)
	}
	t := v.shown[i]
	h := &t.Head
	l := tableRow(threadColumns, width, func(title string) string {
		switch title {
		case "THREAD":
			return t.Name
		case "DIALECT":
			return text.Line(h.Dialect)
		case "STATUS":
			return h.Status.String()
		case "ITEMS":
			return fmt.Sprint(h.N)
		case "ENTRIES":
			return fmt.Sprint(h.Entries)
		case "AGE":
			return text.Ago(h.Updated, v.m.fleet.at)
		}
		open := project.OpenTurn(h)
		return fmt.Sprintf("%d/%d", h.TokensIn+open.InputTokens, h.TokensOut+open.OutputTokens)
	})
	if chosen {
		return styleAt.Render(l)
	}
	return l
}

// questions are the one that is chosen, or all of the session.
func (v *threadsView) questions() []client.Prompt {
	if i := v.at - len(v.shown); i >= 0 && i < len(v.asked) {
		return v.asked[i:]
	}
	return v.asked
}

func (v *threadsView) keys() []binding {
	return []binding{{"enter right l", "enter →", "the items of the thread, or where the question is asked", "items", func() tea.Cmd {
		switch i := v.at - len(v.shown); {
		case v.size() == 0:
			return nil
		case i < 0:
			return v.m.push(newItemsView(v.m, events.Thread{Session: v.session, Name: v.shown[v.at].Name}, 0))
		default:
			return v.m.push(newItemsView(v.m, v.asked[i].Thread, v.asked[i].Item))
		}
	}}}
}

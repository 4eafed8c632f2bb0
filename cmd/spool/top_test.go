package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/show"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

var topTime = time.UnixMilli(1_790_000_000_000)

// fleetOf is a look at n sessions, the last of which asks something.
func fleetOf(n int, before *fleet) fleet {
	f := fleet{at: topTime, ends: map[string]int64{}, seqs: map[string]uint64{events.EventsStream: 10, events.ItemsStream: 20}}
	if before != nil {
		f.at = before.at.Add(2 * time.Second)
		f.seqs = map[string]uint64{events.EventsStream: 30, events.ItemsStream: 60}
	}
	var list []client.Session
	for i := range n {
		id := fmt.Sprintf("s%03d", i)
		head := threads.Head{N: int64(10 * (i + 1)), Updated: topTime.UnixMilli() - int64(i)*60_000, Status: threads.StatusActive}
		if before != nil && i == 0 {
			head.N += 6
		}
		list = append(list, client.Session{Info: sessions.Info{ID: id, Title: "果樹園 " + strings.Repeat("木", 60) + id},
			Threads: []client.Thread{{Thread: events.Thread{Session: id, Name: "main"}, Head: head}}})
	}
	if n > 0 {
		f.prompts = []client.Prompt{{Thread: events.Thread{Session: list[n-1].ID, Name: "main"}, Answerable: true,
			Prompt: events.Prompt{ID: "ship", Kind: events.PromptApproval, Text: "Ship\x1b[2J it?"}}}
	}
	f.arrange(list, before)
	return f
}

// press gives keys to the screen, and runs what they ask for.
func press(t *testing.T, m *top, keys ...string) tea.Cmd {
	t.Helper()
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome, "backspace": tea.KeyBackspace}
	var cmd tea.Cmd
	for _, k := range keys {
		key := tea.KeyPressMsg{Code: codes[k]}
		switch held, ctrl := strings.CutPrefix(k, "ctrl+"); {
		case ctrl:
			key = tea.KeyPressMsg{Code: []rune(held)[0], Mod: tea.ModCtrl}
		case k == "space":
			key = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		case key.Code == 0:
			key = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		_, cmd = m.Update(key)
	}
	return cmd
}

func update(m *top, msg tea.Msg) *top {
	m.Update(msg)
	return m
}

// screen is what is seen: lines without colours and without what is empty at their ends.
func screen(m *top) string {
	lines := m.lines()
	for i := range lines {
		lines[i] = strings.TrimRight(coloured.ReplaceAllString(lines[i], ""), " ")
	}
	return strings.Join(lines, "\n")
}

// shows holds the screen to parts that it has, and to others that it has not, which begin with a "!".
func shows(t *testing.T, m *top, parts ...string) {
	t.Helper()
	all := screen(m)
	for _, p := range parts {
		if not, without := strings.CutPrefix(p, "!"); strings.Contains(all, not) == without {
			t.Errorf("the screen is\n%s\nwant %q", all, p)
		}
	}
}

// An id on the screen is one that commands take.
func TestTopShortensIDs(t *testing.T) {
	f := fleetOf(2, nil)
	f.sessions[0].ID, f.sessions[1].ID = "d703a1a9-1b7b-4fb1-b512-c9738b1fe617", "0cf3db51-1c73-43bb-8d05-dc02739514a5"
	all := strings.Join(update(newTop(time.Second, nil, nil), looked{fleet: f}).lines(), "\n")
	for _, id := range []string{"d703a1a9 ", "0cf3db51 ", "SESSION   HARNESS"} {
		if !strings.Contains(all, id) {
			t.Errorf("%q is not on the screen:\n%s", id, all)
		}
	}
}

// TestTopOnceShortensIDs: where the table of spool top --once does not fit, an id is as short as every command takes it.
func TestTopOnceShortensIDs(t *testing.T) {
	f := fleet{at: topTime, ends: map[string]int64{}}
	var list []client.Session
	for _, id := range []string{"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15"} {
		list = append(list, client.Session{Info: sessions.Info{ID: id, Title: strings.Repeat("word ", 30)}})
	}
	f.arrange(list, nil)
	var out strings.Builder
	table := text.NewTable(&out)
	table.Columns = 60
	must.Do(t, f.write(table))
	if !strings.Contains(out.String(), "\n019aa0c4  ") || !strings.Contains(out.String(), "\n019aa0d2  ") {
		t.Errorf("top --once in 60 columns:\n%s\nwant 019aa0c4 and 019aa0d2", &out)
	}
}

// The screen has its size, whatever is on it.
func TestTopFits(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		for _, size := range [][2]int{{80, 24}, {200, 50}, {30, 6}, {5, 2}, {1, 1}} {
			m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(n, nil)})
			m = update(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m.read = threadOf(30)
			for _, keys := range [][]string{nil, {"end"}, {"?"}, {"x", "/", "s"}, {"enter", "enter"}, {"a", "y"}, {"esc", "enter"}, {"?"}} {
				if cmd := press(t, m, keys...); cmd != nil {
					update(m, cmd())
				}
				lines := m.lines()
				must.Same(t, len(lines), size[1], "%d sessions on %v after %v: %d lines, want %d", n, size, keys)
				for _, l := range lines {
					if lipgloss.Width(l) > size[0] || strings.Contains(l, "\x1b[2J") {
						t.Errorf("%d sessions on %v after %v: line %q has %d columns", n, size, keys, l, lipgloss.Width(l))
					}
				}
			}
		}
	}
}

func TestTopRows(t *testing.T) {
	first := fleetOf(100, nil)
	f := fleetOf(100, &first)
	if f.sessions[0].ID != "s099" || f.sessions[0].form.State != "waiting" || f.sessions[1].ID != "s000" || f.sessions[99].ID != "s098" {
		t.Errorf("rows begin with %s, %s, end with %s, want s099, s000, s098", f.sessions[0].ID, f.sessions[1].ID, f.sessions[99].ID)
	}
	if f.events != 10 || f.items != 20 || f.sessions[1].rate != 3 || f.sessions[2].rate != 0 {
		t.Errorf("rates = %v, %v, %v, %v, want 10, 20, 3, 0", f.events, f.items, f.sessions[1].rate, f.sessions[2].rate)
	}
	m := update(newTop(time.Second, nil, nil), looked{fleet: f})
	press(t, m, "down", "down")
	v := m.view().(*sessionsView)
	must.Same(t, v.current().ID, "s001", "two down: %q, want %q")
	update(m, looked{fleet: fleetOf(1, nil)})
	if v.current().ID != "s000" || v.first != 0 {
		t.Errorf("after the chosen session went: %q at %d, want s000 at 0", v.current().ID, v.first)
	}
	m = update(update(m, looked{fleet: fleetOf(0, nil)}), looked{err: fmt.Errorf("no server")})
	if all := strings.Join(m.lines(), "\n"); !strings.Contains(all, "no sessions yet") || !strings.Contains(all, "no server") {
		t.Errorf("an empty fleet without its server:\n%s", all)
	}
	if cmd := press(t, m, "q"); cmd == nil {
		t.Error("q does not end it")
	} else if _, ok := cmd().(tea.QuitMsg); !ok {
		t.Error("q does not end it")
	}
}

func TestTopAnswers(t *testing.T) {
	var got string
	m := newTop(time.Second, nil, func(p client.Prompt, answer json.RawMessage) error {
		got = p.Thread.String() + " " + p.ID + " " + string(answer)
		return nil
	})
	m = update(m, looked{fleet: fleetOf(3, nil)})
	cmd := press(t, m, "a", "x", "enter")
	if m.input == nil || cmd != nil {
		t.Fatal("x was taken for the answer to an approval")
	}
	cmd = press(t, m, "backspace", "q", "backspace", "y", "enter")
	if m.input != nil || cmd == nil {
		t.Fatal("y was not taken")
	}
	m = update(m, cmd())
	if got != "s002/main ship true" || m.note != "ship is answered" {
		t.Errorf("answered %q, note %q, want s002/main ship true", got, m.note)
	}
	press(t, m, "down", "a")
	if m.input != nil || m.note == "" {
		t.Error("a session that asks nothing was answered")
	}
}

// threadOf are threads of n items: prompts of one line, calls and results of twelve lines.
func threadOf(n int64) func(events.Thread, span) (itemsRead, error) {
	return func(_ events.Thread, s span) (out itemsRead, _ error) {
		from, to := s.from, n
		if out.last = n; s.from == 0 {
			if s.before > 0 {
				to = s.before - 1
			}
			from = max(to-int64(s.most)+1, 1)
		}
		for i := from; i <= min(to, from+int64(s.most)-1); i++ {
			meta, said := `"type":"message"`, fmt.Sprintf("Say %d\x1b[2J", i)
			switch i % 3 {
			case 1:
				said = fmt.Sprintf("Bash → make %d\x1b[9D", i)
				meta = fmt.Sprintf(`"type":"tool_call","tool":{"name":"Bash\u001b]0;x\u0007\t","invocation_id":"%d"}`, i)
			case 2:
				said = "→ made"
				meta = fmt.Sprintf(`"type":"tool_result","tool":{"invocation_id":"%d","output":"%sby %[1]d"}`, i-1,
					strings.Repeat(`made\u202e \u009b2J\n`, 12))
			}
			it := show.Read(fmt.Appendf(nil, `{"n":%d,"session":"s","thread":"main","content":[{"type":"text","text":%s}],"metadata":{%s}}`,
				i, quotedJSON(said), meta))
			out.items = append(out.items, itemRead{it, 1000})
		}
		return out, nil
	}
}

// TestTopFilters: the rows that have the words, as they are typed; Esc shows all of them again.
func TestTopFilters(t *testing.T) {
	f := fleetOf(30, nil)
	f.sessions[3].Cwd, f.sessions[4].Harness = "/home/mira/Orchard", "codex"
	m := update(newTop(time.Second, nil, nil), looked{fleet: f})
	for _, c := range []struct {
		words string
		want  int
	}{{"s01", 10}, {"orchard", 1}, {"CODEX", 1}, {"waiting", 1}, {"果樹園 s02", 10}, {"nothing like it", 0}} {
		press(t, m, "/")
		for _, r := range c.words {
			press(t, m, string(r))
		}
		must.Same(t, m.view().size(), c.want, "/%s: %d sessions, want %d", c.words)
		shows(t, m, " /"+c.words)
		press(t, m, "esc")
		must.Same(t, m.view().size(), 30, "after Esc: %d sessions, want %d")
	}
	press(t, m, "/", "s", "0", "1", "5", "enter", "q", "esc")
	if m.input != nil || m.view().size() != 30 {
		t.Error("Enter, then Esc: the filter is there still")
	}
	press(t, m, "/", "q", "ctrl+u", "z", "z")
	shows(t, m, "no session is like that", "/zz▏")
}

// TestTopSorts: a key sorts, again it turns the order round, again it is as before; the chosen session stays chosen.
func TestTopSorts(t *testing.T) {
	f := fleetOf(5, nil)
	for i := range f.sessions {
		f.sessions[i].Messages = int64(len(f.sessions) - i*i)
	}
	m := update(newTop(time.Second, nil, nil), looked{fleet: f})
	v := m.view().(*sessionsView)
	order := func() (out string) {
		for _, s := range v.shown {
			out += s.ID[3:]
		}
		return out
	}
	press(t, m, "down")
	for _, want := range []string{"40123", "32104", "40123"} {
		press(t, m, "M")
		must.Same(t, order(), want, "sessions are in the order %s, want %s")
		must.Same(t, v.current().ID, "s000", "%s is chosen, want %s")
	}
	press(t, m, "A")
	must.Same(t, order(), "01234", "the newest first: %s, want %s")
	shows(t, m, "AGE↓")
}

// TestTopItems goes down to the items of a thread, through them, and back to where one was.
func TestTopItems(t *testing.T) {
	n := int64(90)
	m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(3, nil)})
	m.read = func(t events.Thread, s span) (itemsRead, error) { return threadOf(n)(t, s) }
	run := func(cmd tea.Cmd) {
		t.Helper()
		if cmd == nil {
			t.Fatal("nothing is read")
		}
		update(m, cmd())
	}
	press(t, m, "down", "enter")
	shows(t, m, "sessions › s000", "THREAD", "main", "esc back")
	cmd := press(t, m, "enter")
	shows(t, m, "reading …")
	run(cmd)
	v := m.view().(*itemsView)
	shows(t, m, "sessions › s000 › main  果樹園", "items 1 to 90 of 90, following", "User  #90\n  Say 90·[2J",
		"└ ✓ #89 13 lines", "… 5 more lines (enter)", "made· ·2J")

	// A result is unfolded and folded where it is.
	press(t, m, "up", "up", "up", "enter")
	press(t, m, "pgdown")
	shows(t, m, "by 88", "!more lines (enter)\n\nUser  #90")
	press(t, m, "up", "up", "up", "space")
	shows(t, m, "!by 88", "… 5 more lines (enter)")

	// Who is at the end follows; who is not is told.
	n = 92
	run(v.tick())
	shows(t, m, "items 1 to 90 of 92, 2 items below", "!#91")
	run(press(t, m, "G"))
	n = 93
	run(v.tick())
	shows(t, m, "items 1 to 93 of 93, following", "Say 93")
	press(t, m, "g")
	shows(t, m, "Bash·]0;x·", "make 1·[9D")
	must.Same(t, v.at, 0, "at line %d, want %d")

	press(t, m, "/", "S", "a", "y", " ", "4", "5")
	shows(t, m, "those with the words among items 1 to 93", "Say 45", "!Say 48")
	press(t, m, "enter", "esc")
	shows(t, m, "!those with")
	press(t, m, "]", "]")
	must.Same(t, v.lines[v.at].n, 51, "two prompts on: item %d, want %d")
	press(t, m, "esc", "left")
	must.Same(t, m.view().(*sessionsView).current().ID, "s000", "back: %s is chosen, want %s")
}

// TestTopLongThread: of a thread of 100,000 items a part is kept; it begins at its end, and each place is reached.
func TestTopLongThread(t *testing.T) {
	m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(1, nil)})
	m.read = threadOf(100_000)
	press(t, m, "enter")
	update(m, press(t, m, "enter")())
	v := m.view().(*itemsView)
	shows(t, m, "items 99901 to 100000 of 100000, following")
	most := 0
	for v.start() > 98_000 {
		seen := v.lines[v.first].n
		if cmd := press(t, m, "pgup"); cmd != nil {
			top := v.lines[v.first]
			update(m, cmd())
			if v.lines[v.first] != top {
				t.Fatalf("reading on moved the screen from %v to %v", top, v.lines[v.first])
			}
		} else if v.lines[v.first].n > seen {
			t.Fatalf("a screen up is at item %d, below %d", v.lines[v.first].n, seen)
		}
		most = max(most, len(v.items))
	}
	if most > mostItems || v.end() == v.last {
		t.Errorf("%d items are kept, to %d, want %d at most", most, v.end(), mostItems)
	}
	update(m, press(t, m, "G")())
	late := press(t, m, "g")
	shows(t, m, "items 99901 to 100000 of 100000, reading …")
	press(t, m, "G")
	update(m, late())
	shows(t, m, "items 99901 to 100000 of 100000, following", "!reading")
	update(m, press(t, m, "g")())
	shows(t, m, "items 1 to 100 of 100000, 99900 items below", "make 1")
	for v.end() < 1_000 {
		if cmd := press(t, m, "pgdown"); cmd != nil {
			update(m, cmd())
		}
	}
	update(m, press(t, m, "G")())
	shows(t, m, "items 99901 to 100000 of 100000, following")
}

// TestTopHelp: the keys of the view, then those of all.
func TestTopHelp(t *testing.T) {
	m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(3, nil)})
	press(t, m, "?")
	shows(t, m, "the threads of the session", "only rows with the words", "end spool top", "any key: back", "!s000")
	press(t, m, "x")
	shows(t, m, "s000", "? keys")
	if _, ok := press(t, m, "ctrl+z")().(tea.SuspendMsg); !ok {
		t.Error("Ctrl-Z does not suspend it")
	}
	if _, ok := press(t, m, "ctrl+c")().(tea.QuitMsg); !ok {
		t.Error("Ctrl-C does not end it")
	}
}

// TestTopNarrow: where there is no room the columns go that say least, and what a session asks stays.
func TestTopNarrow(t *testing.T) {
	m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(3, nil)})
	update(m, tea.WindowSizeMsg{Width: 40, Height: 24})
	shows(t, m, "SESSION  STATE       WHAT", "s002     waiting     ? Ship·[2J it?", "? keys", "q quit")
	if foot := screen(m)[strings.LastIndex(screen(m), "? keys"):]; strings.Contains(foot, "…") {
		t.Errorf("the foot is cut: %q", foot)
	}
}

// A look at a system without persisters and without sessions is a whole one.
func TestTopLooks(t *testing.T) {
	conn := natstest.Conn(t)
	l := &lookout{conn: conn, client: client.New(conn), most: 10, step: 10}
	for i := range 2 {
		f, err := l.look(t.Context())
		if err != nil || f.rated != (i == 1) || len(f.sessions) != 0 {
			t.Fatalf("look %d = %+v, %v, want an empty fleet, with rates from the second on", i, f, err)
		}
		b, err := json.Marshal(f.json())
		if err != nil || !strings.Contains(string(b), `"sessions":[],"prompts":[],"runs":[]`) {
			t.Fatalf("look %d in JSON = %s, %v", i, b, err)
		}
	}
}

// A look reads as many sessions as it is told to, the newest, and older ones that somebody waits in.
func TestTopLooksAtTheNewest(t *testing.T) {
	conn := natstest.Conn(t)
	cl := client.New(conn)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	for i := range 5 {
		id := events.Thread{Session: fmt.Sprintf("s%d", i), Name: events.MainThread}
		p := cl.Publisher(client.PublisherConfig{Producer: "p"})
		body := []byte(`{"id":"1","role":"user","content":"x"}`)
		must.Do(t, must.Get(p.Publish(t.Context(), client.Entry{
			Thread: id, Dialect: "step", Body: body, Seq: 1, Time: time.Now().Add(time.Duration(i) * time.Second),
		}))(t).Applied(t.Context()))
		if i == 1 {
			go cl.Thread(id).Ask(t.Context(), events.Prompt{ID: "q", Kind: events.PromptQuestion, Text: "Which?"}) // nobody answers
			must.Until(t, "the question is asked", func() bool {
				all, err := cl.EverySession().Prompts(t.Context())
				return err == nil && len(all) == 1
			})
		}
	}
	f := must.Get((&lookout{conn: conn, client: cl, most: 2, step: 2}).look(t.Context()))(t)
	var got []string
	for _, s := range f.sessions {
		got = append(got, s.ID)
	}
	if fmt.Sprint(got) != "[s1 s4 s3]" || !f.more || !strings.HasPrefix(f.summary(), "the newest 3 sessions") {
		t.Errorf("sessions = %v of %q, want who waits and the newest two", got, f.summary())
	}
}

func quotedJSON(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

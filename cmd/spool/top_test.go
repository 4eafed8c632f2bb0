package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"spool/internal/must"
	"spool/internal/natstest"
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

func press(t *testing.T, m top, keys ...string) (top, tea.Cmd) {
	t.Helper()
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"end": tea.KeyEnd, "backspace": tea.KeyBackspace}
	var cmd tea.Cmd
	for _, k := range keys {
		key := tea.KeyPressMsg{Code: codes[k]}
		if key.Code == 0 {
			key = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		var next tea.Model
		next, cmd = m.Update(key)
		m = next.(top)
	}
	return m, cmd
}

func update(m top, msg tea.Msg) top {
	next, _ := m.Update(msg)
	return next.(top)
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

// The screen has its size, whatever is on it.
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

func TestTopFits(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		for _, size := range [][2]int{{80, 24}, {200, 50}, {30, 6}, {5, 2}, {1, 1}} {
			m := update(newTop(time.Second, nil, nil), looked{fleet: fleetOf(n, nil)})
			m = update(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			for _, keys := range [][]string{nil, {"end"}, {"enter"}, {"a", "y"}} {
				m, _ = press(t, m, keys...)
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
	if f.sessions[0].ID != "s099" || f.sessions[0].state() != "needs you" || f.sessions[1].ID != "s000" || f.sessions[99].ID != "s098" {
		t.Errorf("rows begin with %s, %s, end with %s, want s099, s000, s098", f.sessions[0].ID, f.sessions[1].ID, f.sessions[99].ID)
	}
	if f.events != 10 || f.items != 20 || f.sessions[1].rate != 3 || f.sessions[2].rate != 0 {
		t.Errorf("rates = %v, %v, %v, %v, want 10, 20, 3, 0", f.events, f.items, f.sessions[1].rate, f.sessions[2].rate)
	}
	m := update(newTop(time.Second, nil, nil), looked{fleet: f})
	m, _ = press(t, m, "down", "down")
	must.Same(t, m.chosen, "s001", "two down: %q, want %q")
	m = update(m, looked{fleet: fleetOf(1, nil)})
	if m.chosen != "s000" || m.first != 0 {
		t.Errorf("after the chosen session went: %q at %d, want s000 at 0", m.chosen, m.first)
	}
	m = update(update(m, looked{fleet: fleetOf(0, nil)}), looked{err: fmt.Errorf("no server")})
	if all := strings.Join(m.lines(), "\n"); !strings.Contains(all, "no sessions yet") || !strings.Contains(all, "no server") {
		t.Errorf("an empty fleet without its server:\n%s", all)
	}
	if _, cmd := press(t, m, "q"); cmd == nil {
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
	m, cmd := press(t, m, "a", "x", "enter")
	if m.asked == nil || cmd != nil {
		t.Fatal("x was taken for the answer to an approval")
	}
	m, cmd = press(t, m, "backspace", "q", "backspace", "y", "enter")
	if m.asked != nil || cmd == nil {
		t.Fatal("y was not taken")
	}
	m = update(m, cmd())
	if got != "s002/main ship true" || m.note != "ship is answered" {
		t.Errorf("answered %q, note %q, want s002/main ship true", got, m.note)
	}
	m, _ = press(t, m, "down", "a")
	if m.asked != nil || m.note == "" {
		t.Error("a session that asks nothing was answered")
	}
}

// A look at a system without persisters and without sessions is a whole one.
func TestTopLooks(t *testing.T) {
	conn := natstest.Conn(t)
	l := &lookout{conn: conn, client: client.New(conn)}
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

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// spool is what spool up runs, with its page.
type spool struct {
	t      *testing.T
	client *client.Client
	url    string
}

func up(t *testing.T, origins ...string) *spool {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan *service.Up, 1), make(chan error, 1)
	dir := t.TempDir()
	go func() {
		done <- service.RunUp(ctx, service.UpConfig{
			Data: filepath.Join(dir, "data"), HTTP: "127.0.0.1:0", Sync: time.Minute,
			History: func(*natsio.Conn) (string, error) { return filepath.Join(dir, "history.db"), nil },
			API:     httpapi.Config{Origins: origins},
			Persist: service.PersisterConfig{Config: persist.Config{Lane: -1}}, Ready: func(u *service.Up) { ready <- u },
		})
	}()
	t.Cleanup(func() {
		stop()
		must.Is(t, <-done, nil, "spool up")
	})
	select {
	case u := <-ready:
		return &spool{t, client.New(u.Conn), u.HTTP}
	case err := <-done:
		done <- err
		t.Fatal(err)
		return nil
	}
}

// add publishes items, and returns when they are in the thread.
func (s *spool) add(session, thread string, items ...j) {
	s.t.Helper()
	at := events.Thread{Session: session, Name: thread}
	entries := make([]client.Entry, len(items))
	for i, it := range items {
		body := must.Get(json.Marshal(it))(s.t)
		entries[i] = client.Entry{Thread: at, Dialect: "item", Body: body, Time: time.Now()}
	}
	pub := s.client.Publisher(client.PublisherConfig{Host: fmt.Sprintf("ci-%c", session[len(session)-1])})
	must.Do(s.t, must.Get(pub.Publish(s.t.Context(), entries...))(s.t).Applied(s.t.Context()))
}

// again has the page search once more where nothing was found yet: the index follows what is stored.
const again = `(document.querySelector('.search .hint')?.textContent.startsWith('Nothing') && document.querySelector('.search form').requestSubmit(), false)`

// TestSpool goes with the page through a real Spool.
func TestSpool(t *testing.T) {
	chromium(t)
	s := up(t)
	p := open(t, s.url, wide, tall)
	p.has("Nothing is stored yet.")

	rows := strings.Repeat("a row of the harvest\n", 25_000)
	s.add("orchard", "main", user("Count the **apples**"), call("c1", "Bash", j{"command": "make count"}),
		result("c1", rows+"the last row", false),
		agent("Counted."), turnEnd())
	p.has("Count the apples")
	p.has("12.5k in, 1.3k out")

	// A prompt, asked by an agent and answered here.
	answered := make(chan string, 1)
	main := events.Thread{Session: "orchard", Name: "main"}
	go func() {
		r, err := s.client.Thread(main).Ask(t.Context(), events.Prompt{ID: "ship", Kind: events.PromptApproval, Text: "Ship the apples?"})
		answered <- fmt.Sprintf("%s by %s, %v", r.Outcome, r.By, err)
	}()
	p.has("Ship the apples?")
	p.click(".name input")
	p.press("mira")
	p.click(".yes")
	must.Same(t, <-answered, "approved by mira, <nil>", "the agent was told: %s, want %s")
	p.has("Approved by mira")

	// The thread: folded, cut, whole.
	p.click(".session-link")
	p.has("Counted.")
	p.has("Approved by mira") // the prompt and its answer are one row
	p.click(`[data-n="2"] .head`)
	p.has("of the output is left out here")
	p.click(".cut button")
	p.wait(`!document.querySelector('.cut') && document.querySelector('[data-n="2"] .facts').textContent.includes('25,001 lines')`)

	// Live: an item, and an output while it is printed.
	s.add("orchard", "main", agent("Fresh from the tree"))
	p.has("Fresh from the tree")
	out, err := s.client.Thread(main).Output(t.Context(), client.OutputConfig{ID: "o1", Tool: "make", Input: []byte(`{"command":"make jam"}`)})
	must.Do(t, err)
	fmt.Fprintln(out, "the pot boils")
	p.has("the pot boils")
	p.wait(`!!document.querySelector('.running-output')`)
	must.Do(t, out.Close(client.OutputEnd{}))
	p.wait(`!document.querySelector('.running-output') && !!document.querySelector('.tail') && [...document.querySelectorAll('.row.tool')].at(-1).querySelector('.state.ok') !== null`)

	// Search.
	p.press("/")
	p.press("fresh from")
	p.wait(`document.querySelector('.found').textContent === '1 of 1'`)

	// The link of an item, and in a fork the same one.
	p.click(`[data-n="4"] a.n`)
	link := eval[string](p, `location.pathname`)
	must.Do(t, s.client.Thread(events.Thread{Session: "orchard", Name: "again"}).Fork(t.Context(),
		events.Fork{Session: "orchard", Thread: "main", Index: 5}))
	for _, thread := range []string{"main", "again"} {
		p := open(t, s.url+link+"?s=orchard&t="+thread, wide, tall)
		p.wait(`document.activeElement?.dataset.n === '4'`)
		p.wait(fmt.Sprintf(`document.querySelector('.thread-name').textContent.startsWith('%s')`, thread))
		p.wait(`document.querySelectorAll('.forks .lane').length === 2`)
	}

	// The fork compared with what it comes from, and an item of one kind.
	p = open(t, s.url+"/s/orchard/again", wide, tall)
	p.click(`.origin a:last-of-type`)
	p.has("The first 5 items are the same")
	p.wait(`document.querySelectorAll('.sides section')[0].querySelector('.count').textContent === 'ends there'`)
	p = open(t, s.url+"/s/orchard/main", wide, tall)
	p.wait(`document.querySelector('.place')?.textContent === 'prompt 1 of 1' && document.querySelector('.outline a')?.innerText.replace(/\s+/g, ' ') === 'Count the **apples** #1 8.4 s · 12.5k tokens in, 77 % cached · 1.3k out'`)
	eval[bool](p, `(() => { const el = document.querySelector('.tools select'); el.value = 'tools'; el.dispatchEvent(new Event('change')); return true; })()`)
	p.has("Tool calls alone: 4 items")

	// All that was said and printed.
	p = open(t, s.url+"/search?q=make+count", wide, tall)
	p.wait(`document.querySelectorAll('.hit').length === 1 || ` + again)
	p.click(".hit")
	p.wait(`document.activeElement?.dataset.n === '2' && !!document.querySelector('[data-n="2"] .tool-body')`)

	// Prompts of all sessions.
	p = open(t, s.url+"/history?q=apples", wide, tall)
	p.wait(`document.querySelector('mark')?.textContent === 'apples' || (document.querySelector('.history input') && (document.querySelector('.history input').dispatchEvent(new Event('input')), false))`)
}

// TestShots takes pictures of a busy fleet, in both themes and at the width of a phone, into the directory that
// SPOOL_SHOTS names: for people who change the page, to look at.
func TestShots(t *testing.T) {
	if os.Getenv("SPOOL_SHOTS") == "" {
		t.Skip("SPOOL_SHOTS names no directory for pictures")
	}
	s := up(t)
	s.busy()
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"wide", 1280, 1040}, {"phone", 390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			for name, path := range map[string]string{
				"fleet": "/", "thread": "/s/label-printer/main?n=1", "end": "/s/label-printer/main", "prompts": "/history",
				"found": "/s/label-printer/main?q=barcode", "search": "/search?q=label&since=",
				"missing": "/s/nobody/main",
			} {
				p := open(t, s.url+path, size.width, size.height)
				p.expect("404")
				p.colours(scheme)
				p.wait(`!document.querySelector('.loading') && document.querySelectorAll('.row:not(.pending), .session, .found-prompts li, .hit, .empty').length > 0`)
				eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 600))`)
				p.picture(strings.Join([]string{name, size.name, scheme}, "-"))
			}
		}
	}
}

// busy makes the fleet of TestShots.
func (s *spool) busy() {
	s.add("label-printer", "main",
		user("Labels that are printed in the evening carry **yesterday's** date. Find out why, and fix it."),
		j{"content": text("[thinking] …"), "metadata": j{"type": "thinking", "full_text_length": 214,
			"text": "A date that is wrong in the evening only smells of a time zone: the printer works in UTC, and the evening is already the next day there, or still the one before. I look at how the date is made before I guess."}},
		agent("I look for where the date is made, and for a test that covers the evening."),
		call("c1", "Grep", j{"pattern": "time.Now", "path": "label/"}),
		result("c1", "label/date.go:14:\tday := time.Now().UTC().Truncate(24 * time.Hour)\nlabel/date_test.go:9:\tnow := time.Now()\n", false),
		call("c2", "Bash", j{"command": "go test ./label/...", "description": "Run the tests of labels"}),
		result("c2", "\x1b[31m--- FAIL: TestEvening (0.00s)\x1b[0m\n    date_test.go:31: Day(21:40) = \x1b[33m2026-11-19\x1b[0m, want \x1b[32m2026-11-20\x1b[0m\nFAIL\tgithub.com/mira/orchard/label\t0.021s\nFAIL\n", true),
		call("c3", "Edit", j{"file_path": "label/date.go",
			"old_string": "func Day(now time.Time) string {\n\tday := now.UTC().Truncate(24 * time.Hour)\n\treturn day.Format(time.DateOnly)\n}", "new_string": "// Day is the date where the press stands, not that of Greenwich.\nfunc Day(now time.Time) string {\n\treturn now.In(press).Format(time.DateOnly)\n}"}),
		result("c3", "The file has been updated.", false),
		call("c4", "Bash", j{"command": "go test ./label/..."}),
		result("c4", "\x1b[32mok\x1b[0m  \tgithub.com/mira/orchard/label\t0.019s\n", false),
		agent("Fixed: `Day` cut the time in UTC, and the press stands two hours east of it.\n\n| test | before | now |\n|---|---|---|\n| TestMorning | ok | ok |\n| TestEvening | **fails** | ok |\n\nTwo things to know:\n\n1. Labels printed *since October* carry the wrong day between 22:00 and midnight.\n2. The barcode has the date too; it comes from the same function."),
		turnEnd(),
		j{"content": text("Compacting context…"), "metadata": j{"type": "status", "status": "compacting_context", "detail": "38k → 12k tokens"}},
		user("Good. Print the row on the label as well, and export the season so that I can compare."),
		call("c5", "mcp__stations__export", j{"from": "2026-03-20", "to": "2026-04-03", "format": "csv"}),
		result("c5", "time,station,variety,temp_c\n"+strings.Repeat("2026-03-20T06:00,row-07,Boskoop,15.2\n", 12_000), false),
		call("c6", "TodoWrite", j{"todos": []j{{"content": "Row under the variety", "status": "completed"},
			{"content": "Barcode with the row", "status": "in_progress"}, {"content": "Export of the season", "status": "pending"}}}),
		result("c6", "ok", false),
	)
	fork := func(name string, index int) {
		must.Do(s.t, s.client.Thread(events.Thread{Session: "label-printer", Name: name}).Fork(s.t.Context(),
			events.Fork{Session: "label-printer", Thread: "main", Index: int64(index)}))
	}
	fork("other-library", 12)
	fork("retry", 16)
	s.add("label-printer", "retry", agent("Once more, with the row above the variety."), turnEnd())
	for i, title := range []string{"Make the watering test stand still", "Forecast the bloom for each row",
		"Sort the pears by ripeness", "Teach the camera what a codling moth is"} {
		s.add(fmt.Sprintf("job-%d", 1041+i), "main", user(title+". The notes are in notes/."), agent("I begin with the notes."), turnEnd())
	}
	s.add("job-1041", "main", user("And in the rain?"), call("r", "Bash", j{"command": "make watering-test"}))
	for session, file := range map[string]string{
		"7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3": "claude/projects/-home-mira-orchard/7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3.jsonl",
		"019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15": "codex/sessions/2026/11/20/rollout-2026-11-20T09-15-00-019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15.jsonl",
	} {
		lines := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", file)))(s.t)
		dialect, _, _ := strings.Cut(file, "/")
		at, pub := events.Thread{Session: session, Name: "main"}, s.client.Publisher(client.PublisherConfig{Host: "mira-laptop"})
		for line := range strings.Lines(string(lines)) {
			must.Get(pub.Publish(s.t.Context(), client.Entry{Thread: at, Dialect: dialect, Body: []byte(strings.TrimSpace(line))}))(s.t)
		}
	}
	run, err := s.client.Thread(events.Thread{Session: "job-1042", Name: "main"}).StartRun(s.t.Context(),
		client.RunConfig{Agent: "forecaster"})
	if err == nil {
		err = run.End(s.t.Context(), artifacts.RunFailed, "the station does not answer")
	}
	must.Do(s.t, err)
	ask := func(session, id, kind, question string, body j) {
		prompt := j{"id": id, "kind": kind}
		maps.Copy(prompt, body)
		s.add(session, "main", j{"content": text(question), "metadata": j{"type": "pending_prompt", "prompt": prompt}})
	}
	ask("label-printer", "ship", "approval", "Deploy label-printer 2.4.0 to the press?\nAll 212 tests pass; the press stands still for about four minutes.", j{"deadline": time.Now().Add(9 * time.Minute).UnixMilli()})
	ask("job-1043", "which", "ask_user_question", "Which variety goes along the south wall?", j{"questions": []j{{
		"question": "Which variety goes along the south wall?",
		"options": []j{{"label": "Conference", "description": "Bears alone, keeps until January"},
			{"label": "Williams", "description": "Early, does not keep"}},
	}}})
}

package web_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"slices"
	"spool/internal/must"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const wide, tall = 1280, 900

// working is a fleet with a bit of everything.
func working(t *testing.T) *fleet {
	f := newFleet(t)
	f.add("orchard", "main",
		user("Please **find** the late frost warning."),
		j{"content": text("[thinking] Where"), "metadata": j{"type": "thinking",
			"text": "Where do the *nights* begin?\n\nAt noon.", "full_text_length": 38}},
		agent("I look at `night.go` first:\n\n1. the tests\n2. the clock\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```go\nfunc Night() int { return 7 } // here\n```"),
		call("c1", "Bash", j{"command": "go test ./forecast\necho done"}),
		result("c1", "\x1b[31mFAIL\x1b[0m night_test.go:31\nexit 1", true),
		call("c2", "Edit", j{"file_path": "/orchard/night.go", "old_string": "a\nb\nc", "new_string": "a\nB\nc"}),
		result("c2", "updated", false),
		call("c3", "Bash", j{"command": "cat log"}),
		j{"content": text("→ log"), "metadata": j{
			"type": "tool_result", "truncated": true, "truncated_fields": []string{"tool.output"},
			"local_log": "orchard/threads/main/logs/thread.log",
			"tool": j{"invocation_id": "c3", "is_error": false,
				"output": "begins\n…[truncated 412992 bytes; see orchard/threads/main/logs/thread.log]…\nends"},
		}},
		j{"content": text("Compacting context..."),
			"metadata": j{"type": "status", "status": "compacting_context", "detail": "38k → 12k tokens"}},
		turnEnd(),
	)
	f.whole["orchard/main/9"] = j{"content": text("→ log"),
		"metadata": j{"type": "tool_result", "tool": j{"invocation_id": "c3", "output": "begins\n" +
			strings.Repeat("row\n", 500) + "the whole ends"}}}
	return f
}

func TestFleet(t *testing.T) {
	f := working(t)
	f.add("ferry", "main", user("Paint it"))
	f.add("fence", "main", user("Mend it"))
	f.change(func() { f.sessions[1]["state"], f.sessions[2]["state"] = "failed", "idle" })
	p := open(t, f.URL, wide, tall)
	p.has("Nobody waits for you.")
	p.wait(`document.querySelectorAll('.group').length === 3`)
	if got := eval[[]string](p, `[...document.querySelectorAll('.group h3')].map((el) => el.innerText.trim().replace(/\s+/g, ' '))`); fmt.Sprint(got) != "[Running 1 Failed 1 Idle 1]" {
		t.Errorf("groups are %q, want running, failed, idle", got)
	}

	f.ask("ferry", "main", "colour", "text", "Which colour?", nil)
	p.has("Which colour?")
	p.wait(`document.title === '(1) Fleet – Spool'`)
	f.change(func() { f.sessions[0]["state"], f.sessions[0]["prompts"] = "waiting", 1 })
	p.has("1 question waiting") // a prompt is what a person asked an agent for
	p.wait(`[...document.querySelectorAll('.dot.waiting')].some((el) => el.offsetWidth > 0 && el.offsetWidth === el.offsetHeight)`)

	f.change(func() { f.sessions[1]["title"] = "A new name" })
	p.has("A new name")

	p.click(".tab:nth-child(4)")
	p.wait(`document.querySelectorAll('.session').length === 1`)
	p.click(".tab:nth-child(1)")

	p.press("f")
	p.press("mend")
	p.wait(`document.querySelectorAll('.session').length === 0`)
	p.has("No session is like that.")
}

// TestProjects: sessions by their directories, the one in which something happened last first, for as long as one wants them so.
func TestProjects(t *testing.T) {
	f := newFleet(t)
	for i, cwd := range []string{"/home/mira/orchard", `/tmp/"]<b>x`, "/home/mira/orchard", ""} {
		f.add(fmt.Sprintf("s%d", i), "main", user("Go"))
		f.change(func() {
			if f.sessions[i]["state"] = []string{"running", "failed", "idle", "done"}[i]; cwd != "" {
				f.sessions[i]["cwd"] = cwd
			}
		})
	}
	groups := func(p *tab, want string) {
		t.Helper()
		p.wait(`[...document.querySelectorAll('.group')].map((el) => el.querySelector('h3').innerText.trim().replace(/\s+/g, ' ') + ': ' +
			[...el.querySelectorAll('.session-title')].map((s) => s.textContent.slice(8)).join()).join('; ') === ` + quoted(want))
	}
	const byState, byProject = "Running 1: s0; Failed 1: s1; Idle 1: s2; Done 1: s3", `/home/mira/orchard 2: s0,s2; /tmp/"]<b>x 1: s1; Without a directory 1: s3`
	p := open(t, f.URL, wide, tall)
	groups(p, byState)
	p.press("b")
	groups(p, byProject)
	p.wait(`document.querySelector('.session-link .dot.running')?.textContent === 'running'`)
	p.picture("projects")
	f.change(func() { f.sessions[2]["title"] = "Session moved" })
	p.has("Session moved")
	p.do(chromedp.Reload())
	groups(p, strings.ReplaceAll(byProject, ",s2", ",moved"))
	p.click(".tabs .tab:nth-child(4)") // with the filter by state beside it
	groups(p, `/tmp/"]<b>x 1: s1`)
	p.click(".tabs .tab:nth-child(1)")
	p.press("b")
	groups(p, strings.ReplaceAll(byState, ": s2", ": moved"))
}

// TestDense: one sees more rows at a time where one wants to, in each view, and next time, too.
func TestDense(t *testing.T) {
	f := working(t)
	for i := range 300 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
		f.add(fmt.Sprintf("s%d", i%40), "main", user("Go"))
	}
	seen := func(p *tab, what string) int {
		p.wait(`document.querySelectorAll('` + what + `').length > 15`)
		return eval[int](p, `[...document.querySelectorAll('`+what+`')].filter((el) => { const r = el.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; }).length`)
	}
	for path, what := range map[string]string{"/": ".session", "/s/orchard/main": ".row"} {
		p := open(t, f.URL+path, wide, tall)
		before := seen(p, what)
		p.press("d")
		p.wait(`document.getElementById('dense').getAttribute('aria-pressed') === 'true'`)
		eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 200))`)
		after := seen(p, what)
		if after*10 < before*14 {
			t.Errorf("%s shows %d rows, and dense %d, want 1.4 times as many", path, before, after)
		}
		p.picture("dense" + strings.ReplaceAll(path, "/", "-"))
		p.do(chromedp.Reload())
		p.wait(`document.documentElement.hasAttribute('data-dense')`)
		if path != "/" {
			p.has("Line 299") // still at the end
		}
		p.click("#dense")
		p.wait(`!document.documentElement.hasAttribute('data-dense')`)
	}
}

func TestAnswerApproval(t *testing.T) {
	f := working(t)
	f.ask("orchard", "main", "ship", "approval", "Ship it?", nil)
	f.ask("orchard", "main", "drop", "approval", "Drop the table?", nil)
	p := open(t, f.URL, wide, tall)
	p.click(".name input")
	p.press("mira")
	p.click(`[data-key="orchard/main/ship"] .yes`)
	p.has("Approved by mira")
	p.click(`[data-key="orchard/main/drop"] .no`)
	p.has("Denied by mira")
	p.has("Nobody waits for you.")
	if got := fmt.Sprint(f.answers); got != "[map[answer:true by:mira prompt:ship] map[answer:false by:mira prompt:drop]]" {
		t.Errorf("answers are %s", got)
	}
}

func TestAnswerQuestions(t *testing.T) {
	f := working(t)
	options := []j{{"label": "Pear", "description": "Keeps"}, {"label": "Plum"}}
	f.ask("orchard", "main", "one", "ask_user_question", "Which tree?", j{"questions": []j{{"question": "Which tree?", "options": options}}})
	p := open(t, f.URL, wide, tall)
	p.click(`.choice:nth-child(2)`)
	p.has("Which tree? Plum")

	f.ask("orchard", "main", "two", "ask_user_question", "Some things", j{"questions": []j{
		{"question": "Where?", "options": []j{{"label": "South"}, {"label": "North"}}},
		{"question": "What with?", "multiSelect": true, "options": []j{{"label": "Moss"}, {"label": "Bark"}}},
	}})
	p.click(`input[value="North"]`)
	p.click(`[data-key="orchard/main/two"] .yes`) // one answer is missing: nothing is sent
	p.click(`input[value="Moss"]`)
	p.click(`input[value="Bark"]`)
	p.click(`[data-key="orchard/main/two"] .yes`)
	p.has("Where? North")

	f.ask("orchard", "main", "three", "text", "Say it", nil)
	p.click(`[data-key="orchard/main/three"] textarea`)
	p.press("in words")
	p.click(`[data-key="orchard/main/three"] .free button`)
	p.has("Answered: in words")
	want := "[map[answer:map[answers:map[Which tree?:Plum]] prompt:one] " +
		"map[answer:map[answers:map[What with?:[Moss Bark] Where?:North]] prompt:two] map[answer:in words prompt:three]]"
	must.Same(t, fmt.Sprint(f.answers), want, "answers are\n%s, want\n%s")
}

func TestAnswerTooLate(t *testing.T) {
	f := working(t)
	f.ask("orchard", "main", "ship", "approval", "Ship it?", nil)
	p := open(t, f.URL, wide, tall)
	p.has("Ship it?")
	f.mu.Lock()
	f.prompts = nil
	f.mu.Unlock()
	p.expect("409")
	p.click(".yes")
	p.has("Somebody was first. Denied by noa")
}

func TestThread(t *testing.T) {
	f := working(t)
	p := open(t, f.URL+"/s/orchard", wide, tall)
	p.has("End of turn")
	p.wait(`location.pathname === '/s/orchard/main'`)

	// A call and its result are one row; thinking is closed; what failed and what was edited is open.
	if got := eval[string](p, `[...document.querySelectorAll('.row')].map((el) => el.dataset.n).join()`); got != "1,2,3,4,6,8,10,11" {
		t.Errorf("rows are %s", got)
	}
	if eval[bool](p, `!!document.querySelector('.prose.dim')`) {
		t.Error("thinking is open")
	}
	p.click(`[data-n="2"] .head`)
	p.wait(`document.querySelector('[data-n="2"] .prose.dim')?.textContent.includes('At noon.')`)
	p.wait(`document.querySelector('[data-n="4"] .ansi-red')?.textContent === 'FAIL'`)
	p.wait(`document.querySelector('[data-n="6"] .diff-line.added')?.textContent === '+ B\n'`)
	p.wait(`document.querySelector('[data-n="6"] .diff-line.removed')?.textContent === '- b\n'`)
	p.wait(`document.querySelector('[data-n="3"] .code-word')?.textContent === 'func'`)
	p.wait(`document.querySelectorAll('[data-n="3"] ol > li').length === 2 && !!document.querySelector('[data-n="3"] table')`)
	p.wait(`document.querySelector('[data-n="1"] strong').textContent === 'find'`)
	p.has("Context compacted")
	p.has("12.5k tokens in, 77 % cached")

	p.click(`[data-n="8"] .head`)
	p.has("413 KB (412,992 bytes) of the output is left out here")
	p.click(".cut button")
	p.wait(`!document.querySelector('.cut')`)
	p.click(`[data-n="8"] button.more`)
	p.has("the whole ends")
}

func TestLoadFullFails(t *testing.T) {
	f := working(t)
	f.fail = "/v1/sessions/orchard/threads/main/items/9"
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.expect("500")
	p.click(`[data-n="8"] .head`)
	p.click(".cut button")
	p.has("It could not be read: broken on purpose")
}

func TestLive(t *testing.T) {
	f := working(t)
	for i := range 100 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("Line 99")

	// Followed: what is new comes into view.
	f.add("orchard", "main", agent("This is new"))
	p.has("This is new")
	atEnd := `(() => { const el = document.querySelector('.feed'); return el.scrollTop + el.clientHeight > el.scrollHeight - 40; })()`
	p.wait(atEnd)

	// A person who has scrolled up reads on undisturbed, and is told.
	eval[int](p, `document.querySelector('.feed').scrollTop -= 1200`)
	p.wait(`!document.querySelector('[aria-pressed="true"]')`)
	settled := eval[string](p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(`+topRow+`))))`)
	for i := range 30 {
		f.add("orchard", "main", agent(fmt.Sprintf("Later %d\n\nmore\n\nmore", i)))
	}
	p.has("30 new ↓")
	if got := eval[string](p, topRow); got != settled {
		t.Errorf("the view went from %s to %s", settled, got)
	}
	p.click(".newer")
	p.has("Later 29")
	p.wait(atEnd)

	// A call at work becomes one with its result.
	f.add("orchard", "main", call("x", "make", j{"command": "make all"}))
	p.wait(`!!document.querySelector('[data-n="143"] .state.running')`)
	f.add("orchard", "main", result("x", "built", false))
	p.wait(`!!document.querySelector('[data-n="143"] .state.ok') && !document.querySelector('[data-n="144"]')`)

	// The stream breaks, and goes on behind the last item that came.
	f.CloseClientConnections()
	p.expect("ERR_")
	f.add("orchard", "main", agent("After the break"))
	p.has("After the break")
	if got := eval[string](p, `document.querySelector('.thread-name .count').textContent`); got != "145 items" {
		t.Errorf("there are %s, want 145", got)
	}
}

func TestReset(t *testing.T) {
	f := working(t)
	f.add("orchard", "grove", agent("Under its new name"))
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("End of turn")
	f.change(func() {
		f.resets["orchard/main"] = j{"reason": "renamed", "session": "orchard", "thread": "grove", "message": "it is grove now"}
	})
	p.has("Under its new name")
	p.wait(`location.pathname === '/s/orchard/grove'`)
	f.change(func() { f.resets["orchard/grove"] = j{"reason": "removed", "message": "no such thread"} })
	p.has("This thread was removed.")
}

// topRow is the row at the top of the view, and where it is.
const topRow = `(() => {
	const feed = document.querySelector('.feed').getBoundingClientRect();
	const row = [...document.querySelectorAll('.row')].find((el) => el.getBoundingClientRect().bottom > feed.top);
	return row.dataset.n + ' at ' + Math.round(row.getBoundingClientRect().top - feed.top);
})()`

func TestOutput(t *testing.T) {
	f := working(t)
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("End of turn")
	f.change(func() {
		f.outputs["orchard/main"] = append(f.outputs["orchard/main"], j{"output": "o1", "tool": "make", "offset": 0, "text": "compiling\n"})
	})
	p.has("compiling")
	f.change(func() {
		f.outputs["orchard/main"] = append(f.outputs["orchard/main"], j{"output": "o1", "offset": 10, "text": "linking\n"})
	})
	p.has("linking")
	f.change(func() {
		f.outputs["orchard/main"] = append(f.outputs["orchard/main"], j{"output": "o1", "offset": 18, "end": j{"item": 13}})
	})
	p.wait(`!document.querySelector('.running-output')`)
}

func TestPermalink(t *testing.T) {
	f := working(t)
	for i := range 300 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	f.change(func() { f.threads["orchard/main"][3]["hash"] = f.threads["orchard/main"][4]["hash"] }) // two items of an entry
	p := open(t, f.URL+"/s/orchard/main?n=40", wide, tall)
	p.wait(`document.activeElement?.dataset.n === '40'`)
	p.click(`[data-n="40"] a.n`)
	link := eval[string](p, `location.href`)
	if want := fmt.Sprintf("/n/%x%08x", "orchardmain", 40); !strings.Contains(link, want) {
		t.Fatalf("the link is %s, want one with %s", link, want)
	}
	p = open(t, link, wide, tall)
	p.wait(`document.activeElement?.dataset.n === '40'`)

	// Of the second item of an entry; it is a result, and shown with its call.
	p = open(t, fmt.Sprintf("%s/n/%x%08x?s=orchard&t=main&i=1", f.URL, "orchardmain", 5), wide, tall)
	p.wait(`document.activeElement?.dataset.n === '4'`)

	p = open(t, f.URL+"/n/0123456789", wide, tall)
	p.expect("404")
	p.has("no such node")
}

func TestSearchThread(t *testing.T) {
	f := working(t)
	for i := range 2000 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	f.add("orchard", "main", agent("A needle here"))
	for i := range 200 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	f.change(func() { f.threads["orchard/main"][20]["item"] = agent("The other needle") })
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("Line 199")
	p.press("/")
	p.press("needle")
	p.has("A needle here")
	p.wait(`document.querySelector('.found').textContent === '2 of 2' && CSS.highlights.get('found')?.size > 0`)
	p.press(kb.Enter)
	p.has("The other needle")
	p.press(kb.Escape)
	p.wait(`document.activeElement.className === 'feed'`)
}

// TestOutlineOfPrompts: a long thread is gone through by its prompts, which are read as far as somebody looks.
func TestOutlineOfPrompts(t *testing.T) {
	f := newFleet(t)
	for turn := range 50 {
		f.add("long", "main", user(fmt.Sprintf("Turn %d <b>bold</b>", turn+1)))
		for i := range 199 {
			it := agent(fmt.Sprintf("Line %d.%d", turn+1, i))
			if turn == 40 && i == 100 {
				it = turnEnd()
			}
			f.add("long", "main", it)
		}
	}
	asked := func(part string) (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, uri := range f.asked {
			if strings.Contains(uri, part) {
				n++
			}
		}
		return n
	}
	p := open(t, f.URL+"/s/long/main", wide, tall)
	p.has("Line 50.198")
	p.wait(`document.querySelectorAll('.outline li').length === 10 && document.querySelector('.place').textContent === 'last prompt'`)
	p.has("10+ prompts")
	p.wait(`[...document.querySelectorAll('.turn-facts')].map((el) => el.textContent).join() === '8.4 s · 12.5k tokens in, 77 % cached · 1.3k out'`)
	p.wait(`document.querySelector('.outline li a').textContent.startsWith('Turn 41 <b>bold</b>')`)
	if n, items := asked("type=message"), asked("/items"); n != 1 || items > 4 {
		t.Errorf("the newest page asked %d times for prompts and %d times for items, want 1 and at most 4", n, items)
	}
	p.picture("outline")

	p.press("[[") // to the prompt of this turn, and of the one before
	p.wait(`document.activeElement?.dataset.n === '9601'`)
	p.wait(`document.querySelector('.outline [aria-current]').textContent.startsWith('Turn 49') && document.querySelector('.place').textContent === '1 prompt before the last'`)
	p.press("]")
	p.wait(`document.activeElement?.dataset.n === '9801'`)

	p.press("O")
	p.wait(`document.activeElement?.textContent.startsWith('Turn 50')`)
	p.click(".outline li:first-of-type a")
	p.wait(`document.activeElement?.dataset.n === '8001'`)
	p.press("[") // farther than was read
	p.wait(`document.activeElement?.dataset.n === '7801'`)
	p.has("20+ prompts")

	// What comes live is in it.
	f.add("long", "main", user("Turn 51"))
	p.wait(`document.querySelector('.outline li:last-of-type a').textContent === 'Turn 51#10001'`)
	f.add("long", "main", turnEnd())
	p.wait(`document.querySelector('.outline li:last-of-type .turn-facts')?.textContent.startsWith('8.4 s')`)
	p.wait(`document.querySelector('.outline .more').hidden || document.querySelector('.outline .more').click()`)
	p.has("51 prompts")
	p.wait(`document.querySelector('.place').textContent === 'prompt 40 of 51'`)

	// It stays where a person has it while what is around it is read anew.
	eval[bool](p, `(document.activeElement.blur(), document.querySelector('.outline ol').scrollTop = 100, document.querySelector('.side dl').old = true)`)
	f.add("long", "main", agent("More"))
	p.wait(`!document.querySelector('.side dl').old`)
	if got := eval[int](p, `document.querySelector('.outline ol').scrollTop`); got != 100 {
		t.Errorf("the outline went from 100 to %d", got)
	}

	// On a phone it is in front of the thread, until a prompt is chosen.
	p = open(t, f.URL+"/s/long/main", 390, 844)
	p.wait(`document.querySelectorAll('.outline li').length === 10`)
	p.press("O")
	p.wait(`document.activeElement?.textContent.startsWith('Turn 51')`)
	p.picture("outline-narrow")
	p.click(".outline li:first-of-type a")
	p.wait(`!document.querySelector('.fold').open && document.activeElement?.dataset.n === '8201'`)
}

// TestKinds: items of one kind are shown alone, wherever in a long thread they are.
func TestKinds(t *testing.T) {
	f := newFleet(t)
	for turn := range 20 {
		id := fmt.Sprint(turn)
		f.add("long", "main", user("Turn "+id), j{"content": text("[thinking] hm"), "metadata": j{"type": "thinking", "text": "Thought " + id}},
			call(id, "Bash", j{"command": "make " + id}), result(id, "out "+id, turn == 1 || turn == 18))
		for i := range 296 {
			f.add("long", "main", j{"content": text(fmt.Sprintf("Status %d", i)), "metadata": j{"type": "status", "status": "busy"}})
		}
	}
	f.add("long", "main", agent("The end"))
	for _, width := range []int64{wide, 390} {
		p := open(t, f.URL+"/s/long/main", width, tall)
		p.has("The end")
		show := func(kind string) {
			t.Helper()
			eval[bool](p, `(() => { const el = document.querySelector('.tools select'); el.value = '`+kind+`'; el.dispatchEvent(new Event('change')); return true; })()`)
		}
		rows := func(want string) {
			t.Helper()
			p.wait(`[...document.querySelectorAll('.row:not(.pending)')].map((el) => el.dataset.n).join() === '` + want + `'`)
		}
		show("failed")
		p.has("Failed calls alone: 2 items")
		rows("303,5403")
		p.wait(`document.querySelector('[data-n="303"] pre.output').textContent === 'out 1'`)
		p.picture(fmt.Sprintf("kinds-%d", width))

		// With the keys one goes from one to the next; to another item, all are shown.
		p.press("kk")
		p.wait(`document.activeElement?.dataset.n === '303'`)
		p.press("j")
		p.wait(`document.activeElement?.dataset.n === '5403'`)
		p.press("[")
		p.wait(`document.activeElement?.dataset.n === '5401' && document.querySelector('.tools select').value === ''`)
		p.wait(`!!document.querySelector('[data-n="5405"]')`)

		show("thought")
		p.has("Thoughts alone: 20 items")
		p.wait(`[...document.querySelectorAll('.row')].every((el) => el.classList.contains('thinking')) && document.querySelectorAll('.row').length > 15`)
		p.press("v")
		p.wait(`document.activeElement.matches('.tools select')`)
		p.click(".marker button")
		p.wait(`!!document.querySelector('.row.status')`)

		show("said")
		p.has("What was said alone: 20 items from 2 on")
		eval[int](p, `document.querySelector('.feed').scrollTop = 0`) // the rest when somebody goes there
		p.has("What was said alone: 21 items Show")
		if width == wide {
			continue
		}

		// What comes live is shown if it is of that kind.
		show("failed")
		p.has("Failed calls alone: 2 items")
		n := len(f.threads["long/main"])
		f.add("long", "main", agent("Not that"), call("new", "Bash", j{"command": "make new"}), result("new", "broken", true))
		p.has("Failed calls alone: 3 items")
		rows(fmt.Sprintf("303,5403,%d", n+2))
	}
}

// A thread is saved as a file, with the token that the page has.
func TestSave(t *testing.T) {
	f := working(t)
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("Save as")
	eval[bool](p, `(window.saved = [], URL.createObjectURL = (blob) => { window.blob = blob; return 'blob:x'; }, URL.revokeObjectURL = () => {},
		HTMLAnchorElement.prototype.click = async function () { window.saved.push(this.download + ': ' + await window.blob.text()); }, true)`)
	for i, want := range []string{"orchard-main.jsonl: log of orchard/main", "orchard-main.md: md of orchard/main", "orchard-main.html: html of orchard/main"} {
		p.click(fmt.Sprintf(`.saving button:nth-of-type(%d)`, i+1))
		p.wait(`window.saved.at(-1) === ` + quoted(want))
	}
}

// What one wants to take along is a click or a key away: code, outputs, what an item says, and the command that goes on with the session.
func TestCopy(t *testing.T) {
	f := working(t)
	f.change(func() { f.sessions[0]["harness"] = "claude" })
	f.add("orchard", "evil$(date)", user("Hi"))
	for _, plain := range []bool{false, true} {
		p := open(t, f.URL+"/s/orchard/main?n=4", wide, tall)
		if plain { // over HTTP from another machine there is no clipboard to write to
			eval[bool](p, `(Object.defineProperty(navigator, 'clipboard', { value: undefined }),
				document.execCommand = () => { window.copied = document.querySelector('textarea.unseen').value; return true; }, true)`)
		} else {
			eval[bool](p, `(Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (t) => { window.copied = t; } } }), true)`)
		}
		for selector, want := range map[string]string{
			`[data-n="3"] .copy`:                          "func Night() int { return 7 } // here",
			`[data-n="4"] .tool-body > :last-child .copy`: "FAIL night_test.go:31\nexit 1", // without its colours
			`.side .copyable:nth-of-type(1) .copy`:        "spool resume orchard",
			`.side .copyable:nth-of-type(2) .copy`:        "claude --resume orchard",
		} {
			p.click(selector)
			p.wait(`window.copied === ` + quoted(want))
			p.wait(`document.getElementById('announce').textContent.endsWith('is copied.')`)
		}
		eval[bool](p, `(document.querySelector('[data-n="4"]').focus(), true)`)
		p.press("jc") // an edit says what became of it
		p.wait(`window.copied === 'updated'`)
		p.press("kkc")
		p.wait(`window.copied.startsWith('I look at')`)
		p.picture("copy")
	}
	p := open(t, f.URL+"/s/orchard/evil$(date)", wide, tall)
	p.wait(`document.querySelector('.threads')`)
	if eval[bool](p, `!!document.querySelector('.side .copy')`) {
		t.Error("a name that means something to a shell is in a command")
	}
	// Where nothing can hover the buttons are always there, beside the text.
	p = open(t, f.URL+"/s/orchard/main?n=4", 390, tall)
	must.Get(chromedp.Call(p.ctx, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true}))(t)
	p.wait(`matchMedia('(hover: none)').matches && document.querySelectorAll('.row .copyable').length > 1`)
	p.picture("copy-touch")
	over := eval[[]string](p, `[...document.querySelectorAll('.row .copyable')].filter((el) => {
		const button = el.querySelector('.copy').getBoundingClientRect(), text = el.firstChild.getBoundingClientRect();
		return button.width > 0 && button.bottom > text.top && button.top < text.bottom;
	}).map((el) => el.innerText)`)
	if len(over) > 0 {
		t.Errorf("buttons lie over %q", over)
	}
}

func TestPrompts(t *testing.T) {
	f := working(t)
	f.add("ferry", "main", user("Paint the ferry green"))
	p := open(t, f.URL+"/history?q=ferry", wide, tall)
	p.wait(`document.querySelector('mark')?.textContent === 'ferry'`)
	p.click(".found-prompts a")
	p.wait(`location.pathname === '/s/ferry/main' && document.activeElement?.dataset.n === '1'`)
}

// TestSearch: one box finds what was said and printed in all sessions, and a click is at the item, open, wherever it is.
func TestSearch(t *testing.T) {
	f := working(t)
	for i := range 2000 {
		f.add("zeppelin", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	f.add("zeppelin", "main", call("z", "Bash", j{"command": "ls"}), result("z", strings.Repeat("row\n", 300)+"a needle in the hay", false))
	f.add("zeppelin", "main", j{"content": text("[thinking] hm"), "metadata": j{"type": "thinking", "text": "Where is the <b>needle</b>?"}})
	f.add("ferry", "main", user("Find the Needle"))
	for i := range 500 {
		f.add("zeppelin", "main", agent(fmt.Sprintf("More %d", i)))
	}
	p := open(t, f.URL, wide, tall)
	p.wait(`!!document.querySelector('.session-link')`)
	p.press("/")
	p.wait(`location.pathname === '/search' && document.activeElement.name === 'q'`)
	p.has("Words, or beginnings of words")
	p.press("needle")
	p.has("3 items in 2 sessions, the newest first.")
	p.wait(`[...document.querySelectorAll('.search-group h2')].map((el) => el.textContent).join() === 'Session zeppelin,Session ferry'`)
	must.Same(t, eval[string](p, `[...document.querySelectorAll('.hit-who')].map((el) => el.textContent.trim()).join()`), "Thinking,Tool printed,Prompt",
		"who said it: %s, want %s")
	must.Same(t, eval[string](p, `[...document.querySelectorAll('.hit mark')].map((el) => el.textContent).join()`), "needle,needle,Needle",
		"marked are %s, want %s")
	must.Same(t, eval[string](p, `location.search`), "?q=needle", "the address has %s, want %s")

	p.press(kb.ArrowDown)
	p.wait(`document.activeElement.matches('.hit')`)
	p.press(kb.ArrowDown + kb.ArrowUp + kb.ArrowUp)
	p.wait(`document.activeElement.name === 'q'`)
	p.press(kb.ArrowDown + kb.ArrowDown + kb.Enter)

	// The row of the call, of which the result is a part, is in view and open, all of it.
	p.wait(`location.pathname === '/s/zeppelin/main' && document.activeElement?.dataset.n === '2001'`)
	p.wait(`document.querySelector('[data-n="2001"]').textContent.includes('a needle in the hay')`)
	p.wait(`CSS.highlights.get('found')?.size > 0 && document.querySelector('.found').textContent === '1 of 2'`)
	eval[bool](p, `history.back(), true`)
	p.wait(`location.pathname === '/search' && document.querySelectorAll('.hit').length === 3`)
	p.press(kb.Enter) // of what is found already Enter opens the first
	p.wait(`location.pathname === '/s/zeppelin/main' && document.activeElement?.dataset.n === '2003'`)
	p.wait(`document.querySelector('[data-n="2003"] .prose.dim')?.textContent === 'Where is the <b>needle</b>?'`)
	p.press("s")
	p.wait(`location.pathname === '/search'`)
}

// TestSearchFilters: what is asked for beside words, what is said where nothing is found or cannot be, and what Escape does.
func TestSearchFilters(t *testing.T) {
	f := working(t)
	p := open(t, f.URL+"/search?q=frost&role=user&since=2026-01-01", wide, tall)
	p.has("1 item in 1 session")
	p.wait(`document.querySelector('[name=role]').value === 'user' && document.querySelector('[name=since]').value === '2026-01-01'`)
	p.wait(`document.querySelector('datalist option').value === '/home/mira/orchard'`)
	f.mu.Lock()
	all := strings.Join(f.asked, " ")
	f.mu.Unlock()
	if !strings.Contains(all, "/v1/search?q=frost&role=user&since=2026-01-01&limit=100") {
		t.Errorf("asked for %s", all)
	}
	p.press(kb.Escape)
	p.wait(`document.activeElement.name === 'q' && document.activeElement.value === '' && location.search === '?role=user&since=2026-01-01'`)
	p.press("no such word")
	p.has("Nothing that was said or printed is like that.")

	f.mu.Lock()
	f.building = true
	f.mu.Unlock()
	p.press("s")
	p.has("Nothing found so far. The index is being built: what is newer is not in it yet.")
	f.mu.Lock()
	f.building = false
	f.mu.Unlock()
	p.has("Nothing that was said or printed is like that.") // it asks again by itself

	f.mu.Lock()
	f.fail = "/v1/search"
	f.mu.Unlock()
	p.expect("500")
	p.press("s")
	p.has("That could not be searched for: broken on purpose")
	f.mu.Lock()
	f.fail, f.noIndex = "", true
	f.mu.Unlock()
	p.expect("404")
	p.press("s")
	p.has("There is no search here: not found: this process keeps no index of items")
}

// TestLongThread scrolls through a thread of 100,000 items: what is in the document stays small, and each place can be reached.
func TestLongThread(t *testing.T) {
	f := newFleet(t)
	items := make([]j, 0, 100_000)
	for i := 0; len(items) < cap(items); i++ {
		id := fmt.Sprint("c", i)
		items = append(items, user(fmt.Sprint("Prompt ", i)), call(id, "Bash", j{"command": "make"}),
			result(id, strings.Repeat("row\n", i%9), i%7 == 0), agent(strings.Repeat("word ", i%90)+"."), turnEnd())
	}
	f.add("long", "main", items...)
	p := open(t, f.URL+"/s/long/main", wide, tall)
	p.wait(`!!document.querySelector('[data-n="100000"]')`)
	check := func(where string) {
		t.Helper()
		if n := eval[int](p, `document.querySelector('.list').childElementCount`); n > 120 {
			t.Errorf("%s: %d rows are in the document", where, n)
		}
		if n := eval[int](p, `document.querySelectorAll('*').length`); n > 3000 {
			t.Errorf("%s: %d elements are in the document", where, n)
		}
	}
	check("at the end")
	if n := len(f.asked); n > 20 {
		t.Errorf("%d requests until the end was shown: %q", n, f.asked)
	}
	for _, n := range []int{1, 50_001, 99_996, 777 * 5} {
		p.press("g")
		p.wait(`!!document.querySelector('dialog input')`)
		p.press(fmt.Sprint(n + 1))
		p.has(fmt.Sprintf("Item %d", n+1))
		p.press(kb.Enter)
		p.wait(fmt.Sprintf(`document.activeElement?.dataset.n === '%d'`, n+1))
		check(fmt.Sprint("at ", n))
	}
	// Page by page through a part: no place stays empty, and none is shown twice.
	for i := range 40 {
		shown := eval[[]int](p, `new Promise((done) => {
			const feed = document.querySelector('.feed');
			feed.scrollTop += feed.clientHeight;
			const rows = () => [...document.querySelectorAll('.row')];
			const look = () => (rows().some((el) => el.matches('.pending')) ? setTimeout(look, 10) : done(rows().map((el) => Number(el.dataset.n))));
			requestAnimationFrame(() => requestAnimationFrame(look));
		})`)
		for k := 1; k < len(shown); k++ {
			if step := shown[k] - shown[k-1]; step != 1 && (step != 2 || shown[k]%5 != 4) {
				t.Fatalf("page %d: rows are %v", i, shown)
			}
		}
		check(fmt.Sprint("page ", i))
	}
}

// TestHostile shows what tries to be more than text.
func TestHostile(t *testing.T) {
	f := newFleet(t)
	evil := `<script>window.owned=1</script><img src=x onerror="window.owned=1"><svg onload="window.owned=1"></svg>`
	links := "[a](javascript:window.owned=1) [b](JaVaScRiPt:window.owned=1) [c](data:text/html,<script>window.owned=1</script>) " +
		"[d](//evil.example/x) ![e](https://evil.example/pixel.png) [f](vbscript:x) [g](\tjavascript:window.owned=1) <a href=\"javascript:window.owned=1\">h</a> https://fine.example/?q=<b>"
	long := strings.Repeat("[", 20_000) + strings.Repeat("**a ", 5_000) + strings.Repeat("`", 5_000)
	f.add("evil", "main",
		user(evil+"\n\n"+links), agent(evil+"\n\n"+links+"\n\n# "+evil+"\n\n> "+evil+"\n\n```html\n"+evil+"\n```\n\n|"+evil+
			"|b|\n|--|--|\n|"+evil+"|"+evil+"|"),
		j{"content": text(evil), "metadata": j{"type": "thinking", "text": evil, "full_text_length": 5000}},
		call("c", evil, j{"command": evil, evil: evil, "__proto__": j{"a": 1}}),
		result("c", "\x1b]8;;javascript:window.owned=1\x07click\x1b]8;;\x07\x1b[31m"+evil, true),
		call("d", "Edit", j{"file_path": evil, "old_string": evil, "new_string": evil + "x"}),
		j{"content": text(evil), "metadata": j{"type": "status", "status": evil, "detail": evil}},
		j{"content": []j{{"type": "image", "data": "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9IndpbmRvdy5vd25lZD0xIi8+"}},
			"metadata": j{"type": "text"}},
		j{"content": []j{{"type": "image", "data": "https://evil.example/x.png"}}, "metadata": j{"type": evil}},
		j{"content": text("odd"), "metadata": j{"type": "tool_call", "tool": nil}},
		j{"content": nil, "metadata": j{"type": "turn_end"}},
		j{"content": text(long), "metadata": j{"type": "text"}},
		turnEnd(),
	)
	f.add("evil", "other", user(evil), agent(links), call("c", evil, j{"command": evil}), result("c", evil, true),
		j{"content": text(evil), "metadata": j{"type": "turn_end", "stats": j{"duration_ms": evil, "input_tokens": []string{"7"}, "output_tokens": evil}}})
	f.ask("evil", "main", evil, "ask_user_question", evil,
		j{"questions": []j{{"question": evil, "options": []j{{"label": evil, "description": evil}}}}})
	f.change(func() {
		for _, k := range []string{"title", "first_prompt", "cwd", "host", "harness"} {
			f.sessions[0][k] = evil
		}
		f.sessions = append(f.sessions, j{"id": `"><script>window.owned=1</script>/../..`, "state": evil, "modified": evil,
			"name": "W", "title": strings.Repeat("W", 5000), "tokens": nil})
	})
	for _, path := range []string{"/", "/s/evil/main?n=1", "/s/evil/main", "/s/evil/main?with=evil/other", "/s/evil/other", "/history"} {
		p := open(t, f.URL+path, wide, tall)
		p.wait(`document.querySelectorAll('.row:not(.pending)').length > 2 || ` +
			`document.querySelectorAll('.session, .found-prompts li').length > 0`)
		safe(t, p, path)
	}
	p := open(t, f.URL+"/s/evil/main?n=1", wide, tall)
	p.wait(`document.querySelector('[data-n="1"]')?.textContent.includes('<script>window.owned=1</script>')`)
	if n := eval[int](p, `document.querySelectorAll('[data-n="1"] a.out').length`); n != 2 {
		t.Errorf("%d links, want the two of the web", n)
	}
	// The policy itself: what a module would do wrong is an error.
	strict := func(e *runtime.EvaluateParams) { e.AllowUnsafeEvalBlockedByCSP = new(bool) }
	for _, js := range []string{`document.body.innerHTML = '<b>x</b>'`, `document.write('<b>x</b>')`, `eval('1')`,
		`setTimeout('window.owned=1')`, `document.createElement('script').src = '/x.js'`} {
		p.expect("")
		if refused, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`(() => { try { `+js+
			`; return false; } catch { return true; } })()`, strict)); err != nil || !refused {
			t.Errorf("the policy allows %s", js)
		}
	}
}

func TestPictures(t *testing.T) {
	f := newFleet(t)
	var file bytes.Buffer
	must.Do(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, 40, 30))))
	sum := fmt.Sprintf("%x", sha256.Sum256(file.Bytes()))
	f.blobs[sum] = file.Bytes()
	f.blobs[strings.Repeat("0", 64)] = []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"/>`)
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes())
	named := fmt.Sprintf("%x", sha256.Sum256([]byte(url)))
	f.blobs[named] = []byte(url)
	f.add("art", "main",
		j{"content": []j{{"type": "text", "text": "See"}, {"type": "image", "data": "blob:sha256:" + sum}}, "metadata": j{"type": "text"}},
		j{"content": []j{{"type": "image", "data": "blob:sha256:" + strings.Repeat("0", 64), "mimeType": "image/svg+xml"}},
			"metadata": j{"type": "text"}},
		j{"content": []j{{"type": "image_url", "image_url": "blob:sha256:" + named}}, "metadata": j{"type": "text"}},
	)
	p := open(t, f.URL+"/s/art/main", wide, tall)
	for _, n := range []string{"1", "3"} {
		p.wait(`document.querySelector('[data-n="` + n + `"] img')?.naturalWidth === 40`)
	}
	p.has("A picture that cannot be shown: not a PNG, JPEG, GIF or WebP.")
}

func TestToken(t *testing.T) {
	f := working(t)
	f.token = "0123456789abcdef"
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.expect("401")
	p.has("This server wants a token.")
	p.press("wrong" + kb.Enter)
	p.has("That token is not accepted.")
	p.press(f.token + kb.Enter)
	p.has("End of turn")
	if got := eval[string](p, `sessionStorage.getItem('spool.token') + localStorage.getItem('spool.token') + document.cookie`); got != f.token+"null" {
		t.Errorf("the token is kept as %q", got)
	}
}

func TestKeys(t *testing.T) {
	f := working(t)
	p := open(t, f.URL+"/s/orchard/main?n=1", wide, tall)
	at := func(n string) {
		t.Helper()
		p.wait(`document.activeElement?.closest('.row')?.dataset.n === '` + n + `'`)
	}
	at("1")
	p.press("j")
	at("2")
	p.press("o")
	p.wait(`!!document.querySelector('[data-n="2"] .prose.dim')`)
	p.press("jjj")
	at("6") // 5 is a part of 4
	p.press("k")
	at("4")
	p.press("?")
	p.wait(`document.querySelector('dialog[open] h2')?.textContent === 'Keys'`)
	p.press("j") // a key of the view behind does nothing
	p.press(kb.Escape)
	p.wait(`!document.querySelector('dialog')`)
	p.press("G")
	p.wait(`document.querySelector('main [aria-pressed]').getAttribute('aria-pressed') === 'true'`)
	theme := `document.documentElement.dataset.theme ?? ''`
	for _, want := range []string{"light", "dark", ""} {
		p.press("t")
		must.Same(t, eval[string](p, theme), want, "the theme is %q, want %q")
	}
	p.press("u")
	p.wait(`location.pathname === '/' && !!document.querySelector('.session-link')`)
	p.press("j")
	p.press(kb.Enter)
	p.wait(`location.pathname === '/s/orchard/main'`)
	p.has("End of turn")
	eval[bool](p, `history.back(), true`)
	p.wait(`location.pathname === '/'`)
	p.press("p")
	p.wait(`location.pathname === '/history'`)
}

// TestOutline holds each view to what a screen reader goes by.
func TestOutline(t *testing.T) {
	f := working(t)
	f.add("mill", "main", user("Grind"))
	f.ask("orchard", "main", "ship", "approval", "Ship it?", nil)
	f.ask("orchard", "main", "pick", "ask_user_question", "Pick", j{"questions": []j{
		{"question": "A?", "options": []j{{"label": "x"}}}, {"question": "B?", "options": []j{{"label": "y"}}},
	}})
	for path, outline := range map[string]string{
		"/":               "1 Fleet, 2 Needs you 2, 2 Sessions, 3 Running 2",
		"/s/orchard/main": "1 Session orchard, 2 1 prompt, 2 1 thread, 2 main 13 items prompt 1 of 1, 3 Prompt: Please **find** the late frost warning.",
		"/s/orchard/main?with=mill/main": "1 They do not begin alike, 2 orchard 13 items more, 3 Prompt: Please **find** the late frost warning., " +
			"2 mill 1 item more, 3 Prompt: Grind",
		"/history":        "1 Prompts",
		"/search?q=frost": "1 Search, 2 Session orchard",
		"/s/none/main":    "1 Not there",
	} {
		p := open(t, f.URL+path, wide, tall)
		p.expect("404")
		p.wait(`!!document.querySelector('main h1') && !document.querySelector('.side > .hint')`)
		p.wait(`!document.querySelector('.feed') || document.querySelectorAll('.row').length > 5`)
		p.wait(`!document.querySelector('.fleet') || document.querySelectorAll('.prompt').length === 2`)
		p.wait(`!document.querySelector('.search') || document.querySelector('.search-group h2')?.textContent === 'Session orchard'`)
		p.wait(`!document.querySelector('.history') || document.querySelectorAll('.found-prompts li').length > 0`)
		got := eval[string](p, `[...document.querySelectorAll('h1, h2, h3, h4')].map((el) => el.tagName[1] + ' ' + el.textContent.trim().replace(/\s+/g, ' ')).join(', ')`)
		must.Same(t, got, outline, "%s: the outline is\n%s, want\n%s", path)
		for what, js := range map[string]string{
			"one main, header, nav": `document.querySelectorAll('main').length === 1 && document.querySelectorAll('body > header nav[aria-label]').length === 1`,
			"a way past the bar":    `document.querySelector('body > a').getAttribute('href') === '#main'`,
			"a polite live region":  `document.querySelector('[aria-live="polite"]') !== null`,
			"a title":               `document.title.endsWith('Spool')`,
			"a language":            `document.documentElement.lang === 'en'`,
			"names of controls":     `[...document.querySelectorAll('button, a[href], input, textarea')].every((el) => (el.getAttribute('aria-label') ?? el.labels?.[0]?.textContent ?? el.textContent).trim() !== '')`,
			"no clickable boxes":    `![...document.querySelectorAll('#main :is(div, span, p)')].some((el) => el.onclick || el.getAttribute('role') === 'button')`,
			"ids that are unique":   `new Set([...document.querySelectorAll('[id]')].map((el) => el.id)).size === document.querySelectorAll('[id]').length`,
			"references that exist": `[...document.querySelectorAll('[aria-labelledby]')].every((el) => document.getElementById(el.getAttribute('aria-labelledby')))`,
			"articles alone in it":  `!document.querySelector('[role="feed"] > :not(article, [aria-hidden])')`,
			"names that are seen":   `[...document.querySelectorAll('a[aria-label], button[aria-label]')].every((el) => !/^\w[\w ]+$/.test(el.textContent) || el.getAttribute('aria-label').includes(el.textContent))`,
			"places in the feed":    `[...document.querySelectorAll('[role="feed"] article')].every((el) => el.ariaPosInSet && el.ariaSetSize && el.ariaLabel)`,
		} {
			if !eval[bool](p, js) {
				t.Errorf("%s: has not %s", path, what)
			}
		}
	}
}

// The name of a thread's session is a heading also where a phone folds it away.
func TestOutlineOfAPhone(t *testing.T) {
	p := open(t, working(t).URL+"/s/orchard/main", 390, 844)
	p.wait(`[...document.querySelectorAll('h1')].filter((el) => el.checkVisibility()).map((el) => el.textContent).join() === 'Session orchard'`)
}

// TestContrast computes, in both themes, on a screen and on a phone, the contrast of each text with what is behind it, questions of each
// kind and what stands in empty fields too: at least 4.5 (WCAG 2.2, 1.4.3).
func TestContrast(t *testing.T) {
	f := working(t)
	options := []j{{"label": "Pear", "description": "Keeps"}, {"label": "Plum"}}
	f.ask("orchard", "main", "ship", "approval", "Ship it?", nil)
	f.ask("orchard", "main", "one", "ask_user_question", "Which tree?", j{"questions": []j{{"question": "Which tree?", "options": options}}})
	f.ask("orchard", "main", "two", "ask_user_question", "Some things", j{"questions": []j{
		{"question": "Where?", "options": options}, {"question": "What with?", "multiSelect": true, "options": options}}})
	f.ask("orchard", "main", "three", "text", "Say it", nil)
	f.ask("orchard", "main", "over", "approval", "In a terminal?", nil)
	f.change(func() {
		last := f.prompts[len(f.prompts)-1]
		last["answerable"], last["overdue"], last["deadline"] = false, true, "2026-09-21T14:13:21Z"
	})
	for _, scheme := range []string{"light", "dark"} {
		for _, path := range []string{"/", "/s/orchard/main?n=4", "/history", "/history?q=frost", "/search?q=a"} {
			for _, width := range []int64{wide, 390} {
				p := open(t, f.URL+path, width, tall)
				p.colours(scheme)
				p.wait(`document.querySelectorAll('.session, .row, .found-prompts li, .hit').length > 0`)
				if path == "/" {
					p.wait(`document.querySelectorAll('#needs-you li').length === 5`)
				}
				for _, low := range eval[[]string](p, lowContrast) {
					t.Errorf("%s of %s, %d wide: %s", scheme, path, width, low)
				}
			}
		}
	}
}

const lowContrast = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const over = (colours, alpha = 1) => {
		canvas.clearRect(0, 0, 1, 1);
		colours.forEach((c, i) => { canvas.globalAlpha = i === colours.length - 1 ? alpha : 1; canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); });
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = (rgb) => {
		const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const out = new Set();
	const all = [...document.querySelectorAll('[placeholder]')].map((el) => [el, el.placeholder, getComputedStyle(el, '::placeholder').color]);
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = texts.nextNode(); node; node = texts.nextNode()) all.push([node.parentElement, node.data, getComputedStyle(node.parentElement).color]);
	for (const [el, text, colour] of all) {
		if (!text.trim() || !el.checkVisibility() || el.closest('.unseen, .skip, noscript, [disabled]')) continue;
		const behind = [];
		let alpha = 1;
		for (let up = el; up; up = up.parentElement) {
			behind.unshift(getComputedStyle(up).backgroundColor);
			alpha *= getComputedStyle(up).opacity;
		}
		if (!alpha) continue;
		const ground = over(behind);
		const ink = over([...behind, colour], alpha);
		const [a, b] = [light(ground), light(ink)].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) out.add(((a + 0.05) / (b + 0.05)).toFixed(2) + ' ' + el.className + ' ' + text.trim().slice(0, 40));
	}
	return [...out];
})()`

// TestNarrow holds each view to the width of a phone: nothing reaches out of it.
func TestNarrow(t *testing.T) {
	f := working(t)
	f.add("orchard", "main", agent(strings.Repeat("W", 600)),
		call("l", "mcp__a_server_with_a_very_long_name__and_a_tool", j{"query": strings.Repeat("x", 300)}))
	f.ask("orchard", "main", "ship", "approval", strings.Repeat("Ship", 80), nil)
	for i := range 999 {
		f.ask("orchard", "main", fmt.Sprint("more-", i), "approval", "Ship?", nil)
	}
	for _, path := range []string{"/", "/s/orchard/main", "/history", "/search?q=W"} {
		p := open(t, f.URL+path, 390, 844)
		p.wait(`document.querySelectorAll('.session, .row, .found-prompts li, .hit').length > 0`)
		wider := eval[[]string](p, `[...document.querySelectorAll('body, body *')].filter((el) => el.checkVisibility() && !el.closest('.unseen, .skip, pre, .table') && el.getBoundingClientRect().right > innerWidth + 1).map((el) => el.tagName + '.' + el.className)`)
		if len(wider) != 0 || eval[bool](p, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("%s is wider than the phone: %q", path, wider)
		}
	}
}

func TestForks(t *testing.T) {
	f := working(t)
	f.add("orchard", "retry", user("Please find it"), agent("Anew"))
	f.change(func() {
		f.forks["orchard"] = []j{
			{"session": "orchard", "thread": "main", "n": 11, "from_n": 0},
			{"session": "orchard", "thread": "retry", "n": 4, "from_n": 3, "source": j{"session": "orchard", "thread": "main", "n": 3}},
		}
	})
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.wait(`document.querySelectorAll('.forks svg .lane').length === 2 && document.querySelectorAll('.fork-list a').length === 2`)
	p.wait(`document.querySelector('[data-n="3"] .marker')?.textContent === 'Fork: retry · Compare'`)
	p.click(`[data-n="3"] .marker a`)
	p.wait(`location.pathname === '/s/orchard/retry'`)
}

// TestCompare: of two threads that begin alike one sees how far they are the same, and what each goes on with.
func TestCompare(t *testing.T) {
	f := working(t)
	for i := range 500 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	f.change(func() { f.threads["orchard/retry"] = slices.Clone(f.threads["orchard/main"][:300]) })
	f.ask("orchard", "main", "ship", "approval", "Ship it?", nil)
	f.add("orchard", "retry", user("Once more <b>now</b>"), call("r", "Bash", j{"command": "make"}), result("r", "made", true))
	f.change(func() {
		f.forks["orchard"] = []j{
			{"session": "orchard", "thread": "main", "n": 512, "from_n": 0},
			{"session": "orchard", "thread": "retry", "n": 303, "from_n": 300, "source": j{"session": "orchard", "thread": "main", "n": 300}},
		}
		f.asked = nil
	})
	p := open(t, f.URL+"/s/orchard/main?n=300", wide, tall)
	p.wait(`!!document.querySelector('[data-n="300"] .marker a:last-of-type')`)
	f.change(func() { f.asked = nil })
	p.click(`[data-n="300"] .marker a:last-of-type`)
	p.has("The first 300 items are the same")
	p.wait(`document.querySelectorAll('.sides section').length === 2`)
	if got := len(f.asked); got > 30 {
		t.Errorf("%d requests, want no more than halving needs", got)
	}
	rows := `[...document.querySelectorAll('.sides section')].map((el) => el.querySelector('.count').textContent + ' ' + el.querySelectorAll('.row').length).join()`
	p.wait(rows + ` === '212 items more 60,3 items more 2'`)
	p.wait(`document.querySelector('.sides section:last-child .row.user').textContent.includes('Once more <b>now</b>')`)
	p.wait(`document.querySelector('.sides section:last-child .row.failed pre').textContent === 'made'`)
	p.picture("compare")
	p.click(".sides section:first-child > button")
	p.wait(rows + ` === '212 items more 120,3 items more 2'`)
	for _, shown := range []string{"180", "212"} {
		p.click(".sides section:first-child > button")
		p.wait(rows + ` === '212 items more ` + shown + `,3 items more 2'`)
	}
	p.wait(`document.querySelector('.row.pending_prompt').ariaLabel.startsWith('Question that waits') && document.querySelector('.row.user').ariaLabel.startsWith('Prompt')`)
	if text := eval[string](p, "document.body.innerText"); strings.Contains(text, "Not open any more") {
		t.Error("a question that waits is called no longer open")
	}
	p.click(".sides section:last-child .head")
	p.wait(`!document.querySelector('.sides section:last-child .row.failed pre')`)

	p = open(t, f.URL+"/s/orchard/retry?with=orchard/main", 390, tall)
	p.has("The first 300 items are the same")
	p.wait(`document.querySelectorAll('.sides .row').length === 62 && document.documentElement.scrollWidth <= innerWidth`)
	p.picture("compare-narrow")
	f.add("mill", "main", user("Grind"))
	p = open(t, f.URL+"/s/orchard/retry?with=mill/main", wide, tall)
	p.has("They do not begin alike")
	p = open(t, f.URL+"/s/orchard/retry?with=none/main", wide, tall)
	p.expect("404")
	p.has("no such thread: none/main")
}

func TestErrors(t *testing.T) {
	f := working(t)
	f.fail = "/v1/sessions"
	p := open(t, f.URL, wide, tall)
	p.expect("500")
	p.has("The list could not be read: broken on purpose")

	f.mu.Lock()
	f.fail = "/v1/sessions/orchard/threads/main/items"
	f.mu.Unlock()
	p = open(t, f.URL+"/s/orchard/main", wide, tall)
	p.expect("500")
	p.has("That did not work broken on purpose")
	f.mu.Lock()
	f.fail = ""
	f.mu.Unlock()
	p.click(".empty button")
	p.has("End of turn")

	for i := range 500 {
		f.add("orchard", "main", agent(fmt.Sprintf("Line %d", i)))
	}
	p = open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("Line 499")
	f.mu.Lock()
	f.fail = "/v1/sessions/orchard/threads/main/items"
	f.mu.Unlock()
	p.expect("500")
	p.press("g")
	p.press("1")
	p.has("Item 1 of this thread")
	p.press(kb.Enter)
	p.wait(`/Items from (1|65) on could not be read: broken on purpose/.test(document.body.innerText)`) // both are asked for at once
	f.mu.Lock()
	f.fail = ""
	f.mu.Unlock()
	p.click(".problem button")
	p.wait(`!!document.querySelector('[data-n="1"]')`)
}

// What is counted of the sessions that are listed is said to be no more than that.
func TestCountsOfAPage(t *testing.T) {
	f := working(t)
	f.next = "on" // to the same one, again and again
	p := open(t, f.URL, wide, tall)
	p.has("Running 60+")
	p.wait(`[...document.querySelectorAll('.tab')].map((el) => el.innerText.trim()).join() === 'All,Waiting,Running 60+,Failed,Idle,Done'`)
	p.click(".tab:nth-child(4)")
	p.has("None of the newest sessions is like that.")
}

// Where not all sessions are listed the server counts them by their state, and finds those of one.
func TestCountsOfTheServer(t *testing.T) {
	f := working(t)
	f.next, f.states = "on", j{"running": 67, "failed": 1, "idle": 2}
	p := open(t, f.URL, wide, tall)
	p.wait(`[...document.querySelectorAll('.tab')].map((el) => el.innerText.trim()).join() === 'All,Waiting 0,Running 67,Failed 1,Idle 2,Done 0'`)
	f.change(func() {
		f.sessions = append(f.sessions, j{"id": "broken", "title": "Broken far back", "state": "failed"})
	})
	p.click(".tab:nth-child(4)")
	p.has("Broken far back")
	p.wait(`[...document.querySelectorAll('.group h3')].map((el) => el.innerText.trim().replace(/\s+/g, ' ')).join() === 'Failed 1'`)
}

// Who looks for sessions of one state goes on to those that are far back, as far as there are any.
func TestSessionsFarBack(t *testing.T) {
	f := working(t)
	f.next, f.depth, f.states = "on", 8, j{"running": 67, "failed": 1}
	f.change(func() {
		f.sessions = append(f.sessions, j{"id": "broken", "title": "Broken far back", "state": "failed"})
	})
	p := open(t, f.URL, wide, tall)
	p.wait(`[...document.querySelectorAll('.tab')].some((el) => el.innerText.trim() === 'Failed 1')`)
	p.click(".tab:nth-child(4)")
	p.has("None of the newest sessions is like that.")
	for range 2 {
		p.click("button.more")
		p.wait(`!document.querySelector('button.more').disabled`)
	}
	p.has("Broken far back")
	p.wait(`document.querySelector('button.more').hidden`)
}

// What is listed far back is looked at again, a minute later: a session that left its state leaves the list of it.
func TestSessionLeavesItsState(t *testing.T) {
	f := working(t)
	f.next, f.depth, f.states = "on", 8, j{"running": 67, "failed": 1}
	broken := j{"id": "broken", "title": "Broken far back", "state": "failed"}
	f.change(func() { f.sessions = append(f.sessions, broken) })
	p := open(t, f.URL, wide, tall)
	p.wait(`[...document.querySelectorAll('.tab')].some((el) => el.innerText.trim() === 'Failed 1')`)
	p.click(".tab:nth-child(4)")
	p.has("None of the newest sessions is like that.")
	for range 2 {
		p.click("button.more")
		p.wait(`!document.querySelector('button.more').disabled`)
	}
	p.has("Broken far back")
	f.change(func() { broken["state"] = "idle" })
	p.wait(`(() => { const now = Date.now; Date.now = () => now() + 61_000; return true; })()`)
	p.click(".tab:nth-child(4)")
	p.wait(`!document.body.innerText.includes('Broken far back')`)
	p.has("No session is like that.")
}

// A list that comes late, for words or a state that nobody asks for any more, does not take the place of the one that is asked for.
func TestListThatComesLate(t *testing.T) {
	f := working(t)
	f.add("ferry", "main", user("Paint it"))
	f.change(func() { f.held = make(chan struct{}) })
	p := open(t, f.URL, wide, tall)
	p.wait(`document.querySelectorAll('.session').length === 2`)
	p.wait(`(() => {
		const json = Response.prototype.json;
		Response.prototype.json = async function () {
			const got = await json.call(this);
			if (this.url.includes('q=ferry')) setTimeout(() => { window.late = true; });
			return got;
		};
		return true;
	})()`)
	p.press("f")
	p.press("ferry")
	must.Until(t, "the list for the words", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.ContainsFunc(f.asked, func(uri string) bool { return strings.Contains(uri, "q=ferry") })
	})
	p.wait(`(() => {
		const field = document.querySelector('input[type=search]');
		field.value = '';
		field.dispatchEvent(new Event('input'));
		return true;
	})()`)
	f.add("fence", "main", user("Mend it"))
	p.wait(`document.querySelectorAll('.session').length === 3`)
	close(f.held)
	p.wait(`window.late`)
	if got := eval[int](p, `document.querySelectorAll('.session').length`); got != 3 {
		t.Errorf("behind the late list %d sessions are shown, want 3", got)
	}
}

// Enter goes where what is typed leads, also before the list of sessions for it has come.
func TestGoToBeforeTheList(t *testing.T) {
	f := working(t)
	f.add("mill", "main", user("Grind the corn"))
	f.mu.Lock()
	f.held = make(chan struct{})
	f.mu.Unlock()
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.has("End of turn")
	p.press("g")
	p.wait(`document.querySelectorAll('#places li').length > 1`) // without words it has come
	p.press("2")
	p.press(kb.Enter)
	p.wait(`document.activeElement?.dataset.n === '2'`)

	p.press("g")
	p.wait(`document.querySelectorAll('#places li').length > 1`)
	p.press("mill")
	p.press(kb.Enter)
	close(f.held)
	p.has("Grind the corn")
	p.wait(`location.pathname.startsWith('/s/mill')`)

	p.press("g")
	p.wait(`document.querySelectorAll('#places li').length > 1`)
	p.press("nowhere")
	p.has("Nothing found.")
}

// A call leads to the thread of the subagent that it set to work, also in another session.
func TestSubagent(t *testing.T) {
	f := working(t)
	f.calls = map[string]string{"orchard/agent-1": "c1", "mill/main": "c1"}
	f.add("orchard", "agent-1", user("Look at the clock"))
	p := open(t, f.URL+"/s/orchard/main", wide, tall)
	p.wait(`document.querySelectorAll('.row .marker').length === 2`)
	p.wait(`document.querySelector('.row .marker a[href="/s/mill/main"]').textContent === 'mill'`)
	p.has("Subagent: agent-1")
	p.click(".row .marker a")
	p.has("Works for the call c1")
	p.has("Look at the clock")
}

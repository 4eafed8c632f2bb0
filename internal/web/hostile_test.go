package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// evil breaks out of whatever it is put into: an address, an attribute, an element, a string of a script, a template, a
// line, markdown, a terminal.
const evil = `javascript:window.owned=1//"'></script></style></textarea></title>--><script>window.owned=1</script>` +
	`<img src=x onerror=window.owned=1><svg onload=window.owned=1></svg><iframe srcdoc="<script>parent.owned=1</script>">` +
	`</iframe>{{constructor.constructor('window.owned=1')()}}${window.owned=1}';window.owned=1;'` + "\u2028\u2029" +
	"[x](javascript:window.owned=1) \x1b]8;;javascript:window.owned=1\x07y\x1b]8;;\x07" +
	"\u2066\u2067\u202d\u202e" // what follows is to be read from the right, or to go for another's words

// curt is for what has a bound.
const curt = `javascript:window.owned=1//"'></script><script>window.owned=1</script><img src=x onerror=window.owned=1>` + "\u202e"

// kept are members that say what an entry is and which one: with others it is not read as what it is.
var kept = []string{
	"type", "subtype", "role", "uuid", "parentUuid", "leafUuid", "id", "parentId", "call_id", "timestamp", "tool_use_id",
	"toolCallId", "session_id", "sessionId", "isSidechain", "kind", "status", "stop_reason", "targetId", "firstKeptEntryId",
}

// poison puts evil into every string of a value, and one as a member of every object.
func poison(v any) any {
	switch v := v.(type) {
	case string:
		return evil
	case []any:
		for i := range v {
			v[i] = poison(v[i])
		}
	case map[string]any:
		for name, member := range v {
			if _, text := member.(string); !text || !slices.Contains(kept, name) {
				v[name] = poison(member)
			}
		}
		v[evil] = evil
	}
	return v
}

// poisoned stores the example of a dialect, each entry with one kind of string as it is and the others evil.
func (s *spool) poisoned(session, pattern string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", pattern))
	if err != nil || len(files) == 0 {
		s.t.Fatal(pattern, err)
	}
	text := must.Get(os.ReadFile(files[0]))(s.t)
	dialect, _, _ := strings.Cut(pattern, "/")
	var entries []client.Entry
	for line := range bytes.Lines(text) {
		var v any
		must.Do(s.t, json.Unmarshal(line, &v))
		body := must.Get(json.Marshal(poison(v)))(s.t)
		entries = append(entries, client.Entry{
			Thread: events.Thread{Session: session, Name: "main"}, Dialect: dialect, Body: body,
		})
	}
	pub := s.client.Publisher(client.PublisherConfig{Host: evil, User: evil})
	must.Do(s.t, must.Get(pub.Publish(s.t.Context(), entries...))(s.t).Applied(s.t.Context()))
}

func (s *spool) request(method, path, kind, body string) string {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body)))(s.t)
	req.Header.Set("Content-Type", kind)
	res := must.Get(http.DefaultClient.Do(req))(s.t)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Fatalf("%s %s = %s %.300s, %v", method, path, res.Status, answer, err)
	}
	return string(answer)
}

// hostile fills every field that an agent has the say of, and returns the addresses of what it made.
func (s *spool) hostile() (pages, api []string) {
	t, ctx := s.t, s.t.Context()
	for session, pattern := range map[string]string{
		"of-claude": "claude/projects/*/*.jsonl", "of-codex": "codex/sessions/*/*/*/*.jsonl", "of-omp": "omp/sessions/*/*.jsonl",
	} {
		s.poisoned(session, pattern)
		pages = append(pages, "/s/"+session+"/main?n=1")
	}
	main := events.Thread{Session: "of-items", Name: "main"}
	s.add(main.Session, main.Name,
		user(evil), agent(evil), call(evil, evil, j{"command": evil, evil: evil}), result(evil, evil, true),
		j{"content": []j{{"type": "image", "data": evil}, {"type": evil, "text": evil}}, "metadata": j{"type": "text"}},
		j{"content": text(evil), "metadata": j{"type": "status", "status": evil, "detail": evil}},
		j{"content": text(evil), "metadata": j{"type": "pending_prompt", "prompt": j{
			"id": "ask", "kind": "ask_user_question",
			"questions": []j{{"question": evil, "header": evil, "options": []j{{"label": evil, "description": evil}}}},
		}}},
	)
	ack := must.Get(s.client.Publisher(client.PublisherConfig{}).Publish(ctx, client.Entry{Thread: main, Dialect: "item",
		Body: must.Get(json.Marshal(j{"content": text(evil), "metadata": j{"type": evil}}))(t)}))(t)
	must.Is(t, ack.Applied(ctx), client.ErrRefused, "an item whose type is no name")
	out := must.Get(s.client.Thread(main).Output(ctx, client.OutputConfig{
		ID: "o", Tool: evil, Input: []byte(quoted(evil)), Cwd: evil, Agent: evil, Host: evil,
	}))(t)
	fmt.Fprintln(out, evil)
	t.Cleanup(func() { _ = out.Close(client.OutputEnd{}) })
	run, err := s.client.Thread(main).StartRun(ctx, client.RunConfig{Agent: curt, Summary: curt, User: curt, Host: curt})
	if err == nil {
		err = run.End(ctx, artifacts.RunFailed, curt)
	}
	must.Do(t, err)
	s.changes(main)
	const document = "<!doctype html><script>window.owned=1</script>"
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"><script>window.owned=1</script></svg>`
	for kind, body := range map[string]string{
		"text/html": document, "image/svg+xml": drawing, "application/xhtml+xml": document, "text/xml": drawing,
		"multipart/x-mixed-replace; boundary=b": "--b\r\nContent-Type: text/html\r\n\r\n" + document + "\r\n--b--",
	} {
		ref := must.Get(s.client.PutBlob(ctx, []byte(body)))(t)
		q := url.Values{}
		for _, name := range []string{"tool", "agent", "tool_call", "summary"} {
			q.Set(name, curt)
		}
		q.Set("filename", `"><script>window.owned=1<x>.html`)
		var made struct {
			ID  string `json:"artifact_id"`
			Seq string
		}
		answer := s.request("POST", "/v1/sessions/of-items/artifacts?"+q.Encode(), kind, body)
		if err := json.Unmarshal([]byte(answer), &made); err != nil || made.ID == "" {
			t.Fatalf("artifact = %s, %v", answer, err)
		}
		name := fmt.Sprint("of-stream-", len(api))
		s.request("PUT", "/v1/stream/"+name, kind, body)
		api = append(api, "/v1/blobs/"+ref.Hex(), "/v1/artifacts/"+made.ID, "/v1/stream/"+name+"?offset=-1",
			"/v1/read?session=of-items&url="+url.QueryEscape("artifact://"+made.Seq))
	}
	strange := url.PathEscape(evil)
	pages = append(pages, "/", "/s/of-items/main?n=1", "/s/of-items/fork?n=1", "/s/of-items/main?with=of-items/fork",
		"/s/of-items/fork?with=of-claude/main", "/history", "/history?q=owned", "/s/of-items/main?q="+strange,
		"/n/"+strings.Repeat("0", 64)+"?s="+strange+"&t="+strange, "/?q="+strange, "/search?q=owned")
	for _, path := range []string{
		"", "/graph", "/threads", "/threads/main", "/threads/main/items", "/threads/main/logs/thread.log", "/artifacts",
		"/threads/main/outputs", "/threads/main/search?q=owned",
	} {
		api = append(api, "/v1/sessions/of-items"+path)
	}
	return pages, append(api, "/v1/sessions/"+strange, "/v1/"+strange, "/"+strange, "/s/"+strange, "/s/a/"+strange, "/n/"+
		strange, "/v1/prompts", "/v1/runs", "/v1/history?q=owned", "/v1/search?q=owned",
		"/v1/sessions", "/v1/read?url="+strange, "/v1/stream/"+strange, "/metrics")
}

// changes does to a thread what an agent does to what is there, and asks.
func (s *spool) changes(main events.Thread) {
	t, ctx := s.t, s.t.Context()
	session, thread := s.client.Session(main.Session), s.client.Thread(main)
	must.Do(t, session.Name(ctx, evil, false))
	must.Do(t, session.Move(ctx, "/home/"+curt))
	must.Do(t, thread.Compact(ctx, evil, ""))
	fork := events.Thread{Session: main.Session, Name: "fork"}
	must.Do(t, s.client.Thread(fork).Fork(ctx, events.Fork{Session: main.Session, Thread: main.Name, Index: 3}))
	s.add(fork.Session, fork.Name, user(evil), result("none", evil, true), agent(evil))
	for _, evil := range []string{evil, "x\u202e", "<img>", `a"b`} {
		if err := s.client.Thread(events.Thread{Session: main.Session, Name: evil}).Fork(ctx,
			events.Fork{Session: main.Session, Thread: main.Name, Index: 1}); err == nil {
			t.Errorf("a fork is named %q, want a refusal", evil)
		}
	}
	for i, prompt := range []j{
		{"kind": events.PromptText}, {"kind": events.PromptApproval}, {"kind": curt, curt: evil},
		{"kind": events.PromptQuestion, "questions": []j{
			{"question": evil, "header": evil, "options": []any{evil, j{"label": evil, "description": evil}}},
			{"question": evil, "multiSelect": true, "options": []j{{"label": evil, "value": evil}}},
		}},
		{"kind": events.PromptText, "options": []any{evil, j{"title": evil, "value": j{evil: evil}}}},
	} {
		for _, id := range []string{fmt.Sprint("waits-", i), curt + fmt.Sprint(i)} {
			prompt["id"] = id
			s.add(main.Session, main.Name, j{"content": text(evil), "metadata": j{"type": "pending_prompt", "prompt": prompt}})
		}
		if prompt["kind"] != events.PromptApproval {
			must.Get(thread.Answer(ctx, events.Answer{Prompt: curt + fmt.Sprint(i), By: curt, Answer: []byte(quoted(evil))}))(t)
		}
	}
	omp := s.client.Thread(events.Thread{Session: "of-omp", Name: "main"})
	entry := must.Get(omp.BranchWithSummary(ctx, "", sessions.Summarized{Summary: evil}))(t)
	must.Get(omp.Label(ctx, entry, evil))(t)
}

// safe looks whether a page made more than text of what agents wrote.
func safe(t *testing.T, p *tab, where string) {
	t.Helper()
	for range 2 { // what is unfolded has buttons of its own; answers are a person's
		eval[bool](p, `document.querySelectorAll('#main button:not([aria-expanded="true"], form button, [aria-pressed])')`+
			`.forEach((el) => el.click()), true`)
	}
	eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 0))`)
	if eval[bool](p, `'owned' in window`) {
		t.Errorf("%s: a script ran", where)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll(':is(#main, dialog) :is(script, iframe, object, embed, style, link, base, `+
		`form[action], svg [onload], [onerror], [onclick], [style*="url"])')].map((el) => el.outerHTML)`); len(got) != 0 {
		t.Errorf("%s: elements of an agent's making: %q", where, got)
	}
	if got := eval[[]string](p, `[document.title, ...[...document.querySelectorAll('body, body *')].flatMap((el) => `+
		`[...el.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).concat(el.title ?? '', el.ariaLabel ?? ''))]`+
		`.filter((s) => /[\u202a-\u202e\u2066-\u2069]/.test(s))`); len(got) != 0 {
		t.Errorf("%s: texts that turn the direction of what is read: %q", where, got)
	}
	for _, address := range eval[[]string](p, `[...document.querySelectorAll('a, img')].map((el) => `+
		`el.getAttribute('href') ?? el.getAttribute('src') ?? '')`) {
		if begins := func(s string) bool { return strings.HasPrefix(address, s) }; !slices.ContainsFunc(
			[]string{"/", "https://", "#", "blob:"}, begins) {
			t.Errorf("%s: a link to %q", where, address)
		}
	}
	if outside := eval[[]string](p, `performance.getEntriesByType('resource').map((e) => e.name)`+
		`.filter((n) => !n.startsWith(location.origin) && !n.startsWith('blob:'))`); len(outside) != 0 {
		t.Errorf("%s: requests to %q", where, outside)
	}
}

// TestHostileSpool has an agent write evil into all that it can, and a person look at all that there is: every view, and
// every address of the API that a link could lead to.
func TestHostileSpool(t *testing.T) {
	chromium(t)
	s := up(t)
	pages, api := s.hostile()
	p := open(t, "about:blank", wide, tall)
	p.expect("") // that scripts are blocked, and nothing is there
	for _, path := range pages {
		p.do(chromedp.Navigate(s.url + path))
		shown := `.empty, .session`
		if strings.HasPrefix(path, "/s/") {
			shown = `.row:not(.pending)`
		} else if strings.HasPrefix(path, "/history") {
			shown = `.found-prompts li`
		} else if strings.HasPrefix(path, "/search") {
			shown = `.hit`
		}
		p.wait(`!document.querySelector('.loading') && !!document.querySelector('` + shown + `') || ` + again)
		if !strings.Contains(path, "/n/") && !strings.Contains(path, "q="+url.PathEscape(evil)) {
			p.wait(`document.querySelector('#main').textContent.includes('window.owned=1')`)
		}
		safe(t, p, path)
	}
	p.do(chromedp.Navigate(s.url))
	p.wait(`!!document.querySelector('.session-link')`)
	p.press("gowned")
	p.wait(`!!document.querySelector('.places li')`)
	safe(t, p, "places")
	for _, path := range api {
		ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
		_ = chromedp.Do(ctx, chromedp.Navigate(s.url+path)) // a download, or a stream, ends no navigation
		cancel()
		if eval[bool](p, `'owned' in window`) {
			t.Errorf("%s: a script ran", path)
			p.do(chromedp.Navigate("about:blank"))
		}
	}
}

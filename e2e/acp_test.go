package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// editor is one of the Agent Client Protocol. It allows what it is asked.
type editor struct {
	t       *testing.T
	p       *proc.Process
	in      io.WriteCloser
	out     chan []byte
	n       int
	updates []string // "kind text" of each, since the last call
	answers map[string]acpMessage
}

// acpMessage is what an editor reads.
type acpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			Kind    string          `json:"sessionUpdate"`
			Content json.RawMessage `json:"content"`
			Title   string          `json:"title"`
		} `json:"update"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (w *world) agent(flags ...string) []string {
	return append([]string{filepath.Join(proc.Bin(), "acpagent")}, flags...)
}

// edit starts an agent under spool exec --acp, in its home.
func (w *world) edit(agent ...string) *editor {
	w.t.Helper()
	return w.editor(w.command("spool", append([]string{"exec", "--acp", "--"}, agent...)...))
}

// has runs spool when everything is applied: what is durable need not be.
func (w *world) has(args ...string) string {
	w.t.Helper()
	conn := w.dial()
	must.Eventually(w.t, "all is applied", func() error {
		b, err := conn.Events().Backlog(w.t.Context())
		if err == nil && b.Pending+b.Unacked > 0 {
			err = fmt.Errorf("%d events are not", b.Pending+b.Unacked)
		}
		return err
	})
	return w.run("spool", args...)
}

func (w *world) editor(cmd *exec.Cmd) *editor {
	w.t.Helper()
	e := &editor{t: w.t, in: must.Get(cmd.StdinPipe())(w.t), out: make(chan []byte, 100_000), answers: map[string]acpMessage{}}
	r, out := io.Pipe()
	cmd.Stdout = out
	e.p = w.start(cmd)
	w.t.Cleanup(func() { _ = r.Close() })
	go func() { <-e.p.Done(); _ = out.Close() }()
	go func() {
		defer close(e.out)
		for in := bufio.NewReaderSize(r, 1<<20); ; {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				e.out <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return e
}

func (e *editor) send(line string) { must.Get(io.WriteString(e.in, line+"\n"))(e.t) }

// ask sends a request and does not wait.
func (e *editor) ask(method string, params any) (id string) {
	e.t.Helper()
	e.n++
	id = fmt.Sprint(e.n)
	e.send(encode(map[string]any{"jsonrpc": "2.0", "id": e.n, "method": method, "params": params}))
	return id
}

// read gives the next message; ok is false at the end.
func (e *editor) read() (m acpMessage, ok bool) {
	e.t.Helper()
	select {
	case line, open := <-e.out:
		if !open {
			return m, false
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return acpMessage{Method: "torn"}, true
		}
		if m.Method == "session/update" {
			var c struct {
				Text string `json:"text"`
			}
			_ = json.Unmarshal(m.Params.Update.Content, &c)
			e.updates = append(e.updates, strings.TrimSpace(m.Params.Update.Kind+" "+m.Params.Update.Title+c.Text))
		}
		return m, true
	case <-time.After(must.Patience):
		e.t.Fatalf("the agent says nothing; it said %q", e.updates)
		return m, false
	}
}

// answer reads to the answer of a request.
func (e *editor) answer(id string) acpMessage {
	e.t.Helper()
	for {
		if m, ok := e.answers[id]; ok {
			return m
		}
		m, ok := e.read()
		switch {
		case !ok:
			e.t.Fatalf("the agent ended before the answer to %s", id)
		case m.Method == "session/request_permission":
			e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`, m.ID))
		case m.Method == "":
			e.answers[string(m.ID)] = m
		}
	}
}

func (e *editor) call(method string, params any) acpMessage {
	e.t.Helper()
	e.updates = nil
	return e.answer(e.ask(method, params))
}

type params map[string]any

func prompt(session string, texts ...string) params {
	var blocks []any
	for _, s := range texts {
		blocks = append(blocks, params{"type": "text", "text": s})
	}
	return params{"sessionId": session, "prompt": blocks}
}

// open begins a session and gives its id.
func (e *editor) open(cwd string) string {
	e.t.Helper()
	if e.n == 0 {
		e.call("initialize", params{"protocolVersion": 1, "clientCapabilities": params{}})
	}
	m := e.call("session/new", params{"cwd": cwd, "mcpServers": []any{
		params{"name": "db", "command": "x", "args": []any{}, "env": []any{params{"name": "KEY", "value": "sekrit-1"}}}}})
	var r struct {
		SessionID string `json:"sessionId"`
	}
	must.Do(e.t, json.Unmarshal(m.Result, &r))
	return r.SessionID
}

// quit closes the agent's input and gives the exit code.
func (e *editor) quit() int {
	e.t.Helper()
	must.Do(e.t, e.in.Close())
	return e.p.Wait()
}

// TestACP: an editor and an agent have each other's bytes, and Spool has the session.
func TestACP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	e := w.edit(w.agent()...)
	s := e.open("/w")
	m := e.call("session/prompt", prompt(s, "say the quick brown fox"))
	must.Same(t, string(m.Result), `{"stopReason":"end_turn"}`, "answer %s, want %s")
	// Before the editor had its answer, the turn was durable.
	name := "acp-tester-" + s
	must.Eventually(t, "the turn is shown", func() error {
		items := w.run("spool", "tail", name, "--all", "--count", "4", "-T", "--json")
		for _, want := range []string{"say the quick brown fox",
			`"text":"thinking of the quick brown fox"`, `"text":"the quick brown fox"`, `"type":"turn_end"`} {
			if !strings.Contains(items, want) {
				return fmt.Errorf("items have no %s:\n%s", want, items)
			}
		}
		return nil
	})
	asked := e.ask("session/prompt", prompt(s, "tool"))
	must.Eventually(t, "the permission is a prompt", func() error {
		got := w.run("spool", "prompts", "ls")
		if !strings.Contains(got, "Permission asked: Read a.txt") || !strings.Contains(got, "not answered here") {
			return fmt.Errorf("spool prompts ls = %s", got)
		}
		return nil
	})
	e.answer(asked)
	must.Same(t, w.has("prompts", "ls", "--json"), "", "prompts %s, want none%s")
	if got := string(e.call("_x.y/z", params{"a": []int{1}, "sessionId": s}).Result); got != `{"got":{"a":[1],"sessionId":"`+s+`"}}` {
		t.Errorf("a method that nobody knows is answered %s", got)
	}
	must.Same(t, e.quit(), 0, "exit code %d, want %d")
	shown := w.has("show", name)
	for _, want := range []string{"say the quick", "quick brown fox", "Read a.txt", "the file's words",
		"Permission asked: Read a.txt (Allow once, Reject)",
		"Prompt approved: Allow once", "[x] Read", "It is read."} {
		if !strings.Contains(shown, want) {
			t.Errorf("spool show has no %q:\n%s", want, shown)
		}
	}
	context := w.has("session", "context", name, "--json")
	for _, want := range []string{`"role":"toolResult"`, `the file's words`, `It is read.`, `"mode":"code"`} {
		if !strings.Contains(context, want) {
			t.Errorf("spool session context has no %q:\n%s", want, context)
		}
	}
	must.Eventually(t, "what was said is found", func() error {
		if got := w.run("spool", "search", "quick brown"); !strings.Contains(got, name) {
			return fmt.Errorf("spool search says\n%s", got)
		}
		return nil
	})
	if got := w.has("session", "ls", "--all"); !regexp.MustCompile(name + " +acp ").MatchString(got) {
		t.Errorf("spool session ls does not say that the session is one of acp:\n%s", got)
	}
	if _, got, code := w.try("", "spool", "resume", name); code != 1 || !strings.Contains(got, "go on with: an editor that") {
		t.Errorf("spool resume = %d, %s", code, got)
	}
	raw := w.has("export", name)
	for _, want := range []string{"unknown_of_tomorrow", `"_meta":{"n":1}`, "_x.y/z", `"cwd":"/w"`,
		`"mcpServers":[{"name":"db"}]`, `"extra":1`} {
		if !strings.Contains(raw, want) {
			t.Errorf("the entries have no %s:\n%s", want, raw)
		}
	}
	if strings.Contains(raw, "sekrit") {
		t.Error("the environment of a server is in the log")
	}
}

// TestACPPasses: what the editor and the agent read is to the byte what they read without spool, but for what initialize says of sessions.
func TestACPPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	say := func(agent *exec.Cmd) (all []string) {
		e := w.editor(agent)
		e.open("/w")
		e.send("this is no JSON")
		e.send(`[{"jsonrpc":"2.0","method":"a/b"},1]`)
		e.send("{ \"method\" : \"_any/note\",\"jsonrpc\":\"2.0\", \"params\":{\"x\":1.0e3, \"sessionId\":\"k-1\"} }\r")
		for _, do := range []string{"say \u00e4\u2028 <b>&", "flood 2000", "huge 6000000", "say " + strings.Repeat("y", 5<<20)} {
			e.ask("session/prompt", prompt("k-1", do))
			for {
				line := must.Receive(t, e.out, "a line of "+do[:4])
				all = append(all, string(line))
				if bytes.Contains(line, []byte("stopReason")) {
					break
				}
			}
		}
		must.Same(t, e.quit(), 0, "exit code %d, want %d")
		return all
	}
	with := say(w.command("spool", append([]string{"exec", "--acp", "--"}, w.agent("-ids", "k")...)...))
	without := say(w.command("acpagent", "-ids", "k"))
	must.Same(t, len(with), len(without), "%d lines, want %d")
	for i := range with {
		if with[i] != without[i] {
			t.Fatalf("line %d is\n%.300q, want\n%.300q", i, with[i], without[i])
		}
	}
	flood := "piece 0. piece 1. piece 2. "
	if got := w.has("export", "acp-tester-k-1"); !strings.Contains(got, flood) || !strings.Contains(got, "piece 1999. ") ||
		!strings.Contains(got, strings.Repeat("x", 6_000_000)) {
		t.Errorf("the log lacks the flood, or the long line: %d bytes", len(got))
	}
}

// TestACPServed: a session goes on after its agent, its recorder and its machine are gone, though the agent keeps none.
func TestACPServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	for _, keeps := range []bool{false, true} { // an agent that loads sessions does not know those of another process
		flags := []string{"-name", fmt.Sprintf("keeps-%v", keeps), fmt.Sprintf("-load=%v", keeps)}
		e := w.edit(w.agent(flags...)...)
		s := e.open("/w")
		e.call("session/prompt", prompt(s, "say one two three"))
		e.call("session/prompt", prompt(s, "tool"))
		e.ask("session/prompt", prompt(s, "wait"))
		for e.updates = nil; len(e.updates) == 0; {
			e.read()
		}
		e.p.Kill() // it streams a message

		elsewhere := *w
		elsewhere.home = t.TempDir()
		e = elsewhere.edit(elsewhere.agent(flags...)...)
		m := e.call("initialize", params{"protocolVersion": 1})
		for _, want := range []string{`"loadSession":true`, `"list":{}`, `"resume":{}`, `"unknown":true`, `"extra":1`} {
			if !strings.Contains(string(m.Result), want) {
				t.Errorf("initialize says %s, want %s", m.Result, want)
			}
		}
		must.Eventually(t, "the session is listed", func() error {
			row := `{"sessionId":"` + s + `","cwd":"/w","title":"say one two three"`
			if m := e.call("session/list", params{}); !strings.Contains(string(m.Result), row) {
				return fmt.Errorf("session/list = %s", m.Result)
			}
			return nil
		})
		if m := e.call("session/list", params{"cwd": "/elsewhere"}); strings.Contains(string(m.Result), s) {
			t.Errorf("session/list of another directory = %s", m.Result)
		}
		m = e.call("session/load", params{"sessionId": s, "cwd": "/w", "mcpServers": []any{}})
		if m.Error != nil || string(m.Result) != `{"modes":{"availableModes":[],"currentModeId":"ask"}}` {
			t.Errorf("session/load = %s %v", m.Result, m.Error)
		}
		want := []string{"user_message_chunk say one two three", "agent_thought_chunk thinking of", "agent_thought_chunk one two three",
			"agent_message_chunk one", "agent_message_chunk two", "agent_message_chunk three", "user_message_chunk tool", "tool_call Read a.txt",
			"tool_call_update", "tool_call_update", "plan", "unknown_of_tomorrow", "agent_message_chunk It is read.", "user_message_chunk wait"}
		if got := strings.Join(e.updates[:len(want)], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("session/load gave\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		e.call("session/prompt", prompt(s, "repeat"))
		got := strings.Join(e.updates, "\n")
		for _, want := range []string{"do not remember", "User: say one two three", "Agent: one two three", "the file's words", "|repeat"} {
			if !strings.Contains(got, want) {
				t.Errorf("the agent is told %q, want %q in it", got, want)
			}
		}
		e.call("session/prompt", prompt(s, "repeat"))
		must.Same(t, strings.Join(e.updates, "\n"), "agent_message_chunk repeat", "the next prompt is %q, want %q")
		// Its cancellation finds the agent's session.
		id := e.ask("session/prompt", prompt(s, "wait"))
		for e.updates = nil; len(e.updates) == 0; {
			e.read()
		}
		e.send(encode(params{"jsonrpc": "2.0", "method": "session/cancel", "params": params{"sessionId": s}}))
		must.Same(t, string(e.answer(id).Result), `{"stopReason":"cancelled"}`, "answer %s, want %s")
		m = e.call("session/load", params{"sessionId": "none", "cwd": "/w", "mcpServers": []any{}})
		if m.Error == nil || m.Error.Code != -32002 {
			t.Errorf("session/load of none = %s %v", m.Result, m.Error)
		}
		if keeps { // the agent repeats what it said itself, of which the log has each once
			s := e.open("/w")
			e.call("session/prompt", prompt(s, "say only once"))
			m := e.call("session/load", params{"sessionId": s, "cwd": "/w", "mcpServers": []any{}})
			if string(m.Result) != "{}" || len(e.updates) != 5 {
				t.Errorf("session/load of the agent's own = %s %v, %q", m.Result, m.Error, e.updates)
			}
			if got := strings.Count(w.has("export", "acp-keeps_true-"+s), `"thinking":"thinking of only once"`); got != 1 {
				t.Errorf("a thought is in the log %d times", got)
			}
		}
		must.Same(t, e.quit(), 0, "exit code %d, want %d")

		e = elsewhere.edit(elsewhere.agent(flags...)...)
		e.call("initialize", params{"protocolVersion": 1})
		m = e.call("session/resume", params{"sessionId": s, "cwd": "/w"})
		if m.Error != nil && !keeps || len(e.updates) > 0 {
			t.Errorf("session/resume = %s %v, %q", m.Result, m.Error, e.updates)
		}
		e.quit()
	}
}

// TestACPKilled: of a recorder that is killed while an agent streams the log has what was streamed, up to its last moments, each piece once
// and in order.
func TestACPKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	e := w.edit(w.agent()...)
	s := e.open("/w")
	e.ask("session/prompt", prompt(s, "flood 90000"))
	for range 50_000 {
		e.read()
	}
	e.p.Kill()
	var said struct {
		Message struct {
			Role    string `json:"role"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
	}
	var text strings.Builder
	for line := range strings.Lines(w.has("export", "acp-tester-"+s)) {
		must.Do(t, json.Unmarshal([]byte(line), &said))
		for _, c := range said.Message.Content {
			if said.Message.Role == "assistant" {
				text.WriteString(c.Text)
			}
		}
		said.Message.Content = nil
	}
	n := 0
	for piece := range strings.SplitSeq(strings.TrimSuffix(text.String(), ". "), ". ") {
		must.Same(t, piece, fmt.Sprintf("piece %d", n), "%q, want %q")
		n++
	}
	if n < 25_000 {
		t.Errorf("the log has %d pieces of more than 50,000", n)
	}
	must.Same(t, w.has("dead", "ls", "--json"), "", "dead letters %s, want none%s")
}

// TestACPPicture: a picture comes back as it was sent, and is seen in the session.
func TestACPPicture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	e := w.edit(w.agent()...)
	s := e.open("/w")
	data := strings.Repeat("iVBORw0KGgo+", 200_000)
	e.call("session/prompt", params{"sessionId": s, "prompt": []any{
		params{"type": "image", "mimeType": "image/png", "data": data}, params{"type": "text", "text": "say seen"}}})
	must.Same(t, e.quit(), 0, "exit code %d, want %d")
	if got := w.has("show", "acp-tester-"+s); !strings.Contains(got, "[image]") {
		t.Errorf("spool show has no picture:\n%.2000s", got)
	}
	e = w.edit(w.agent()...)
	e.call("initialize", params{"protocolVersion": 1})
	id := e.ask("session/load", params{"sessionId": s, "cwd": "/w", "mcpServers": []any{}})
	m, _ := e.read()
	var c struct {
		Data string `json:"data"`
	}
	must.Do(t, json.Unmarshal(m.Params.Update.Content, &c))
	if m.Params.Update.Kind != "user_message_chunk" || c.Data != data {
		t.Errorf("session/load gave %.200s of %d bytes, want the picture of %d", m.Params.Update.Kind, len(c.Data), len(data))
	}
	e.answer(id)
}

// TestACPTwoSessions: sessions of one agent do not mix.
func TestACPTwoSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	e := w.edit(w.agent()...)
	a, b := e.open("/a"), e.open("/b")
	one, two := e.ask("session/prompt", prompt(a, "flood 500")), e.ask("session/prompt", prompt(b, "flood 500"))
	e.answer(one)
	if m := e.call("session/prompt", prompt(a, "say alpha")); m.Error != nil {
		t.Errorf("prompt = %v", m.Error)
	}
	e.answer(two)
	e.quit()
	first, second := w.has("export", "acp-tester-"+a), w.has("export", "acp-tester-"+b)
	if strings.Contains(first, b) || strings.Contains(second, a) || strings.Contains(second, "alpha") ||
		!strings.Contains(second, "piece 499.") {
		t.Error("two sessions are mixed")
	}
}

// TestACPEnds: what an agent said before it dies is there, and its turn has an end that says so; its exit code is ours.
func TestACPEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	for do, code := range map[string]int{"die": 3, "torn": 4} {
		e := w.edit(w.agent()...)
		s := e.open("/w")
		e.ask("session/prompt", prompt(s, do))
		last := ""
		for m, ok := e.read(); ok; m, ok = e.read() {
			last = m.Method
		}
		must.Same(t, e.p.Wait(), code, "exit code %d, want %d")
		must.Same(t, last == "torn", do == "torn", "a torn line is passed: %v, want %v")
		got := w.has("export", "acp-tester-"+s)
		for _, want := range []string{map[string]string{"die": "last words", "torn": "before the torn line"}[do], `"stopReason":"error"`,
			fmt.Sprintf("the agent ended with exit code %d", code)} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the log has no %q:\n%s", do, want, got)
			}
		}
	}
}

// TestACPSignal: a signal is the agent's, and its turn has an end.
func TestACPSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	e := w.edit(w.agent()...)
	s := e.open("/w")
	e.ask("session/prompt", prompt(s, "wait"))
	for e.updates = nil; len(e.updates) == 0; {
		e.read()
	}
	e.p.Signal(syscall.SIGTERM)
	must.Same(t, e.p.Wait(), 128+15, "exit code %d, want %d")
	if got := w.has("export", "acp-tester-"+s); !strings.Contains(got, `"text":"waiting"}],"stopReason":"error"`) {
		t.Errorf("the log has\n%s", got)
	}
}

// TestACPServerGoes: a server that goes away is noticed by nobody but the log, which has everything when it comes back.
func TestACPServerGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up("--sync", "always")
	e := w.edit(w.agent()...)
	s := e.open("/w")
	e.call("session/prompt", prompt(s, "say while it is there"))
	up.Kill()
	for i := range 3 {
		began := time.Now()
		e.call("session/prompt", prompt(s, fmt.Sprintf("say %d while it is away", i)))
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("a turn takes %v", took)
		}
	}
	w.up("--sync", "always")
	e.call("session/prompt", prompt(s, "say it is back"))
	must.Eventually(t, "the log has the turns", func() error {
		got := w.has("export", "acp-tester-"+s)
		for _, want := range []string{"while it is there", "0 while it is away", "1 while it is away", "2 while it is away", "it is back"} {
			if strings.Count(got, `"thinking":"thinking of `+want+`"`) != 1 {
				return fmt.Errorf("the log has %d entries, and not %q once", strings.Count(got, "\n"), want)
			}
		}
		return nil
	})
	must.Same(t, e.quit(), 0, "exit code %d, want %d")
}

// TestACPOffline: without a server the agent works as ever, and its session is sent when there is one, whatever died.
func TestACPOffline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.edit(w.agent()...)
	s := e.open("/w")
	e.call("session/prompt", prompt(s, "say kept on disk"))
	if m := e.call("session/list", params{}); m.Error == nil {
		t.Errorf("session/list without a server = %s", m.Result)
	}
	began := time.Now()
	m := e.call("session/load", params{"sessionId": s, "cwd": "/w", "mcpServers": []any{}})
	if took := time.Since(began); m.Error == nil || !strings.Contains(m.Error.Message, "wait on this machine") || took > 30*time.Second {
		t.Errorf("session/load without a server = %s %v after %v", m.Result, m.Error, took)
	}
	e.p.Kill()
	w.up()
	e = w.edit(w.agent()...) // sends what the other one left
	e.open("/w")
	must.Eventually(t, "what was kept is sent", func() error {
		got, _, _ := w.try("", "spool", "export", "acp-tester-"+s)
		if !strings.Contains(got, `"text":"kept on disk"`) {
			return fmt.Errorf("export = %s", got)
		}
		return nil
	})
	e.quit()
}

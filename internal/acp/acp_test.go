package acp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Log in memory.
type memory struct {
	mu    sync.Mutex
	lines map[string][]string
	taken int // entries, and of them
	flush int // those that are durable
}

func (l *memory) Publish(_ context.Context, session string, entry []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[string][]string{}
	}
	l.lines[session] = append(l.lines[session], string(entry))
	l.taken++
	return nil
}

func (l *memory) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush = l.taken
	return nil
}

func (l *memory) durable() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush
}

func (l *memory) Sessions(_ context.Context, prefix string) (all []Recorded, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.lines {
		if strings.HasPrefix(name, prefix) {
			all = append(all, Recorded{Name: name, Cwd: "/w"})
		}
	}
	return all, nil
}

func (l *memory) Lines(_ context.Context, session string, take func([]byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[session] == nil {
		return ErrNoSession
	}
	for _, line := range l.lines[session] {
		if err := take([]byte(line)); err != nil {
			return err
		}
	}
	return nil
}

// side is what one side reads.
type side struct {
	bytes.Buffer
	on func(line string)
}

func (s *side) Write(b []byte) (int, error) {
	if s.on != nil {
		s.on(string(b))
	}
	return s.Buffer.Write(b)
}

func (s *side) Close() error { return nil }

// said is an update with a text.
func said(kind, text string) string {
	return fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":%q,`+
		`"content":{"type":"text","text":%q}}}}`+"\n", kind, text)
}

// asks is a prompt, whose id is 1.
const asks = `{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}` + "\n"

func talk(log Log) (p *Proxy, editor, agent *side) {
	editor, agent = &side{}, &side{}
	return New(Config{Log: log, Command: "a-b", Editor: editor, Agent: agent}), editor, agent
}

// TestOrder: a prompt is durable before the agent has it, and the turn before the editor has the answer.
func TestOrder(t *testing.T) {
	log := &memory{}
	p, editor, agent := talk(log)
	agent.on = func(line string) {
		if strings.Contains(line, "session/prompt") && log.durable() < 1 {
			t.Error("the agent has a prompt that is not durable")
		}
	}
	editor.on = func(line string) {
		if strings.Contains(line, "stopReason") && log.durable() < 2 {
			t.Error("the editor has the answer to a turn that is not durable")
		}
	}
	must.Do(t, p.FromEditor(strings.NewReader(asks)))
	must.Get(io.WriteString(p, said("agent_message_chunk", "ho")+`{"id":1,"result":{"stopReason":"max_tokens"}}`+"\n"))(t)
	must.Do(t, p.End(""))
	lines := log.lines["acp-a_b-s"]
	if len(lines) != 2 || !strings.Contains(lines[1], `"content":[{"type":"text","text":"ho"}],"stopReason":"length"`) {
		t.Errorf("the log has %q", lines)
	}
	must.Same(t, len(strings.Split(editor.String(), "\n")), 3, "the editor has %d lines, want %d")
}

// read gives what subscribers are told of a session.
func (l *memory) read(session string) (all []events.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	omp, _ := dialect.Lookup("omp")
	var m dialect.Memory
	for _, line := range l.lines[session] {
		e, _ := omp.Read([]byte(line), &m)
		all = append(all, e.Items...)
	}
	return all
}

// items are those as "type detail" each.
func (l *memory) items(session string) string {
	var all []string
	for _, it := range l.read(session) {
		all = append(all, strings.TrimSpace(cmp.Or(it.Type, "post")+" "+it.Detail))
	}
	return strings.Join(all, ", ")
}

func (l *memory) Waiting(_ context.Context, session string) ([]string, error) {
	open := map[string]bool{}
	for _, it := range l.read(session) {
		if p, ok := events.ParsePrompt(it); ok {
			open[p.ID] = it.Type == events.TypePendingPrompt
		}
	}
	maps.DeleteFunc(open, func(_ string, waits bool) bool { return !waits })
	return slices.Collect(maps.Keys(open)), nil
}

// TestCalls: a call has one item and its result another one, in whatever order and how often an agent tells of it.
func TestCalls(t *testing.T) {
	update := func(members string) string {
		return `{"method":"session/update","params":{"sessionId":"s","update":{"toolCallId":"c",` + members + "}}}\n"
	}
	ask := `{"id":5,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"c","title":"Edit a","kind":"edit"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}` + "\n"
	for what, c := range map[string]struct{ said, want string }{
		"as it should": {update(`"sessionUpdate":"tool_call","title":"Read","kind":"read"`) +
			update(`"sessionUpdate":"tool_call_update","status":"in_progress"`) +
			update(`"sessionUpdate":"tool_call_update","status":"failed"`), "tool_call read, tool_result error"},
		"at once": {update(`"sessionUpdate":"tool_call","title":"Read","status":"completed","rawOutput":{"n":1}`),
			"tool_call tool, tool_result ok"},
		"ended twice": {update(`"sessionUpdate":"tool_call","title":"Read","status":"completed"`) +
			update(`"sessionUpdate":"tool_call_update","title":"Read a","kind":"read","status":"completed"`), "tool_call tool, tool_result ok"},
		"in its permission": {ask + update(`"sessionUpdate":"tool_call_update","status":"completed"`),
			"tool_call edit, pending_prompt, pending_prompt_resolved, tool_result ok"},
		"twice, and in its permission": {update(`"sessionUpdate":"tool_call","title":"Edit","kind":"edit"`) + ask +
			update(`"sessionUpdate":"tool_call","title":"Edit","kind":"edit","status":"completed"`),
			"tool_call edit, pending_prompt, pending_prompt_resolved, tool_result ok"},
	} {
		log := &memory{}
		p, _, _ := talk(log)
		must.Do(t, p.FromEditor(strings.NewReader(asks)))
		for line := range strings.Lines(c.said) {
			must.Get(io.WriteString(p, line))(t)
			if line == ask {
				must.Do(t, p.FromEditor(strings.NewReader(`{"id":5,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`+"\n")))
			}
		}
		must.Get(io.WriteString(p, `{"id":1,"result":{"stopReason":"end_turn"}}`+"\n"))(t)
		must.Do(t, p.End(""))
		if got, want := log.items("acp-a_b-s"), "post, "+c.want+", turn_end"; got != want {
			t.Errorf("%s: items %q, want %q", what, got, want)
		}
		var calls int
		for _, line := range log.lines["acp-a_b-s"] {
			for _, u := range replayed("s", []byte(line)) {
				if u := jsonscan.Get(u, "params", "update"); text(u, "sessionUpdate") == "tool_call" && text(u, "title") != "" {
					calls++
				}
			}
		}
		if want := max(1, strings.Count(c.said, `"tool_call"`)); calls != want {
			t.Errorf("%s: an editor that loads the session is told %d times of the call, want %d", what, calls, want)
		}
	}
}

// TestPermissions: a permission that an agent asks is a prompt under an id of its own, and each ends: by the editor's answer, with the
// turn, with the agent, or when the session is loaded after its recorder was killed.
func TestPermissions(t *testing.T) {
	const ask = `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Edit a"},` +
		`"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"Never","kind":"reject_always"},` +
		`{"optionId":"o","name":"Other"}]}}` + "\n"
	answer := func(outcome string) func(*Proxy) {
		return func(p *Proxy) {
			must.Do(t, p.FromEditor(strings.NewReader(`{"id":7,`+outcome+"}\n")))
		}
	}
	for what, c := range map[string]struct {
		then func(*Proxy)
		want string
	}{
		"allowed":   {answer(`"result":{"outcome":{"outcome":"selected","optionId":"y"}}`), `approved "Yes"`},
		"rejected":  {answer(`"result":{"outcome":{"outcome":"selected","optionId":"n"}}`), `denied "Never"`},
		"cancelled": {answer(`"result":{"outcome":{"outcome":"cancelled"}}`), `denied "none was given"`},
		"no kind":   {answer(`"result":{"outcome":{"outcome":"selected","optionId":"o"}}`), `answered "Other"`},
		"an error":  {answer(`"error":{"code":1}`), `denied "none was given"`},
		"the turn ends": {func(p *Proxy) { must.Get(io.WriteString(p, `{"id":1,"result":{"stopReason":"cancelled"}}`+"\n"))(t) },
			`denied "none was given"`},
		"the agent ends": {func(p *Proxy) { must.Do(t, p.End("gone")) }, `denied "none was given"`},
		"killed, and loaded": {func(p *Proxy) {
			next, _, _ := talk(p.cfg.Log)
			must.Do(t, next.FromEditor(strings.NewReader(`{"id":1,"method":"session/load","params":{"sessionId":"s"}}`+"\n")))
			must.Do(t, next.End(""))
		}, `denied "none was given"`},
	} {
		log := &memory{}
		for range 2 {
			p, _, _ := talk(log)
			must.Do(t, p.FromEditor(strings.NewReader(asks)))
			must.Get(io.WriteString(p, ask))(t)
			c.then(p)
		}
		asked, ended := map[string]bool{}, 0
		for _, it := range log.read("acp-a_b-s") {
			q, ok := events.ParsePrompt(it)
			switch {
			case !ok:
			case it.Type == events.TypePendingPrompt:
				must.Same(t, q.Text, "Permission asked: Edit a (Yes, Never, Other)", "the prompt is %s, want %s")
				asked[q.ID] = true
			default:
				ended++
				r := events.ParseResolution(it)
				if got := fmt.Sprintf("%s %s", r.Outcome, r.Answer); !asked[q.ID] || q.Kind != events.PromptApproval || got != c.want {
					t.Errorf("%s: settled is %s, want %s", what, it.Metadata, c.want)
				}
			}
		}
		if len(asked) != 2 || ended != 2 {
			t.Errorf("%s: %d prompts, of which %d end, want 2", what, len(asked), ended)
		}
	}

	log := &memory{}
	p, _, _ := talk(log)
	must.Do(t, p.FromEditor(strings.NewReader(asks)))
	must.Get(io.WriteString(p, ask+`{"id":1,"result":{"stopReason":"end_turn"}}`+"\n"))(t)
	answer(`"result":{"late":true}`)(p)
	must.Do(t, p.End(""))
	must.Same(t, strings.Count(strings.Join(log.lines["acp-a_b-s"], ""), `"late":true`), 1, "a late answer is there %d times, want %d")
}

// TestMode: a mode that the editor chooses is the session's once the agent agrees.
func TestMode(t *testing.T) {
	log := &memory{}
	p, _, _ := talk(log)
	set := `{"id":%d,"method":"session/set_mode","params":{"sessionId":"s","modeId":"code"}}` + "\n"
	must.Do(t, p.FromEditor(strings.NewReader(fmt.Sprintf(set, 1)+fmt.Sprintf(set, 2))))
	must.Get(io.WriteString(p, `{"id":1,"error":{"code":1}}`+"\n"+`{"id":2,"result":{}}`+"\n"))(t)
	must.Do(t, p.End(""))
	must.Same(t, log.items("acp-a_b-s"), "status", "items %q, want %q")
	must.Same(t, strings.Count(strings.Join(log.lines["acp-a_b-s"], ""), `"type":"mode_change"`), 1, "%d changes, want %d")
}

// TestRepeated: what an agent repeats of a prompt is no second one, neither in the log nor for an editor that loads the session.
func TestRepeated(t *testing.T) {
	log := &memory{}
	p, _, _ := talk(log)
	must.Do(t, p.FromEditor(strings.NewReader(asks)))
	must.Get(io.WriteString(p, said("user_message_chunk", "hi")+said("agent_message_chunk", "ho")+
		`{"id":1,"result":{"stopReason":"end_turn"}}`+"\n"))(t)
	must.Do(t, p.End(""))
	var updates []string
	for _, line := range log.lines["acp-a_b-s"] {
		for _, u := range replayed("s", []byte(line)) {
			updates = append(updates, text(u, "params", "update", "sessionUpdate"))
		}
	}
	must.Same(t, strings.Join(updates, " "), "user_message_chunk agent_message_chunk", "an editor is told %s, want %s")
	must.Same(t, strings.Count(strings.Join(log.lines["acp-a_b-s"], ""), `"role":"user"`), 1, "the user says %d things, want %d")
}

// TestHeld: what is streamed is written when it has been held for long enough, though nothing follows.
func TestHeld(t *testing.T) {
	log := &memory{}
	p, _, _ := talk(log)
	s := p.session("s")
	s.hold = time.NewTimer(time.Hour)
	must.Get(io.WriteString(p, said("agent_thought_chunk", "hm")))(t)
	must.Same(t, len(log.lines), 0, "%d sessions are written, want %d")
	p.held(s)
	if got := log.lines["acp-a_b-s"]; len(got) != 1 || !strings.Contains(got[0], `"thinking":"hm"`) {
		t.Errorf("the log has %q", got)
	}
}

// TestLoadedByTheAgent: what an agent repeats of a session that the log has not is recorded, and later nothing twice.
func TestLoadedByTheAgent(t *testing.T) {
	log := &memory{}
	load := `{"id":%d,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}` + "\n"
	agent := func(p *Proxy, id int) {
		must.Do(t, p.FromEditor(strings.NewReader(fmt.Sprintf(load, id))))
		must.Get(io.WriteString(p, said("user_message_chunk", "hel")+said("user_message_chunk", "lo")+said("agent_message_chunk", "ho")))(t)
		must.Get(fmt.Fprintf(p, `{"id":%d,"result":{}}`+"\n", id))(t)
	}
	for i := range 2 {
		p, editor, _ := talk(log)
		must.Get(io.WriteString(p, `{"id":0,"result":{}}`+"\n"))(t)
		agent(p, 1+i)
		must.Do(t, p.End(""))
		must.Same(t, strings.Count(editor.String(), "\n"), 5, "the editor has %d lines, want %d")
	}
	all := strings.Join(log.lines["acp-a_b-s"], "\n")
	for _, want := range []string{`"cwd":"/w","acp"`, `"role":"user","content":"hello"`, `[{"type":"text","text":"ho"}]`} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%s is %d times in\n%s", want, strings.Count(all, want), all)
		}
	}
}

// TestServed: a session that the agent does not have is told to the editor, goes on in a new one of the agent under its old id, and begins
// with what was said until the agent has answered a prompt. The agent's list has it once.
func TestServed(t *testing.T) {
	log := &memory{}
	p, _, _ := talk(log)
	must.Do(t, p.FromEditor(strings.NewReader(asks)))
	must.Get(io.WriteString(p, said("agent_message_chunk", "ho")+`{"id":1,"result":{"stopReason":"end_turn"}}`+"\n"))(t)

	p, editor, agent := talk(log)
	told, asked := make(chan string, 100), make(chan string, 100)
	editor.on, agent.on = func(line string) { told <- line }, func(line string) { asked <- line }
	from := func(line string) { must.Get(io.WriteString(p, line+"\n"))(t) }
	edit := func(line string) { must.Do(t, p.FromEditor(strings.NewReader(line+"\n"))) }
	next := func(from chan string, want string) {
		t.Helper()
		if got := must.Receive(t, from, want); !strings.Contains(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	edit(`{"id":"i","method":"initialize"}`)
	next(asked, "initialize")
	from(`{"id":"i","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"resume":null}}}}`)
	next(told, `{"loadSession":true,"sessionCapabilities":{"list":{},"resume":{}}}`)
	edit(`{"id":"l","method":"session/load","params":{"cwd":"/w","sessionId":"s","mcpServers":[7]}}`)
	next(asked, "session/load")
	from(`{"id":"l","error":{"code":-32002,"message":"none"}}`)
	next(told, `"user_message_chunk","content":{"type":"text","text":"hi"}`)
	next(told, `"agent_message_chunk","content":{"type":"text","text":"ho"}`)
	next(asked, `{"jsonrpc":"2.0","id":"spool-1","method":"session/new","params":{"cwd":"/w","mcpServers":[7]}}`)
	from(`{"id":"spool-1","result":{"sessionId":"new","modes":1}}`)
	next(told, `{"jsonrpc":"2.0","id":"l","result":{"modes":1}}`)
	for _, answer := range []string{`"error":{"code":-32000,"message":"log in"}`, `"result":{"stopReason":"end_turn"}`} {
		edit(asks[:len(asks)-1])
		next(asked, `"params":{"sessionId":"new","prompt":[{"type":"text","text":"This conversation goes on`)
		from(`{"method":"session/update","params":{"sessionId":"new","update":{"sessionUpdate":"plan"}}}`)
		next(told, `"sessionId":"s"`)
		from(`{"id":1,` + answer + "}")
		next(told, answer)
	}
	edit(`{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
	next(asked, `"prompt":[]`)
	edit(`{"id":3,"method":"session/list"}`)
	next(asked, "session/list")
	from(`{"id":3,"result":{"sessions":[ {"sessionId":"new"}, {"sessionId":"other"} ]}}`)
	next(told, `"sessions":[{"sessionId":"other"},{"sessionId":"s","cwd":"/w"`)
}

// TestSidesThatDoNotRead: a side that reads nothing before the other one has read does not stop that one.
func TestSidesThatDoNotRead(t *testing.T) {
	update := said("agent_message_chunk", "ho")
	for _, first := range []string{"editor", "agent"} {
		p, editor, agent := talk(&memory{})
		blocked, read := make(chan string, 1), make(chan string)
		block, reads := func(string) { blocked <- first; <-read }, func(string) { close(read) }
		fromAgent := func() { _, _ = io.WriteString(p, update) }
		fromEditor := func() { _ = p.FromEditor(strings.NewReader(asks)) }
		begin, then := fromAgent, fromEditor
		editor.on, agent.on = block, reads
		if first == "agent" {
			begin, then, editor.on, agent.on = fromEditor, fromAgent, reads, block
		}
		var both sync.WaitGroup
		both.Go(begin)
		must.Receive(t, blocked, "a line for the "+first)
		both.Go(then)
		must.Receive(t, read, "the other side to read while the "+first+" does not")
		both.Wait()
		must.Do(t, p.End(""))
	}
}

// TestLongLine: a line that is too long passes as it is, and those around it are read.
func TestLongLine(t *testing.T) {
	log := &memory{}
	p, editor, _ := talk(log)
	var warned []string
	p.cfg.Warn = func(format string, values ...any) { warned = append(warned, fmt.Sprintf(format, values...)) }
	p.telling.most = 1000
	long := said("agent_message_chunk", strings.Repeat("x", 5000))
	all := said("agent_message_chunk", "be") + long + said("agent_message_chunk", "hind")
	must.Get(io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{strings.NewReader(all)}, make([]byte, 64)))(t)
	must.Do(t, p.End(""))
	must.Same(t, editor.String() == all, true, "it passes: %v, want %v")
	must.Same(t, strings.Join(warned, "\n"), "not recorded: a line of the agent with more than 1000 bytes", "told is %s, want %s")
	if got := log.lines["acp-a_b-s"]; len(got) != 1 || !strings.Contains(got[0], `"text":"behind"`) {
		t.Errorf("the log has %q", got)
	}
}

// TestUnread: what is no message passes, and is told of; what asks for a permission and takes no answer is no prompt.
func TestUnread(t *testing.T) {
	log := &memory{}
	p, editor, agent := talk(log)
	var warned []string
	p.cfg.Warn = func(format string, values ...any) { warned = append(warned, fmt.Sprintf(format, values...)) }
	deep := strings.Replace(asks, `"hi"`, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), 1)
	must.Do(t, p.FromEditor(strings.NewReader("\n"+deep)))
	all := "[" + strings.TrimSpace(said("plan", "")) + "]\nhello\n" +
		`{"id":null,"method":"session/request_permission","params":{"sessionId":"s"}}` + "\n"
	must.Get(io.WriteString(p, all))(t)
	must.Do(t, p.End(""))
	must.Same(t, agent.String() == "\n"+deep && editor.String() == all, true, "all pass: %v, want %v")
	must.Same(t, strings.Join(warned, "\n"), "not recorded: a line of the editor that is no message\n"+
		"not recorded: a line of the agent that is no message", "told is %s, want %s")
	must.Same(t, log.items("acp-a_b-s"), "", "items %q, want %q")
}

// TestNames: the name of a session leads back to its id, and no two have one name.
func TestNames(t *testing.T) {
	p, _, _ := talk(&memory{})
	seen := map[string]string{}
	for _, id := range []string{"s", "019aa0c4-5be0", "a_b", "a_5fb", "a/b", "ä", " ", "_", "sess_1"} {
		name := p.logName(id)
		must.Do(t, events.CheckToken("session", name))
		if back, ok := p.editorID(name); back != id || !ok {
			t.Errorf("editorID(logName(%q) = %s) = %q, %v", id, name, back, ok)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %s", id, other, name)
		}
		seen[name] = id
	}
	long := p.logName(strings.Repeat("x", 300))
	must.Do(t, events.CheckToken("session", long))
	if id, ok := p.editorID(long); ok {
		t.Errorf("editorID(%s) = %q, want none", long, id)
	}
}

// TestWith: one value is changed, and nothing else.
func TestWith(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"a":{"b":1}}`, `{"a":{"b":"v"}}`},
		{` {"a" : { "b" : [1, {"b":2}] , "c":1.0e2}}`, ` {"a" : { "b" : "v" , "c":1.0e2}}`},
		{`{"a":{}}`, `{"a":{"b":"v"}}`},
		{`{"a":{ "c":1 }}`, `{"a":{ "c":1 ,"b":"v"}}`},
		{`{"a":[]}`, `{"a":[]}`},
		{`{}`, `{}`},
		{`{"a":{"b":1},"a":{"b":2}}`, `{"a":{"b":1},"a":{"b":"v"}}`},
	} {
		must.Same(t, string(with([]byte(c.raw), []byte(`"v"`), "a", "b")), c.want, "with(%s) = %s, want %s", c.raw)
	}
}

// FuzzLines: whatever either side writes, in any pieces, the other one reads to the byte, and what is recorded are entries. Sessions that
// are served from the log are none of this: nobody says what initialize does.
func FuzzLines(f *testing.F) {
	const update = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":%q,` +
		`"content":{"type":"text","text":"x"},"toolCallId":"c","title":"t",` +
		`"status":"completed","rawInput":[1],"entries":[{"content":"c"}],"currentModeId":"m"}}}` + "\n"
	for _, kind := range []string{"agent_message_chunk", "tool_call", "plan", "current_mode_update", "session_info_update", "other"} {
		f.Add(fmt.Sprintf(update, kind), 7)
	}
	f.Add(strings.Replace(asks, `{"type":"text"`, `{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"resource"`, 1), 100)
	f.Add(`{"id":1,"method":"session/request_permission","params":{"sessionId":"s","options":[{"name":"n"}]}}
{"id":1,"result":{}}
`, 3)
	f.Add(`{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{}],"env":[1]}}`+"\n"+`{"id":1,"result":{"sessionId":"s"}}`, 1000)
	f.Add("\n\r\n{}\n[]\nnone", 2)
	f.Fuzz(func(t *testing.T, said string, size int) {
		log := &memory{}
		p, editor, agent := talk(log)
		defer func() {
			for _, s := range p.all {
				if s.hold != nil {
					s.hold.Stop()
				}
			}
		}()
		must.Do(t, p.FromEditor(pieces{strings.NewReader(said), 1 + size&1023}))
		must.Get(io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{strings.NewReader(said)}, make([]byte, 1+size&1023)))(t)
		must.Do(t, p.End("ended"))
		if agent.String() != said {
			t.Errorf("the agent reads %q, want %q", agent, said)
		}
		if editor.String() != said {
			t.Errorf("the editor reads %q, want %q", editor, said)
		}
		omp, _ := dialect.Lookup("omp")
		for name, lines := range log.lines {
			must.Do(t, events.CheckToken("session", name))
			for _, line := range lines {
				if e, err := omp.Read([]byte(line), nil); !json.Valid([]byte(line)) || err != nil || !e.Known {
					t.Errorf("%s is no entry: %v", line, err)
				}
				for _, update := range replayed("s", []byte(line)) {
					if !json.Valid(update) {
						t.Errorf("%s is no message", update)
					}
				}
				(&transcript{}).add([]byte(line))
			}
		}
	})
}

// pieces reads so many bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }

func BenchmarkUpdate(b *testing.B) {
	log := &memory{}
	p, editor, _ := talk(log)
	line := []byte(said("agent_message_chunk", "a few words"))
	for b.Loop() {
		must.Get(p.Write(line))(b)
		editor.Reset()
	}
	must.Do(b, p.End(""))
}

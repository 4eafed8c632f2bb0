package project_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/project"
	"spool/pkg/dialect"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

const (
	user    = `{"type":"message","id":"a","message":{"role":"user","content":"Plan it"}}`
	answer  = `{"type":"message","id":"b","message":{"role":"assistant","content":[{"type":"text","text":"Done"}],"stopReason":"stop"}}`
	call    = `{"type":"message","id":"c","message":{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"toolCall","id":"1","name":"bash","arguments":{}}],"stopReason":"toolUse"}}`
	result  = `{"type":"message","id":"d","message":{"role":"toolResult","toolCallId":"1","content":[{"type":"text","text":"ok"}]}}`
	length  = `{"type":"message","id":"e","message":{"role":"assistant","content":[{"type":"text","text":"and th"}],"stopReason":"length"}}`
	aborted = `{"type":"message","id":"f","message":{"role":"assistant","content":[{"type":"text","text":"part"}],"stopReason":"aborted"}}`
	failed  = `{"type":"message","id":"g","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"503"}}`
	label   = `{"type":"label","id":"h","targetId":"a","label":"x"}`
	ran     = `{"type":"message","id":"i","message":{"role":"bashExecution","command":"ls","output":"","exitCode":0}}`
	model   = `{"type":"model_change","id":"j","model":"p/m"}`
	compact = `{"type":"compaction","id":"k","summary":"S","shortSummary":"Short"}`
)

// TestLearnNothingCopied: a fork of Codex has the headers of those that it comes from behind its own, and what they say is not of it.
func TestLearnNothingCopied(t *testing.T) {
	const own = `{"type":"session_meta","payload":{"id":"c","forked_from_id":"b","cwd":"/w","cli_version":"2"}}`
	const copied = `{"type":"session_meta","payload":{"id":"b","forked_from_id":"a","history_base":{"thread_id":"a"},"cwd":"/v","cli_version":"1"}}`
	info := sessions.Info{ID: "c"}
	d, _ := dialect.Lookup("codex")
	for i, line := range []string{own, copied} {
		e := must.Get(d.Read([]byte(line), new(dialect.Memory)))(t)
		project.Learn(&info, &e, true, i == 0)
	}
	want := sessions.Info{ID: "c", Harness: "codex", Parent: "b", Cwd: "/w", Program: "2"}
	must.Same(t, info, want, "learned %+v, want %+v")
}

// read gives entries to a session's record and head, as the persister does.
func read(t *testing.T, name string, lines ...string) (info sessions.Info, head threads.Head) {
	t.Helper()
	d, ok := dialect.Lookup(name)
	if !ok {
		t.Fatalf("no dialect %s", name)
	}
	var m dialect.Memory
	for _, line := range lines {
		e := must.Get(d.Read([]byte(line), &m))(t)
		project.Learn(&info, &e, true, false)
		project.Count(&head, &e)
	}
	return info, head
}

func TestStanding(t *testing.T) {
	for _, tt := range []struct {
		name, dialect string
		lines         []string
		want          sessions.Status
		messages      int64
	}{
		{"nothing", "omp", nil, sessions.StatusUnknown, 0},
		{"no message", "omp", []string{label, model}, sessions.StatusUnknown, 0},
		{"prompt", "omp", []string{user}, sessions.StatusPending, 1},
		{"answer", "omp", []string{user, answer}, sessions.StatusComplete, 2},
		{"answer, then a label", "omp", []string{user, answer, label, model}, sessions.StatusComplete, 2},
		{"call", "omp", []string{user, call}, sessions.StatusInterrupted, 2},
		{"result", "omp", []string{user, call, result}, sessions.StatusInterrupted, 3},
		{"answer after a result", "omp", []string{user, call, result, answer}, sessions.StatusComplete, 4},
		{"cut off", "omp", []string{user, length}, sessions.StatusInterrupted, 2},
		{"aborted", "omp", []string{user, aborted}, sessions.StatusAborted, 2},
		{"error", "omp", []string{user, failed}, sessions.StatusError, 2},
		{"error, tried again", "omp", []string{user, failed, answer}, sessions.StatusComplete, 3},
		{"the user ran something", "omp", []string{user, answer, ran}, sessions.StatusComplete, 3},
		{"next prompt", "omp", []string{user, answer, user}, sessions.StatusPending, 3},
		{"claude call", "claude", []string{
			`{"type":"user","uuid":"1","message":{"role":"user","content":"go"}}`,
			`{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}`,
		}, sessions.StatusInterrupted, 2},
		{"claude answer", "claude", []string{
			`{"type":"user","uuid":"1","message":{"role":"user","content":"go"}}`,
			`{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"gone"}],"stop_reason":"end_turn"}}`,
		}, sessions.StatusComplete, 2},
		{"claude cut off", "claude", []string{
			`{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"gone"}],"stop_reason":"max_tokens"}}`,
		}, sessions.StatusInterrupted, 1},
		{"codex aborted", "codex", []string{
			`{"timestamp":"2026-11-20T12:00:00.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}`,
		}, sessions.StatusAborted, 0},
		{"workflow step", "step", []string{`{"role":"coder","meta":{},"content":"x"}`}, sessions.StatusComplete, 1},
		{"workflow end", "step", []string{`{"role":"coder","meta":{},"content":"x"}`,
			`{"role":"__end__","meta":{"returnCode":0,"summary":"done"}}`}, sessions.StatusComplete, 1},
		{"workflow that failed", "step", []string{`{"role":"coder","meta":{},"content":"x"}`,
			`{"role":"__end__","meta":{"returnCode":3,"summary":"boom"}}`}, sessions.StatusError, 1},
	} {
		_, head := read(t, tt.dialect, tt.lines...)
		if got := sessions.Status(head.Standing); got != tt.want || head.Messages != tt.messages {
			t.Errorf("%s: %s after %d messages, want %s after %d", tt.name, got, head.Messages, tt.want, tt.messages)
		}
	}
}

func TestLearn(t *testing.T) {
	const header = `{"type":"session","version":3,"id":"s","cwd":"/w","title":"Old","parentSession":"p"}`
	info, _ := read(t, "omp", header, user)
	if info.Answered || info.Prompt != "Plan it" || info.Title != "Old" || info.Cwd != "/w" || info.Parent != "p" {
		t.Errorf("after a prompt: %+v", info)
	}
	info, _ = read(t, "omp", header, user, answer, `{"type":"message","id":"z","message":{"role":"user","content":"Another"}}`, compact)
	if !info.Answered || info.Prompt != "Plan it" || info.Summary != "Short" {
		t.Errorf("after an answer: %+v, want the first prompt kept", info)
	}
	if info, _ = read(t, "omp", `{"type":"title","v":1,"title":"Slot"}`, header); info.Title != "Slot" {
		t.Errorf("title = %q, want the slot's (SPEC S1)", info.Title)
	}
	if info, _ = read(t, "omp", header, `{"type":"title_change","id":"t","title":"New"}`); info.Title != "New" {
		t.Errorf("title = %q, want the newest", info.Title)
	}
	prompt := func(cwd string) string {
		return `{"type":"user","uuid":"` + cwd + `","cwd":"` + cwd + `","message":{"role":"user","content":"go"}}`
	}
	if info, _ = read(t, "claude", `{"type":"summary","summary":"S"}`, prompt("/w"), prompt("/w/sub")); info.Cwd != "/w" {
		t.Errorf("directory = %q, want that in which the session began", info.Cwd)
	}
	info, _ = read(t, "claude", `{"type":"summary","summary":"S"}`, prompt("/w"))
	d, _ := dialect.Lookup("claude")
	again := must.Get(d.Read([]byte(`{"type":"user","uuid":"1","message":{"role":"user","content":"go on"}}`), new(dialect.Memory)))(t)
	if project.Learn(&info, &again, true, true); info.Prompt != "go on" || info.Summary != "" {
		t.Errorf("of another life of the thread: %+v, want its own prompt, and no summary", info)
	}
	const moved = `{"type":"session","version":3,"id":"s","cwd":"/moved"}`
	if info, _ = read(t, "omp", header, user, moved); info.Cwd != "/moved" {
		t.Errorf("directory = %q, want that of the newest header", info.Cwd)
	}
	const ai, custom = `{"type":"ai-title","aiTitle":"Made up"}`, `{"type":"custom-title","customTitle":"Mine"}`
	if info, _ = read(t, "claude", ai, custom, ai); info.Title != "Mine" || info.TitleSource != sessions.TitleUser {
		t.Errorf("title = %q by %q, want that which the user gave", info.Title, info.TitleSource)
	}
	if info, _ = read(t, "omp", `{"type":"message","id":"a","message":{"role":"user","content":"`+strings.Repeat("ä", 500)+
		`"}}`); info.Prompt != strings.Repeat("ä", sessions.PromptRunes) {
		t.Errorf("a long prompt is kept as %q", info.Prompt)
	}
	const opened = `<ide_opened_file>The user opened /w/a.go.</ide_opened_file>`
	selected := `<ide_selection>` + strings.Repeat("x", 2*sessions.PromptRunes) + `</ide_selection>`
	for said, want := range map[string]string{
		opened + `\n\n` + selected + ` fix it`: "fix it", opened: "go", `<ide_opened_file>open`: "<ide_opened_file>open", `<b>x</b>`: "<b>x</b>",
	} {
		info, _ = read(t, "claude", `{"type":"user","uuid":"0","message":{"role":"user","content":"`+said+`"}}`, prompt("/w"))
		must.Same(t, info.Prompt, want, "prompt of %.60s = %q, want %q: what a person said", said)
	}
	if info, _ = read(t, "raw", "bytes"); !info.Answered {
		t.Error("a session of raw bytes is never listed")
	}
	if info, _ = read(t, "step", `{"role":"coder","meta":{},"content":"x"}`); !info.Answered {
		t.Error("a workflow is never listed")
	}
}

// The session's record is written when it changes; a turn like the one before must not change it.
func TestLearnSettles(t *testing.T) {
	turn := []string{user, call, result, answer}
	once, _ := read(t, "omp", turn...)
	if often, _ := read(t, "omp", append(append(turn, turn...), turn...)...); often != once {
		t.Errorf("the record changed from %+v to %+v", once, often)
	}
}

// A subagent's entry says nothing about the session.
func TestLearnFromASubagent(t *testing.T) {
	d, _ := dialect.Lookup("omp")
	var m dialect.Memory
	e := must.Get(d.Read([]byte(user), &m))(t)
	var info sessions.Info
	if project.Learn(&info, &e, false, false); info != (sessions.Info{}) {
		t.Errorf("learned %+v", info)
	}
}

// Turns and tokens are those that turns tell of; what can not be a number of tokens counts as none.
func TestCountTurns(t *testing.T) {
	turn := func(in, cached, out string) string {
		return `{"content":[],"metadata":{"type":"turn_end","stats":{"input_tokens":` + in + `,"input_tokens_cached":` + cached +
			`,"output_tokens":` + out + `}}}`
	}
	_, head := read(t, "item", turn("10", "4", "3"), turn("5", "0", "2"), turn("-7", `"x"`, "1e99"),
		`{"content":[],"metadata":{"type":"turn_end"}}`)
	if head.Turns != 4 || head.TokensIn != 15 || head.TokensCached != 4 || head.TokensOut != 5 {
		t.Errorf("%d turns, tokens %d, %d, %d, want 4 and 15, 4, 5", head.Turns, head.TokensIn, head.TokensCached, head.TokensOut)
	}
	if _, head = read(t, "omp", user, answer); head.Turns != 1 {
		t.Errorf("a prompt and its answer are %d turns, want 1", head.Turns)
	}
}

// Counting is on the path of every entry.
func TestCountAllocatesNothing(t *testing.T) {
	d, _ := dialect.Lookup("omp")
	var m dialect.Memory
	e := must.Get(d.Read([]byte(call), &m))(t)
	info, head := sessions.Info{Prompt: "x", Answered: true}, threads.Head{}
	if n := testing.AllocsPerRun(100, func() { project.Count(&head, &e); project.Learn(&info, &e, true, false) }); n != 0 {
		t.Errorf("%v allocations an entry, want none", n)
	}
}

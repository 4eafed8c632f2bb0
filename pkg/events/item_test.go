package events

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

// show is an item as one line: type.detail, content, metadata.
func show(it Item) string {
	s := it.Type
	if it.Detail != "" {
		s += "." + it.Detail
	}
	return s + " " + string(it.Content) + " " + string(it.Metadata)
}

func TestItems(t *testing.T) {
	long := strings.Repeat("0123456789", 13)
	tests := []struct {
		name string
		it   Item
		want string
	}{
		{"user", User([]byte(`"run \"it\"\n"`)), ` [{"type":"text","text":"run \"it\"\n"}] `},
		{"user without text", User(nil), ` [{"type":"text","text":""}] `},
		{"text", Text([]byte(`"h\u00e9"`)), `text [{"type":"text","text":"h\u00e9"}] {"type":"text"}`},
		{"text with more", Text([]byte(`"x"`), Field{"role", []byte(`"coder"`)}, Field{"meta", []byte(`{"a":1}`)}),
			`text [{"type":"text","text":"x"}] {"type":"text","role":"coder","meta":{"a":1}}`},
		{"thinking, short", Thinking([]byte(`"a\ud83c\udf3eb"`)),
			`thinking [{"type":"text","text":"[thinking] a🌾b"}] {"type":"thinking","text":"a\ud83c\udf3eb","full_text_length":3}`},
		{"thinking, cut", Thinking([]byte(`"` + long + `"`)),
			`thinking [{"type":"text","text":"[thinking] ` + long[:120] + `..."}] {"type":"thinking","text":"` + long + `","full_text_length":130}`},
		{"thinking of 120 characters", Thinking([]byte(`"` + strings.Repeat("é", 120) + `"`)),
			`thinking [{"type":"text","text":"[thinking] ` + strings.Repeat("é", 120) + `"}] {"type":"thinking","text":"` +
				strings.Repeat("é", 120) + `","full_text_length":120}`},
		{"call", ToolCall("Bash", "tu_1", []byte(`{"description":"Run","command":"npm test\nls"}`)),
			`tool_call.Bash [{"type":"text","text":"Bash → npm test"}] {"type":"tool_call","tool":{"name":"Bash","invocation_id":"tu_1","input":{"description":"Run","command":"npm test\nls"}}}`},
		{"call without input", ToolCall("ls", "t", nil),
			`tool_call.ls [{"type":"text","text":"ls"}] {"type":"tool_call","tool":{"name":"ls","invocation_id":"t","input":{}}}`},
		{"result", ToolResult("tu_1", false, []byte(`"✓ src/parser.test.ts (12 ok)\nTest Files  1 passed (1)\n..."`)),
			`tool_result.ok [{"type":"text","text":"→ ✓ src/parser.test.ts (12 ok) (3 lines)"}] {"type":"tool_result","tool":{"invocation_id":"tu_1","is_error":false,"output":"✓ src/parser.test.ts (12 ok)\nTest Files  1 passed (1)\n..."}}`},
		{"result, failed, empty", ToolResult("t", true, nil),
			`tool_result.error [{"type":"text","text":"→ (0 lines)"}] {"type":"tool_result","tool":{"invocation_id":"t","is_error":true,"output":""}}`},
		{"status", Status("compacting_context", "Reducing 38k → 12k tokens", "Compacting context..."),
			`status [{"type":"text","text":"Compacting context..."}] {"type":"status","status":"compacting_context","detail":"Reducing 38k → 12k tokens"}`},
		{"turn end", TurnEnd(Stats{12480, 9600, 1322, 8421}),
			`turn_end [{"type":"text","text":"Turn complete"}] {"type":"turn_end","stats":{"input_tokens":12480,"input_tokens_cached":9600,"output_tokens":1322,"duration_ms":8421}}`},
		{"prompt", PendingPrompt("p", PromptQuestion, "Which?", []byte(`{"id":"x","questions":[1]}`)),
			`pending_prompt [{"type":"text","text":"Which?"}] {"type":"pending_prompt","prompt":{"id":"p","kind":"ask_user_question","questions":[1]}}`},
		{"resolved", PendingPromptResolved("p", PromptApproval, Resolution{Outcome: "denied", By: "mira", At: 5, Answer: []byte(`"no"`)}),
			`pending_prompt_resolved [{"type":"text","text":"Prompt denied: no"}] {"type":"pending_prompt_resolved","prompt":{"id":"p","kind":"approval"},"resolution":{"outcome":"denied","by":"mira","at":5,"answer":"no"}}`},
	}
	for _, tt := range tests {
		must.Same(t, show(tt.it), tt.want, "%s:\n got %s\nwant %s", tt.name)
	}
}

func TestMainArgument(t *testing.T) {
	tests := []struct{ input, want string }{
		{`{"command":"npm test\necho"}`, "npm test"},
		{`{"command":["bash","-lc","npm test"]}`, "npm test"},
		{`{"command":[1]}`, `{"command":[1]}`},
		{`{"file_path":"/a/b.go","old_string":"x"}`, "/a/b.go"},
		{`{"path":"src","pattern":"func"}`, "func"},
		{`{"url":"https://example.test","prompt":"read"}`, "https://example.test"},
		{`{"prompt":"long","description":"short"}`, "short"},
		{`{"command":5,"query":""}`, `{"command":5,"query":""}`},
		{`{ "todos" : [ {"a b" : 1} ] }`, `{"todos":[{"a b":1}]}`},
		{`{}`, ""}, {`null`, ""}, {``, ""}, {`[ 1 ]`, "[1]"},
		{`"*** Begin Patch\n*** Update File: a.ts\n@@"`, "Update File: a.ts"},
		{`"*** Begin Patch"`, "*** Begin Patch"},
		{`"free text\nmore"`, "free text"},
		{`{"command":"` + strings.Repeat("ü", 121) + `"}`, strings.Repeat("ü", 120) + "…"},
		{`{"command":"` + strings.Repeat("ü", 120) + `"}`, strings.Repeat("ü", 120)},
	}
	for _, tt := range tests {
		must.Same(t, MainArgument([]byte(tt.input)), tt.want, "MainArgument(%s) = %q, want %q", tt.input)
	}
}

func TestResultLines(t *testing.T) {
	for token, want := range map[string]int{
		`""`: 0, `"a"`: 1, `"a\n"`: 1, `"a\nb"`: 2, `"a\n\n"`: 2, `"\n"`: 1, `"a\\n"`: 1, `"a\\\n"`: 1, `"a\u000a"`: 1, `"a\u000Ab"`: 2, ``: 0,
	} {
		must.Same(t, lines([]byte(token)), want, "lines(%s) = %d, want %d", token)
	}
}

// What the budget cannot cut stays small, and bytes that are no UTF-8 do not get out.
func TestItemsAreBounded(t *testing.T) {
	big := strings.Repeat("x\xff", 200_000)
	for name, it := range map[string]Item{
		"name and id": ToolCall(big, big, []byte(`{}`)),
		"result id":   ToolResult(big, false, []byte(`"x"`)),
		"detail":      Status("s", big, "t"),
		"field":       Text([]byte(`"x"`), Field{"meta", []byte(`"` + big + `"`)}),
		"prompt":      PendingPrompt("p", PromptApproval, big, []byte(`{"plan":"`+big+`"}`)),
		"answer":      PendingPromptResolved("p", PromptApproval, Resolution{Outcome: "answered", Answer: []byte(`"` + big + `"`)}),
	} {
		if n := len(it.Content) + len(it.Metadata); n > 30_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	for _, it := range []Item{User([]byte("\"\xff\"")), Text([]byte("\"a\xf0\x9f\"")), Thinking([]byte("\"\xc3\"")),
		ToolCall("\xff", "\xff", []byte("{\"\xff\":\"\xff\"}")), ToolResult("\xff", true, []byte("\"\xff\n\"")), Status("s", "\xff", "\xff")} {
		if !utf8.Valid(it.Content) || !utf8.Valid(it.Metadata) {
			t.Errorf("not UTF-8: %q %q", it.Content, it.Metadata)
		}
	}
}

func TestParseItem(t *testing.T) {
	it, err := ParseItem([]byte(`{"metadata":{"x":[1.0],"type":"tool_call","tool":{"invocation_id":"t","name":"B"}},"content":[{"type":"text","text":"\ud83d"}]}`))
	if want := `tool_call.B [{"type":"text","text":"\ud83d"}] {"x":[1.0],"type":"tool_call","tool":{"invocation_id":"t","name":"B"}}`; err != nil || show(it) != want {
		t.Errorf("ParseItem = %s, %v, want %s", show(it), err, want)
	}
	for _, raw := range []string{`[]`, `{}`, `{"content":null}`, `{"content":[1]}`, `{"content":[],"metadata":"x"}`,
		`{"content":[],"metadata":{"type":""}}`,
		`{"content":[],"metadata":{"type":"` + strings.Repeat("a", 129) + `"}}`, `{"content":[],"metadata":{"type":"tool_call","tool":5}}`} {
		if it, err := ParseItem([]byte(raw)); !errors.Is(err, ErrItem) {
			t.Errorf("ParseItem(%.60s) = %s, %v, want ErrItem", raw, show(it), err)
		}
	}
}

func FuzzParseItem(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}],"metadata":{"type":"text"}}`))
	f.Add([]byte("{\"content\":[],\"metadata\":{\"type\":\"tool_result\",\"tool\":{\"invocation_id\":\"\xff\"}}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if jsonscan.Valid(raw) != nil {
			return
		}
		it, err := ParseItem(raw)
		if err != nil {
			return
		}
		if !json.Valid(it.Content) || !utf8.Valid(it.Content) || it.Metadata != nil && (!json.Valid(it.Metadata) || !utf8.Valid(it.Metadata)) {
			t.Errorf("ParseItem(%q) = %s", raw, show(it))
		}
	})
}

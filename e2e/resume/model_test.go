package resume_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// model is a model of every vendor: it has a tool called once where the prompt asks for it, and else says that it is done.
type model struct {
	*httptest.Server
	mu    sync.Mutex
	asked []request // oldest first
}

// request is what a program asked.
type request struct {
	path string
	body map[string]any
}

func newModel(t *testing.T) *model {
	m := &model{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// take gives what was asked since the last call.
func (m *model) take() []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	return asked
}

// calls are the tools that run a command, and what each is told.
var calls = map[string]string{
	"exec_command": `{"cmd":"echo rye is ground 'to grist'"}`,
	"bash":         `{"command":"echo rye is ground 'to grist'","description":"grinds"}`,

	"run_shell_command": `{"command":"echo rye is ground 'to grist'","description":"grinds","is_background":false}`,
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var body map[string]any
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(text, &body) != nil {
		http.NotFound(w, r) // lists of models, and what else a program would like to know
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, request{r.URL.Path, body})
	n := len(m.asked)
	m.mu.Unlock()
	tool := ""
	if said := string(text); strings.Contains(said, toolPrompt) && !strings.Contains(said, "call_1") {
		tool = toolOf(body)
	}
	answer := fmt.Sprintf("Done, for the %d. time.", n)
	switch {
	case strings.HasSuffix(r.URL.Path, "/responses"):
		responses(w, tool, answer)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		completions(w, tool, answer)
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		generate(w, tool, answer)
	default:
		http.NotFound(w, r)
	}
}

// toolOf is the tool that runs commands among those that a request offers.
func toolOf(body map[string]any) (name string) {
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			if s, ok := v["name"].(string); ok && calls[s] != "" {
				name = s
			}
			for _, e := range v {
				look(e)
			}
		}
	}
	look(body["tools"])
	return name
}

type object = map[string]any

// stream answers with events.
func stream(w http.ResponseWriter, events ...object) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if name, ok := e["type"].(string); ok {
			fmt.Fprintf(w, "event: %s\n", name)
		}
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
}

// responses speaks as OpenAI's Responses.
func responses(w http.ResponseWriter, tool, answer string) {
	item := object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": answer, "annotations": []any{}}}}
	if tool != "" {
		item = object{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool, "arguments": calls[tool], "status": "completed"}
	}
	stream(w, object{"type": "response.created", "response": object{"id": "resp_1"}},
		object{"type": "response.output_item.added", "output_index": 0, "item": item},
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": object{"id": "resp_1", "object": "response", "status": "completed",
			"output": []object{item}, "usage": object{"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
				"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}})
}

// completions speaks as OpenAI's Chat Completions.
func completions(w http.ResponseWriter, tool, answer string) {
	delta, end := object{"role": "assistant", "content": answer}, "stop"
	if tool != "" {
		delta, end = object{"role": "assistant", "tool_calls": []object{{"index": 0, "id": "call_1", "type": "function",
			"function": object{"name": tool, "arguments": calls[tool]}}}}, "tool_calls"
	}
	chunk := func(choice object, more object) object {
		c := object{"id": "cc_1", "object": "chat.completion.chunk", "created": 1, "model": "grinder", "choices": []object{choice}}
		for k, v := range more {
			c[k] = v
		}
		return c
	}
	stream(w, chunk(object{"index": 0, "delta": delta, "finish_reason": nil}, nil),
		chunk(object{"index": 0, "delta": object{}, "finish_reason": end},
			object{"usage": object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// generate speaks as Gemini's streamGenerateContent.
func generate(w http.ResponseWriter, tool, answer string) {
	parts := []object{{"text": answer}}
	if tool != "" {
		parts = []object{{"functionCall": object{"id": "call_1", "name": tool, "args": json.RawMessage(calls[tool])}}}
	}
	stream(w, object{"candidates": []object{{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": parts}}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}})
}

// differ names the first field in which two values differ; "" for none.
func differ(at string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, key := range keysOf(a, b) {
			va, inA := a[key]
			vb, inB := b[key]
			if inA != inB {
				return fmt.Sprintf("%s.%s: there %v, want %v", at, key, inB, inA)
			}
			if d := differ(at+"."+key, va, vb); d != "" {
				return d
			}
		}
		return ""
	case []any:
		b, ok := b.([]any)
		if !ok {
			break
		}
		for i := range min(len(a), len(b)) {
			if d := differ(fmt.Sprintf("%s[%d]", at, i), a[i], b[i]); d != "" {
				return d
			}
		}
		if len(a) != len(b) {
			return fmt.Sprintf("%s: %d elements, want %d", at, len(b), len(a))
		}
		return ""
	default:
		if a == b {
			return ""
		}
	}
	want, got := string(shown(a)), string(shown(b))
	same := 0
	for same < min(len(want), len(got)) && want[same] == got[same] {
		same++
	}
	from := max(0, same-100)
	return fmt.Sprintf("%s: from byte %d on %.500s, want %.500s", at, from, got[from:], want[from:])
}

func shown(v any) []byte { b, _ := json.Marshal(v); return b }

func keysOf(a, b map[string]any) (keys []string) {
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

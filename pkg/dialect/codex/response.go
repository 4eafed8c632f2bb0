package codex

import (
	"bytes"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// itemTypes are those of response_item.
var itemTypes = parts.Names(
	"message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
	"local_shell_call", "web_search_call", "tool_search_call", "tool_search_output", "image_generation_call",
	"ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "agent_message", "other",
)

// payload is the members of a response item that matter.
type payload struct {
	typ, role, content, summary, name, arguments, input []byte
	callID, id, action, output, tools                   []byte
}

func (r *reader) readPayload() (p payload) {
	jsonscan.Fields(r.raw, []jsonscan.Field{
		{Key: "type", To: &p.typ}, {Key: "role", To: &p.role}, {Key: "content", To: &p.content},
		{Key: "summary", To: &p.summary}, {Key: "name", To: &p.name}, {Key: "arguments", To: &p.arguments},
		{Key: "input", To: &p.input}, {Key: "call_id", To: &p.callID}, {Key: "id", To: &p.id},
		{Key: "action", To: &p.action}, {Key: "output", To: &p.output}, {Key: "tools", To: &p.tools},
	})
	return p
}

func (r *reader) responseItem() {
	p := r.readPayload()
	name, known := itemTypes.Of(p.typ)
	r.Type, r.Known = "response_item."+name, known
	switch name {
	case "message":
		r.message(&p)
	case "reasoning":
		r.Role = entry.RoleAssistant
		text := parts.Join(p.summary)
		if parts.Empty(text) {
			text = parts.Join(p.content)
		}
		if !parts.Empty(text) {
			r.add(events.Thinking(text))
		}
	case "function_call":
		r.call(p.callID, toolName(p.name), decodeArguments(p.arguments))
	case "custom_tool_call":
		r.call(p.callID, toolName(p.name), p.input)
	case "local_shell_call":
		r.call(firstOf(p.callID, p.id), "shell", p.action)
	case "web_search_call":
		r.call(firstOf(p.callID, p.id), "web_search", p.action)
	case "tool_search_call":
		r.call(firstOf(p.callID, p.id), "tool_search", decodeArguments(p.arguments))
	case "function_call_output", "custom_tool_call_output":
		output, failed := readOutput(p.output)
		shown := p.output
		if jsonscan.KindOf(shown) == jsonscan.KindObject {
			shown = jsonscan.Get(shown, "content")
		}
		r.result(p.callID, output, r.pictures(shown), failed)
	case "tool_search_output":
		r.result(p.callID, parts.Join(firstOf(p.output, p.tools)), nil, false)
	}
	if !known {
		r.Role = entry.RoleSystem
	}
	if r.Role == entry.RoleAssistant || r.Role == entry.RoleTool {
		r.works()
	}
}

func (r *reader) message(p *payload) {
	switch {
	case parts.Is(p.role, "assistant"):
		r.Role = entry.RoleAssistant
		r.m.Activity(r.Time, 0)
		if text := parts.Join(p.content); !parts.Empty(text) {
			r.add(events.Text(text))
		}
	case parts.Is(p.role, "user"):
		if text := said(p.content); !parts.Empty(text) {
			r.Role = entry.RoleUser
			if r.mapping > 1 && !r.m.Tells() {
				r.endBefore()
				r.m.Prompt(r.Time)
			}
			r.add(events.User(text).With(r.pictures(p.content)))
		}
	}
}

// injected begin the parts that Codex writes under the user's name.
var injected = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>", "<skill>", "<skills",
	"<turn_aborted>", "<user_shell_command>", "<permissions instructions>", "<collaboration_mode>",
	"<subagent_notification>", "<hook_prompt", "<recommended_plugins", "<plugins_instructions", "<apps_instructions",
}

// said is what a person wrote of a user message.
func said(content []byte) []byte {
	if jsonscan.KindOf(content) == jsonscan.KindString {
		if isInjected(content) {
			return nil
		}
		return content
	}
	var post parts.Joiner
	_ = jsonscan.Array(content, func(part []byte) bool {
		if text := jsonscan.Get(part, "text"); text == nil || !isInjected(text) {
			post.Part(part)
		}
		return true
	})
	return post.Token()
}

func isInjected(token []byte) bool {
	start, _ := jsonscan.Prefix(token, 64)
	start = string(bytes.TrimSpace([]byte(start)))
	return slices.ContainsFunc(injected, func(p string) bool { return strings.HasPrefix(start, p) })
}

// call posts a call, once.
func (r *reader) call(id []byte, name string, input []byte) {
	r.Role = entry.RoleAssistant
	r.m.Activity(r.Time, 0)
	if key := entry.Key(id); !parts.Empty(id) {
		if r.m.Call(key)&entry.Called != 0 {
			r.m.Use()
			return
		}
		r.m.SetCall(key, entry.Called)
	}
	if input == nil {
		input = []byte("{}")
	}
	r.add(events.ToolCall(name, parts.Text(id), input))
}

// result posts a call's result, once.
func (r *reader) result(id, output []byte, pictures [][]byte, failed bool) {
	r.Role = entry.RoleTool
	if parts.Empty(id) {
		r.add(events.ToolResult("", failed, output).With(pictures))
		return
	}
	key := entry.Key(id)
	flags := r.m.Call(key)
	if flags&entry.Resulted != 0 {
		r.m.Use()
		r.failedLate(id, flags, failed)
		return
	}
	add := entry.Resulted
	if failed {
		add |= entry.Failed
	}
	r.m.SetCall(key, add)
	r.add(events.ToolResult(parts.Text(id), failed, output).With(pictures))
}

// failedLate tells of a failure that the posted result did not show.
func (r *reader) failedLate(id []byte, known entry.Flags, failed bool) {
	if !failed || known&entry.Failed != 0 {
		return
	}
	r.m.SetCall(entry.Key(id), entry.Failed)
	tool := append([]byte(`{"invocation_id":`), id...)
	r.add(events.Status("tool_failed", parts.Text(id), "Tool failed", events.Field{Name: "tool", Value: append(tool, '}')}))
}

func toolName(token []byte) string {
	if name := parts.Text(token); name != "" {
		return name
	}
	return "tool"
}

func firstOf(a, b []byte) []byte {
	if a == nil || jsonscan.KindOf(a) == jsonscan.KindNull {
		return b
	}
	return a
}

// decodeArguments takes the JSON out of the string that carries it; what is no JSON stays a string.
func decodeArguments(token []byte) []byte {
	if jsonscan.KindOf(token) != jsonscan.KindString {
		return token
	}
	inner := []byte(parts.Text(token))
	if jsonscan.KindOf(inner) != jsonscan.KindObject || jsonscan.Valid(inner) != nil {
		return token
	}
	return bytes.TrimSpace(inner)
}

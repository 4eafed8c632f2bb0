package omp

import (
	"cmp"
	"strconv"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// message is the members of entry.message that matter.
type message struct {
	role, content, model, provider, stop, failure, usage, timestamp []byte
	callID, command, code, output                                   []byte
	exitCode                                                        []byte

	isError, cancelled bool
}

// readMessage reads the message that begins at raw[i]; end is the index after it. One that is no object is empty.
func readMessage(raw []byte, i int) (msg message, end int) {
	if i >= len(raw) || raw[i] != '{' {
		return msg, jsonscan.SkipValue(raw, i)
	}
	var failed, cancelled []byte
	end = jsonscan.FieldsAt(raw, i, []jsonscan.Field{
		{Key: "role", To: &msg.role}, {Key: "content", To: &msg.content}, {Key: "model", To: &msg.model},
		{Key: "provider", To: &msg.provider}, {Key: "stopReason", To: &msg.stop}, {Key: "errorMessage", To: &msg.failure},
		{Key: "usage", To: &msg.usage}, {Key: "timestamp", To: &msg.timestamp}, {Key: "toolCallId", To: &msg.callID},
		{Key: "isError", To: &failed}, {Key: "command", To: &msg.command}, {Key: "code", To: &msg.code},
		{Key: "output", To: &msg.output}, {Key: "exitCode", To: &msg.exitCode}, {Key: "cancelled", To: &cancelled},
	})
	msg.isError, msg.cancelled = parts.True(failed), parts.True(cancelled)
	return msg, end
}

// roles are those of messages; the value is the step's role.
var roles = map[string]string{
	"user": entry.RoleUser, "assistant": entry.RoleAssistant, "toolResult": entry.RoleTool,
	"bashExecution": entry.RoleTool, "pythonExecution": entry.RoleTool, "custom": entry.RoleSystem,
	"hookMessage": entry.RoleSystem, "branchSummary": entry.RoleSystem, "compactionSummary": entry.RoleSystem,
	"fileMention": entry.RoleSystem, "developer": entry.RoleSystem,
}

func (r *reader) message() {
	msg := r.msg
	role, known := roles[string(parts.Body(msg.role))]
	if !known {
		r.Known = false
		return
	}
	r.Role = role
	if r.Time == 0 {
		r.Time = parts.Time(msg.timestamp)
	}
	switch string(parts.Body(msg.role)) {
	case "user":
		if !r.m.Open() {
			r.m.Prompt(r.Time)
		}
		if text := parts.Join(msg.content); !parts.Empty(text) {
			r.addShown(events.User(text))
		}
	case "assistant":
		r.assistant(&msg)
	case "toolResult":
		r.addShown(events.ToolResult(parts.Text(msg.callID), msg.isError, parts.Join(msg.content)))
	case "bashExecution":
		r.execution("bash", "command", msg.command, &msg)
	case "pythonExecution":
		r.execution("python", "code", msg.code, &msg)
	case "custom", "hookMessage":
		r.custom(r.body)
	}
}

func (r *reader) assistant(msg *message) {
	if model := parts.Fact(msg.model); model != "" {
		r.Session.Model = model
		if provider := parts.Fact(msg.provider); provider != "" {
			r.Session.Model = provider + "/" + model
		}
	}
	r.Cut = parts.Is(msg.stop, "length")
	failed := parts.Is(msg.stop, "aborted") || parts.Is(msg.stop, "error")
	if !failed {
		r.m.Activity(r.Time, 0)
	}
	r.usage(msg.usage)
	calls := 0
	if jsonscan.KindOf(msg.content) == jsonscan.KindString && !parts.Empty(msg.content) {
		r.add(events.Text(msg.content))
	}
	jsonscan.Elements(msg.content, 0, func(at int) int {
		n, end := r.block(msg.content, at)
		calls += n
		return end
	})
	switch {
	case failed:
		status, text := "error", "Error"
		if parts.Is(msg.stop, "aborted") {
			status, text = "aborted", "Aborted"
		}
		r.add(events.Status(status, parts.Text(msg.failure), text))
		r.endTurn()
	case calls == 0 && final[string(parts.Body(msg.stop))]:
		r.endTurn()
	}
}

// final are the stop reasons after which the agent waits for its user.
var final = map[string]bool{"stop": true, "length": true, "end_turn": true, "stop_sequence": true, "max_tokens": true}

func (r *reader) endTurn() {
	if stats, ok := r.m.End(r.Time, 0); ok {
		r.add(events.TurnEnd(stats))
	}
}

// block posts the block of an assistant message that begins at raw[i], and counts calls; end is the index after it.
func (r *reader) block(raw []byte, i int) (calls, end int) {
	if raw[i] != '{' {
		return 0, jsonscan.SkipValue(raw, i)
	}
	var typ, text, thinking, id, name, arguments []byte
	end = jsonscan.FieldsAt(raw, i, []jsonscan.Field{
		{Key: "type", To: &typ}, {Key: "text", To: &text}, {Key: "thinking", To: &thinking},
		{Key: "id", To: &id}, {Key: "name", To: &name}, {Key: "arguments", To: &arguments},
	})
	switch {
	case parts.Is(typ, "text"):
		if !parts.Empty(text) {
			r.add(events.Text(text))
		}
	case parts.Is(typ, "thinking"):
		if !parts.Empty(thinking) {
			r.add(events.Thinking(thinking))
		}
	case parts.Is(typ, "toolCall"):
		tool := cmp.Or(parts.Text(name), "tool")
		r.add(events.ToolCall(tool, parts.Text(id), arguments))
		return 1, end
	}
	return 0, end
}

func (r *reader) usage(raw []byte) {
	if raw == nil {
		return
	}
	var u entry.Usage
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "input", "cacheWrite":
			u.Input += parts.Tokens(value)
		case "cacheRead":
			u.Cached = parts.Tokens(value)
		case "output":
			u.Output = parts.Tokens(value)
		}
		return true
	})
	u.Input += u.Cached
	r.m.Add(u)
}

// execution posts what the user ran beside the agent. Such an entry is its own invocation: its id, or in version 1 its
// time, names it.
func (r *reader) execution(tool, member string, code []byte, msg *message) {
	id := cmp.Or(r.ID, tool+"-"+strconv.FormatInt(r.Time, 10))
	input := []byte("{}")
	if !parts.Empty(code) {
		input = append(append([]byte(`{"`+member+`":`), code...), '}')
	}
	r.add(events.ToolCall(tool, id, input))
	failed := msg.cancelled || parts.Int(msg.exitCode) != 0
	r.add(events.ToolResult(id, failed, parts.Join(msg.output)))
}

package codex

import (
	"bytes"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// readOutput takes the output of a call and whether it says that it failed. Its shapes: text; text that is JSON
// {"output","metadata":{"exit_code"}}; an array of parts; an object {"content","success"}.
func readOutput(raw []byte) (output []byte, failed bool) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.KindObject:
		content := jsonscan.Get(raw, "content")
		if content == nil {
			content = raw
		}
		success, told := jsonscan.Bool(jsonscan.Get(raw, "success"))
		return parts.Join(content), told && !success
	case jsonscan.KindString:
		return textOutput(raw)
	}
	return parts.Join(raw), false
}

func textOutput(token []byte) (output []byte, failed bool) {
	body := parts.Body(token)
	if bytes.HasPrefix(body, []byte(`{\"`)) {
		inner := []byte(parts.Text(token))
		if jsonscan.Valid(inner) == nil {
			if text := jsonscan.Get(inner, "output"); jsonscan.KindOf(text) == jsonscan.KindString {
				code := jsonscan.Get(inner, "metadata", "exit_code")
				return text, nonZero(code)
			}
		}
	}
	return token, exitLine(token)
}

// exitLine looks for the exit code among the lines that Codex puts before a command's output.
func exitLine(token []byte) bool {
	const header = 400
	if !bytes.Contains(token[:min(len(token), header)], []byte("code")) {
		return false
	}
	start, _ := jsonscan.Prefix(token, header)
	for line := range strings.Lines(start) {
		line = strings.TrimSpace(line)
		if line == "Output:" {
			return false
		}
		code, ok := strings.CutPrefix(line, "Process exited with code ")
		if !ok {
			code, ok = strings.CutPrefix(line, "Exit code: ")
		}
		if ok {
			return nonZero([]byte(code))
		}
	}
	return false
}

func nonZero(number []byte) bool {
	if jsonscan.KindOf(number) != jsonscan.KindNumber {
		return false
	}
	n, ok := jsonscan.Int(number)
	return !ok || n != 0
}

// completedItem is the members of item_completed.item that matter.
type completedItem struct {
	typ, id, callID, status, exitCode, output, stdout, stderr []byte
	result, failure, success, command, cwd                    []byte
}

func readCompleted(raw []byte) (c completedItem) {
	fields := []jsonscan.Field{
		{Key: "type", To: &c.typ}, {Key: "id", To: &c.id}, {Key: "call_id", To: &c.callID}, {Key: "status", To: &c.status},
		{Key: "exit_code", To: &c.exitCode}, {Key: "aggregated_output", To: &c.output}, {Key: "stdout", To: &c.stdout},
		{Key: "stderr", To: &c.stderr}, {Key: "result", To: &c.result}, {Key: "error", To: &c.failure},
		{Key: "success", To: &c.success}, {Key: "command", To: &c.command}, {Key: "cwd", To: &c.cwd},
	}
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		if other := string(key) == "output" || string(key) == "formatted_output"; other && c.output == nil {
			c.output = value
		}
		jsonscan.Give(fields, key, value)
		return true
	})
	return c
}

func (c *completedItem) failed() bool {
	success, told := jsonscan.Bool(c.success)
	isError, _ := jsonscan.Bool(jsonscan.Get(c.result, "isError"))
	return nonZero(c.exitCode) || parts.Is(c.status, "failed") || parts.Is(c.status, "declined") || told && !success || isError ||
		c.failure != nil && jsonscan.KindOf(c.failure) != jsonscan.KindNull
}

// text is what the item tells as the call's output.
func (c *completedItem) text() []byte {
	switch {
	case c.output != nil && jsonscan.KindOf(c.output) != jsonscan.KindNull:
		return parts.Join(c.output)
	case !parts.Empty(c.stdout) && !parts.Empty(c.stderr):
		var both parts.Joiner
		both.Add(c.stdout)
		both.Add(c.stderr)
		return both.Token()
	case !parts.Empty(c.stderr):
		return c.stderr
	case c.stdout != nil:
		return parts.Join(c.stdout)
	case c.result != nil && jsonscan.KindOf(c.result) != jsonscan.KindNull:
		if content := jsonscan.Get(c.result, "content"); content != nil {
			return parts.Join(content)
		}
		return parts.Join(c.result)
	}
	return parts.Join(c.failure)
}

// content are the parts of what an MCP server gave, or of another tool's output.
func (c *completedItem) content() []byte {
	if c.output != nil && jsonscan.KindOf(c.output) != jsonscan.KindNull {
		return c.output
	}
	return jsonscan.Get(c.result, "content")
}

// completed handles the end of an item: only the kinds that end a call say anything new.
func (r *reader) completed(raw []byte) {
	c := readCompleted(raw)
	id := firstOf(c.callID, c.id)
	if parts.Empty(id) {
		return
	}
	switch kind := string(parts.Body(c.typ)); kind {
	case "CommandExecution":
		if r.m.Call(entry.Key(id)) == 0 {
			r.userCommand(id, &c)
		} else {
			r.m.Use()
		}
		r.result(id, c.text(), nil, c.failed())
	case "FileChange", "McpToolCall", "WebSearch", "DynamicToolCall", "CollabAgentToolCall", "FunctionCallOutput":
		r.end(id, c.text(), r.pictures(c.content()), c.failed())
	}
}

// end posts the result of a call that is known; without its call it could not be folded (SPEC I3).
func (r *reader) end(id, output []byte, pictures [][]byte, failed bool) {
	if r.m.Call(entry.Key(id))&entry.Called == 0 {
		return
	}
	r.m.Use()
	r.result(id, output, pictures, failed)
}

func (r *reader) userCommand(id []byte, c *completedItem) {
	input := []byte(`{"command":`)
	if c.command == nil {
		input = append(input, "[]"...)
	}
	input = append(input, c.command...)
	if c.cwd != nil {
		input = append(append(input, `,"cwd":`...), c.cwd...)
	}
	r.m.SetCall(entry.Key(id), entry.Called)
	r.add(events.ToolCall("exec_command", parts.Text(id), append(input, '}')))
}

// legacyEnd handles the events that older rollouts have in place of item_completed.
func (r *reader) legacyEnd(name string) {
	id := r.get("call_id")
	if parts.Empty(id) {
		return
	}
	c := readCompleted(r.raw)
	switch name {
	case "mcp_tool_call_end":
		if failure := jsonscan.Get(c.result, "Err"); failure != nil {
			r.end(id, parts.Join(failure), nil, true)
			return
		}
		if ok := jsonscan.Get(c.result, "Ok"); ok != nil {
			c.result = ok
		}
		r.end(id, c.text(), r.pictures(c.content()), c.failed())
	case "web_search_end":
		r.end(id, parts.Join(r.get("query")), nil, false)
	case "patch_apply_end":
		r.end(id, c.text(), r.pictures(c.content()), c.failed())
	}
}

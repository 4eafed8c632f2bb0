package claude

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// block is one element of message.content.
type block struct {
	typ, text, thinking, id, name, input, useID, content []byte

	isError bool
}

func readBlock(raw []byte) (b block) {
	var isError []byte
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "type", To: &b.typ}, {Key: "text", To: &b.text}, {Key: "thinking", To: &b.thinking}, {Key: "id", To: &b.id},
		{Key: "name", To: &b.name}, {Key: "input", To: &b.input}, {Key: "tool_use_id", To: &b.useID},
		{Key: "content", To: &b.content}, {Key: "is_error", To: &isError},
	})
	b.isError = parts.True(isError)
	return b
}

// isResult matches tool_result and the results of the provider's own tools, such as web_search_tool_result.
func (b *block) isResult() bool {
	return bytes.HasSuffix(parts.Body(b.typ), []byte("tool_result")) && !parts.Empty(b.useID)
}

func (r *reader) call(b block) {
	id, name := parts.Text(b.id), parts.Text(b.name)
	name = cmp.Or(name, "tool")
	r.add(events.ToolCall(name, id, b.input))
	var kind, text string
	var flags entry.Flags
	switch name {
	case "AskUserQuestion":
		kind, flags, text = events.PromptQuestion, entry.Asked, question(b.input)
	case "ExitPlanMode":
		kind, flags, text = events.PromptApproval, entry.Asked|entry.Approval, "Approve the plan"
		if line := jsonscan.FirstLine(jsonscan.Get(b.input, "plan"), 480); line != "" {
			text += ": " + line
		}
	default:
		return
	}
	r.m.SetCall(entry.Key(b.id), flags)
	r.add(events.PendingPrompt(id, kind, text, b.input))
}

func question(input []byte) string {
	var all parts.Joiner
	_ = jsonscan.Array(jsonscan.Get(input, "questions"), func(q []byte) bool {
		if text := jsonscan.Get(q, "question"); !parts.Empty(text) {
			all.Add(text)
		}
		return true
	})
	if text := parts.Text(all.Token()); text != "" {
		return text
	}
	return "Question"
}

func (r *reader) result(b block, output []byte) {
	id := parts.Text(b.useID)
	r.add(events.ToolResult(id, b.isError, output).With(r.pictures(b.content)))
	key := entry.Key(b.useID)
	flags := r.m.Call(key)
	if flags&entry.Asked == 0 {
		return
	}
	r.m.Use()
	r.m.DropCall(key)
	kind, outcome := events.PromptQuestion, "answered"
	if flags&entry.Approval != 0 {
		kind, outcome = events.PromptApproval, "approved"
	}
	if b.isError {
		outcome = "denied"
	}
	r.add(events.PendingPromptResolved(id, kind, events.Resolution{Outcome: outcome, At: r.Time, Answer: output}))
}

func (r *reader) user() {
	r.Role = entry.RoleUser
	msg := r.readMessage()
	switch {
	case r.isSummary:
		r.Role = entry.RoleSystem
		r.Compact = parts.Text(parts.Join(msg.content))
		return
	case jsonscan.KindOf(msg.content) == jsonscan.KindString:
		var post parts.Joiner
		r.said(&post, msg.content)
		r.post(post.Token(), nil, false)
		return
	}
	var post parts.Joiner
	results := 0
	_ = jsonscan.Array(msg.content, func(raw []byte) bool {
		switch b := readBlock(raw); {
		case b.isResult():
			r.result(b, r.output(b, results))
			r.works()
			results++
		case parts.Is(b.typ, "text"):
			r.said(&post, b.text)
		case !r.isMeta:
			post.Part(raw)
		}
		return true
	})
	token := post.Token()
	if results > 0 && token == nil {
		r.Role = entry.RoleTool
		return
	}
	r.post(token, r.pictures(msg.content), results > 0)
}

// said takes a text that stands under the name of the user: what a person wrote goes into the post.
func (r *reader) said(post *parts.Joiner, text []byte) {
	switch {
	case r.isMeta || parts.Empty(text):
	case hasPrefix(text, "[Request interrupted by user"):
		r.add(events.Status("interrupted", parts.Text(text), "Interrupted"))
		if !r.inline() {
			r.endTurn(0, 0)
		}
	case r.mapping > 1 && command(text) != nil:
		post.Add(command(text))
	case !noise(text):
		post.Add(text)
	}
}

// command is what a person asked for by a slash command: its name and what was said behind it, a string token. nil:
// nothing was, and the command is the program's own business; or the text is none.
func command(text []byte) []byte {
	if !hasPrefix(text, "<command-") {
		return nil
	}
	said := parts.Text(text)
	name, args := tagged(said, "command-name"), tagged(said, "command-args")
	if name == "" || args == "" {
		return nil
	}
	return jsonscan.AppendString(nil, "/"+strings.TrimPrefix(name, "/")+" "+args)
}

// tagged is what stands in the first element of a name, white space around it aside.
func tagged(text, name string) string {
	_, rest, _ := strings.Cut(text, "<"+name+">")
	inside, _, ended := strings.Cut(rest, "</"+name+">")
	if !ended {
		return ""
	}
	return strings.TrimSpace(inside)
}

// post makes the user's post of a line, and begins a turn. Nothing said is no post. beside: a tool's result is in the
// same line, so that the agent goes on, and what is said steers its turn.
func (r *reader) post(text []byte, pictures [][]byte, beside bool) {
	switch {
	case text == nil:
		r.Role = entry.RoleSystem
	case r.inline():
		r.Role = entry.RoleSystem
		r.add(events.Status("subagent_prompt", parts.Text(text), "Subagent: "+jsonscan.FirstLine(text, 480)))
	default:
		r.facts()
		if !beside || r.mapping == 1 || !r.m.Open() {
			r.endBefore()
			r.m.Prompt(r.Time)
		}
		r.add(events.User(text).With(pictures))
	}
}

// noisePrefixes begin what Claude Code writes under the user's name: slash commands, their output, notices.
var noisePrefixes = []string{
	"<command-name>", "<command-message>", "<command-args>", "<local-command-", "<bash-input>", "<bash-stdout>",
	"<bash-stderr>", "<system-reminder>", "<task-notification>", "<user-prompt-submit-hook>",
}

func noise(text []byte) bool {
	return slices.ContainsFunc(noisePrefixes, func(p string) bool { return hasPrefix(text, p) })
}

// hasPrefix tells whether the text of a token begins with p, white space aside.
func hasPrefix(token []byte, p string) bool {
	body := bytes.TrimLeft(parts.Body(token), " ")
	for len(body) > 1 && body[0] == '\\' && (body[1] == 'n' || body[1] == 't' || body[1] == 'r') {
		body = bytes.TrimLeft(body[2:], " ")
	}
	if len(body) > 0 && body[0] == '\\' {
		text, _ := jsonscan.Prefix(token, len(p)+64)
		return bytes.HasPrefix(bytes.TrimSpace([]byte(text)), []byte(p))
	}
	return bytes.HasPrefix(body, []byte(p))
}

// output is a result's output: its content, or the command's own streams where they hold more than the model was shown.
func (r *reader) output(b block, before int) []byte {
	content := parts.Join(b.content)
	if before > 0 || jsonscan.KindOf(r.toolUseResult) != jsonscan.KindObject {
		return content
	}
	var stdout, stderr, picture []byte
	jsonscan.Fields(r.toolUseResult, []jsonscan.Field{
		{Key: "stdout", To: &stdout}, {Key: "stderr", To: &stderr}, {Key: "isImage", To: &picture},
	})
	stdout, stderr = parts.Body(stdout), parts.Body(stderr)
	if parts.True(picture) || len(stdout)+len(stderr) <= len(parts.Body(content)) {
		return content
	}
	full := append(make([]byte, 0, len(stdout)+len(stderr)+4), '"')
	full = append(full, stdout...)
	if len(stdout) > 0 && len(stderr) > 0 && !bytes.HasSuffix(stdout, []byte(`\n`)) {
		full = append(full, `\n`...)
	}
	return append(append(full, stderr...), '"')
}

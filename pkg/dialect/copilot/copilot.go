// Package copilot reads sessions of GitHub Copilot CLI, session-state/<session>/events.jsonl: an event a line, whose facts stand in data.
//
//	session.start                   no item: Session facts
//	user.message                    user post, unless a source other than the user wrote it; of a subagent a status subagent_prompt
//	assistant.message               thinking, text, a tool_call for each request; one of the agent without requests is a turn_end
//	tool.execution_complete         tool_result
//	session.usage_record            no item: the turn's usage
//	session.compaction_complete     status compacting_context, Step.Compact; of one that failed a status error
//	session.error                   status error
//	abort                           status interrupted
//	session.model_change            no item: Session.Model
//	session.title_changed           no item: Session.Title
//	anything else                   no item
package copilot

import (
	"cmp"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Dialect is the dialect "copilot".
type Dialect struct{}

// Name is "copilot".
func (Dialect) Name() string { return "copilot" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

// types are the types of events that the program writes, or makes something of here.
var types = parts.Names("session.start", "session.resume", "user.message", "system.message", "assistant.message", "assistant.turn_start",
	"assistant.turn_end", "tool.execution_start", "tool.execution_complete", "session.usage_record", "session.usage_checkpoint",
	"session.compaction_start", "session.compaction_complete", "session.error", "session.info", "session.warning", "session.model_change",
	"session.title_changed", "session.mode_changed", "session.shutdown", "session.context_changed", "session.truncation",
	"session.plan_changed", "session.workspace_file_changed", "subagent.started", "subagent.completed", "subagent.failed",
	"subagent.selected", "subagent.deselected", "skill.invoked", "hook.start", "hook.end", "abort", "tool.user_requested")

// Read takes one line. It never fails.
func (Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m, raw: raw, data: jsonscan.Get(raw, "data")}
	r.Role, r.ID, r.Time = entry.RoleSystem, parts.ID(jsonscan.Get(raw, "id")), parts.Time(jsonscan.Get(raw, "timestamp"))
	r.Type, r.Known = types.Of(jsonscan.Get(raw, "type"))
	switch r.Type {
	case "session.start", "session.resume":
		r.Session = entry.Session{ID: r.fact("sessionId"), Harness: "copilot", Cwd: r.fact("context", "cwd"), Version: r.fact("copilotVersion"),
			Model: r.fact("selectedModel"), GitBranch: r.fact("context", "branch")}
	case "session.model_change":
		r.Session.Model = r.fact("newModel")
	case "session.title_changed":
		if r.Session.Title = r.fact("title"); r.Session.Title != "" {
			r.Session.TitleSource = sessions.TitleAuto
		}
	case "user.message":
		r.user(r.get("content"))
	case "assistant.message":
		r.assistant()
	case "tool.execution_complete":
		r.result()
	case "session.usage_record":
		tokens := func(name string) int64 { return parts.Tokens(r.get("usage", name)) }
		r.m.Usage(entry.Key(jsonscan.Get(raw, "id")), entry.Usage{Input: tokens("inputTokens"), Cached: tokens("cacheReadTokens"),
			Output: tokens("outputTokens")})
	case "session.compaction_complete":
		if !parts.True(r.get("success")) {
			r.failed(r.get("error"))
			break
		}
		r.Compact = parts.Text(r.get("summaryContent"))
		r.add(events.Status("compacting_context", parts.Text(r.get("trigger")), "Compacting context..."))
	case "session.error":
		r.failed(r.get("message"))
	case "abort":
		r.add(events.Status("interrupted", parts.Text(r.get("reason")), "Interrupted"))
	}
	return r.Entry, nil
}

// reader is one event on its way to the entry that it becomes.
type reader struct {
	entry.Entry
	m         *entry.Memory
	raw, data []byte
}

func (r *reader) add(it events.Item)         { r.Items = append(r.Items, it) }
func (r *reader) get(path ...string) []byte  { return jsonscan.Get(r.data, path...) }
func (r *reader) fact(path ...string) string { return parts.Fact(r.get(path...)) }
func (r *reader) failed(said []byte) {
	r.add(events.Status("error", parts.Text(said), jsonscan.FirstLine(said, 480)))
}
func (r *reader) ofSubagent() bool { return !parts.Empty(jsonscan.Get(r.raw, "agentId")) }

func (r *reader) user(text []byte) {
	source := parts.Text(r.get("source"))
	switch {
	case parts.Empty(text):
	case r.ofSubagent():
		r.add(events.Status("subagent_prompt", parts.Text(text), "Subagent: "+jsonscan.FirstLine(text, 480)))
	case source == "" || strings.EqualFold(source, "user"):
		r.Role = entry.RoleUser
		r.m.Prompt(r.Time)
		r.add(events.User(text))
	}
}

func (r *reader) assistant() {
	key := entry.Key(r.get("messageId"))
	r.Role, r.Session.Model = entry.RoleAssistant, r.fact("model")
	r.m.Activity(r.Time, key)
	if text := r.get("reasoningText"); !parts.Empty(text) {
		r.add(events.Thinking(text))
	}
	if text := r.get("content"); !parts.Empty(text) {
		r.add(events.Text(text))
	}
	calls := 0
	_ = jsonscan.Array(r.get("toolRequests"), func(call []byte) bool {
		calls++
		name := cmp.Or(parts.Text(jsonscan.Get(call, "name")), "tool")
		r.add(events.ToolCall(name, parts.Text(jsonscan.Get(call, "toolCallId")), jsonscan.Get(call, "arguments")))
		return true
	})
	if calls == 0 && !r.ofSubagent() {
		if stats, ok := r.m.End(r.Time, key); ok {
			r.add(events.TurnEnd(stats))
		}
	}
}

func (r *reader) result() {
	r.Role = entry.RoleTool
	failed := !parts.True(r.get("success"))
	said := r.get("result", "content")
	if failed {
		said = r.get("error", "message")
	}
	r.add(events.ToolResult(parts.Text(r.get("toolCallId")), failed, parts.Join(said)))
}

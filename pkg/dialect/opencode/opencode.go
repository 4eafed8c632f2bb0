// Package opencode reads the document of a session that `opencode export` writes and `opencode import` takes: one JSON object, which is one
// entry.
//
//	info                         no item: Session facts; of a subagent, a session of its own, Session.Parent
//	messages
//	  user       text            user post; what the program adds to it is none
//	  assistant  reasoning       thinking
//	             text            text
//	             tool            tool_call, and tool_result where the call has ended
//	             info.error      status error
//	             info.tokens     the turn's usage; info.finish other than tool-calls: turn_end
package opencode

import (
	"cmp"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Dialect is the dialect "opencode".
type Dialect struct{}

// Name is "opencode".
func (Dialect) Name() string { return "opencode" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

// Read takes a document. It never fails.
func (Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m}
	info, messages := jsonscan.Get(raw, "info"), jsonscan.Get(raw, "messages")
	r.Role, r.Type, r.Known = entry.RoleAssistant, "session", jsonscan.KindOf(messages) == jsonscan.KindArray
	r.ID = parts.ID(jsonscan.Get(info, "id"))
	r.Time = parts.Time(jsonscan.Get(info, "time", "created"))
	r.Session = entry.Session{ID: r.ID, Harness: "opencode", Title: parts.Fact(jsonscan.Get(info, "title")),
		Cwd: parts.Fact(jsonscan.Get(info, "directory")), Version: parts.Fact(jsonscan.Get(info, "version")),
		Model: parts.Fact(jsonscan.Get(info, "model", "id")), Parent: parts.Fact(jsonscan.Get(info, "parentID"))}
	if r.Session.Title != "" {
		r.Session.TitleSource = sessions.TitleAuto
	}
	_ = jsonscan.Array(messages, func(message []byte) bool {
		r.message(jsonscan.Get(message, "info"), jsonscan.Get(message, "parts"))
		return true
	})
	return r.Entry, nil
}

// AgentCalls are the calls of a session that subagents worked for, by the names of their threads: each is a session of its own.
func (Dialect) AgentCalls(raw []byte) map[string]string {
	if jsonscan.Valid(raw) != nil {
		return nil
	}
	calls := map[string]string{}
	_ = jsonscan.Array(jsonscan.Get(raw, "messages"), func(message []byte) bool {
		_ = jsonscan.Array(jsonscan.Get(message, "parts"), func(part []byte) bool {
			agent, call := parts.ID(jsonscan.Get(part, "state", "metadata", "sessionId")), parts.ID(jsonscan.Get(part, "callID"))
			if parts.Is(jsonscan.Get(part, "tool"), "task") && agent != "" && call != "" {
				calls[agent+"/"+events.MainThread] = call
			}
			return true
		})
		return true
	})
	return calls
}

// reader is a document on its way to the entry that it becomes.
type reader struct {
	entry.Entry
	m *entry.Memory
}

func (r *reader) add(it events.Item) { r.Items = append(r.Items, it) }

func (r *reader) message(info, content []byte) {
	at := parts.Time(jsonscan.Get(info, "time", "created"))
	if parts.Is(jsonscan.Get(info, "role"), "user") {
		var said parts.Joiner
		_ = jsonscan.Array(content, func(part []byte) bool {
			if text := jsonscan.Get(part, "text"); !parts.Empty(text) && !parts.True(jsonscan.Get(part, "synthetic")) {
				said.Add(text)
			} else if parts.Is(jsonscan.Get(part, "type"), "file") {
				said.Add([]byte(`"[file]"`))
			}
			return true
		})
		if text := said.Token(); text != nil {
			r.m.Prompt(at)
			r.add(events.User(text))
		}
		return
	}
	key := entry.Key(jsonscan.Get(info, "id"))
	r.m.Activity(at, key)
	tokens := func(of ...string) int64 { return parts.Tokens(jsonscan.Get(jsonscan.Get(info, "tokens"), of...)) }
	cached := tokens("cache", "read")
	r.m.Usage(key, entry.Usage{Input: tokens("input") + cached + tokens("cache", "write"), Cached: cached,
		Output: tokens("output") + tokens("reasoning")})
	_ = jsonscan.Array(content, func(part []byte) bool {
		r.part(part)
		return true
	})
	if failure := jsonscan.Get(info, "error"); failure != nil {
		said := jsonscan.Get(failure, "data", "message")
		r.add(events.Status("error", parts.Text(said), jsonscan.FirstLine(said, 480)))
	}
	if finish := jsonscan.Get(info, "finish"); !parts.Empty(finish) && !parts.Is(finish, "tool-calls") {
		if stats, ok := r.m.End(parts.Time(jsonscan.Get(info, "time", "completed")), key); ok {
			r.add(events.TurnEnd(stats))
		}
	}
}

// part posts a part of an answer.
func (r *reader) part(part []byte) {
	text := jsonscan.Get(part, "text")
	switch typ := jsonscan.Get(part, "type"); {
	case parts.Is(typ, "tool"):
		r.tool(parts.Text(jsonscan.Get(part, "callID")), jsonscan.Get(part, "tool"), jsonscan.Get(part, "state"))
	case parts.Empty(text):
	case parts.Is(typ, "reasoning"):
		r.add(events.Thinking(text))
	case parts.Is(typ, "text"):
		r.add(events.Text(text))
	}
}

func (r *reader) tool(id string, name, state []byte) {
	r.add(events.ToolCall(cmp.Or(parts.Text(name), "tool"), id, jsonscan.Get(state, "input")))
	switch status := jsonscan.Get(state, "status"); {
	case parts.Is(status, "completed"):
		r.add(events.ToolResult(id, false, parts.Join(jsonscan.Get(state, "output"))))
	case parts.Is(status, "error"):
		r.add(events.ToolResult(id, true, parts.Join(jsonscan.Get(state, "error"))))
	}
}

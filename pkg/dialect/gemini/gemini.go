package gemini

import (
	"bytes"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Dialect is the dialect "gemini".
type Dialect struct{}

// Name is "gemini".
func (Dialect) Name() string { return "gemini" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

// types are the types of messages that have a meaning here.
var types = parts.Names("user", "gemini", "info", "warning", "error")

// line is the members of a line that matter, raw.
type line struct {
	id, typ, timestamp, content, thoughts, calls, tokens, model []byte
	session, summary, set, rewound                              []byte
}

// Read takes one line of a session's file. It never fails.
func (Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	r := begin(m)
	var l line
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "id", To: &l.id}, {Key: "type", To: &l.typ}, {Key: "timestamp", To: &l.timestamp},
		{Key: "content", To: &l.content}, {Key: "thoughts", To: &l.thoughts}, {Key: "toolCalls", To: &l.calls},
		{Key: "tokens", To: &l.tokens}, {Key: "model", To: &l.model}, {Key: "sessionId", To: &l.session},
		{Key: "summary", To: &l.summary}, {Key: "$set", To: &l.set}, {Key: "$rewindTo", To: &l.rewound},
	})
	r.Time, r.ID = parts.Time(l.timestamp), parts.ID(l.id)
	switch {
	case l.set != nil:
		r.Type, r.Known = "$set", true
		r.title(jsonscan.Get(l.set, "summary"))
		r.history(jsonscan.Get(l.set, "messages"))
	case l.rewound != nil:
		r.Type, r.Known = "$rewindTo", true
		r.Place = entry.Place{Kind: entry.Before, ID: parts.ID(l.rewound)}
		r.add(events.Status("rewound", parts.Text(l.rewound), "Went back"))
	case parts.Empty(l.typ) && !parts.Empty(l.session):
		r.Type, r.Known = "session", true
		r.Session.ID, r.Session.Harness = parts.Fact(l.session), "gemini"
		r.title(l.summary)
	default:
		r.Type, r.Known = types.Of(l.typ)
		r.message(l)
	}
	return r.Entry, nil
}

func (r *reader) title(token []byte) {
	if r.Session.Title = parts.Fact(token); r.Session.Title != "" {
		r.Session.TitleSource = sessions.TitleAuto
	}
}

// history takes messages that stand for all before: the program compressed them, or took some back. Its context alone stands for none.
func (r *reader) history(messages []byte) {
	said := false
	_ = jsonscan.Array(messages, func(message []byte) bool {
		content := jsonscan.Get(message, "content")
		if !context(content) {
			said = true
		} else if r.Session.Cwd == "" {
			r.Session.Cwd = directory(content)
		}
		return true
	})
	if said {
		r.Compact = sent(messages, "content")
	}
}

func (r *reader) message(l line) {
	switch r.Type {
	case "user":
		if cwd := directory(l.content); cwd != "" || context(l.content) {
			r.Session.Cwd = cwd
			return
		}
		r.user(l.content)
	case "gemini":
		r.answer(l)
	case "info", "warning", "error":
		text := parts.Join(l.content)
		r.add(events.Status(r.Type, parts.Text(text), jsonscan.FirstLine(text, 480)))
	}
}

func (r *reader) answer(l line) {
	r.Role = entry.RoleAssistant
	r.Session.Model = parts.Fact(l.model)
	key := entry.Key(l.id)
	r.m.Activity(r.Time, key)
	r.m.Usage(key, entry.Usage{Input: parts.Tokens(jsonscan.Get(l.tokens, "input")), Cached: parts.Tokens(jsonscan.Get(l.tokens, "cached")),
		Output: parts.Tokens(jsonscan.Get(l.tokens, "output")) + parts.Tokens(jsonscan.Get(l.tokens, "thoughts"))})
	said := parts.Join(l.content)
	thoughts := thoughts(l.thoughts)
	if (len(thoughts) > 0 || !parts.Empty(said)) && r.first(l.id) {
		for _, t := range thoughts {
			r.add(events.Thinking(t))
		}
		if !parts.Empty(said) {
			r.add(events.Text(said))
		}
	}
	calls := 0
	_ = jsonscan.Array(l.calls, func(call []byte) bool {
		calls++
		r.call(call)
		_ = jsonscan.Array(jsonscan.Get(call, "result"), func(part []byte) bool {
			r.response(jsonscan.Get(part, "functionResponse"))
			return true
		})
		return true
	})
	if calls == 0 && !parts.Empty(said) {
		r.endTurn(key)
	}
}

// AgentCalls are the calls of a message that subagents worked for, by the names of their threads: an import names these after the ids of
// their files, which the calls have when they end.
func (Dialect) AgentCalls(raw []byte) map[string]string {
	if !bytes.Contains(raw, []byte(`"agentId"`)) || jsonscan.Valid(raw) != nil {
		return nil
	}
	calls := map[string]string{}
	_ = jsonscan.Array(jsonscan.Get(raw, "toolCalls"), func(call []byte) bool {
		if agent, id := parts.ID(jsonscan.Get(call, "agentId")), parts.ID(jsonscan.Get(call, "id")); agent != "" && id != "" {
			calls["agent-"+agent] = id
		}
		return true
	})
	return calls
}

// thoughts are the texts of a message's thoughts.
func thoughts(list []byte) (all [][]byte) {
	_ = jsonscan.Array(list, func(thought []byte) bool {
		var text parts.Joiner
		for _, of := range []string{"subject", "description"} {
			if t := jsonscan.Get(thought, of); !parts.Empty(t) {
				text.Add(t)
			}
		}
		if t := text.Token(); t != nil {
			all = append(all, t)
		}
		return true
	})
	return all
}

// context tells whether a message is what the program tells the model of where it runs.
func context(content []byte) bool {
	return bytes.HasPrefix(parts.Body(parts.Join(texts(content))), []byte("<session_context>"))
}

// directory is the first working directory in such a message.
func directory(content []byte) string {
	if !context(content) {
		return ""
	}
	_, rest, _ := strings.Cut(parts.Text(parts.Join(texts(content))), "**Workspace Directories:**\n  - ")
	cwd, _, _ := strings.Cut(rest, "\n")
	return parts.Fact(jsonscan.AppendString(nil, cwd))
}

package gemini

import (
	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Qwen is the dialect "qwen".
type Qwen struct{}

// Name is "qwen".
func (Qwen) Name() string { return "qwen" }

// Version is the version of the mapping.
func (Qwen) Version() int { return 1 }

// qwenTypes are the types of lines that have a meaning here.
var qwenTypes = parts.Names("user", "assistant", "tool_result", "system")

// Read takes one line of a transcript. It never fails.
func (Qwen) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	r := begin(m)
	var parent, id, at, typ, subtype, payload, message, usage, model, cwd, version, branch []byte
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "parentUuid", To: &parent}, {Key: "uuid", To: &id}, {Key: "timestamp", To: &at}, {Key: "type", To: &typ},
		{Key: "subtype", To: &subtype}, {Key: "systemPayload", To: &payload}, {Key: "message", To: &message},
		{Key: "usageMetadata", To: &usage}, {Key: "model", To: &model}, {Key: "cwd", To: &cwd}, {Key: "version", To: &version},
		{Key: "gitBranch", To: &branch},
	})
	r.Place, r.ID, r.Time = parts.Under(parent, r.m), parts.ID(id), parts.Time(at)
	r.Session = entry.Session{Harness: "qwen", Cwd: parts.Fact(cwd), Version: parts.Fact(version), GitBranch: parts.Fact(branch)}
	content := jsonscan.Get(message, "parts")
	switch r.Type, r.Known = qwenTypes.Of(typ); r.Type {
	case "user", "tool_result":
		r.user(content)
	case "assistant":
		r.Role = entry.RoleAssistant
		r.Session.Model = parts.Fact(model)
		r.said(content, usage)
	case "system":
		switch {
		case parts.Is(subtype, "chat_compression"):
			r.Compact = sent(jsonscan.Get(payload, "compressedHistory"), "parts")
			r.add(events.Status("compacting_context", parts.Text(jsonscan.Get(payload, "trigger")), "Compacting context..."))
		case parts.Is(subtype, "rewind"):
			r.add(events.Status("rewound", "", "Went back"))
		case parts.Is(subtype, "custom_title"):
			if r.Session.Title = parts.Fact(jsonscan.Get(payload, "customTitle")); r.Session.Title != "" {
				r.Session.TitleSource = sessions.TitleUser
			}
		}
	}
	return r.Entry, nil
}

// said posts the parts of an answer.
func (r *reader) said(content, usage []byte) {
	key := entry.Key([]byte(r.ID))
	r.m.Activity(r.Time, key)
	r.m.Usage(key, entry.Usage{Input: parts.Tokens(jsonscan.Get(usage, "promptTokenCount")),
		Cached: parts.Tokens(jsonscan.Get(usage, "cachedContentTokenCount")),
		Output: parts.Tokens(jsonscan.Get(usage, "candidatesTokenCount"))})
	said, calls := 0, 0
	_ = jsonscan.Array(content, func(part []byte) bool {
		text, call := jsonscan.Get(part, "text"), jsonscan.Get(part, "functionCall")
		switch {
		case call != nil:
			calls++
			r.call(call)
		case parts.Empty(text):
		case parts.True(jsonscan.Get(part, "thought")):
			r.add(events.Thinking(text))
		default:
			said++
			r.add(events.Text(text))
		}
		return true
	})
	if said > 0 && calls == 0 {
		r.endTurn(key)
	}
}

package gemini

import (
	"cmp"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// reader is one line on its way to the entry that it becomes.
type reader struct {
	entry.Entry
	m *entry.Memory
}

func begin(m *entry.Memory) reader {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m}
	r.Role = entry.RoleSystem
	return r
}

func (r *reader) add(it events.Item) { r.Items = append(r.Items, it) }

// first tells whether something that has an id was not posted yet, and notes that it is.
func (r *reader) first(id []byte) bool {
	if parts.Empty(id) {
		return true
	}
	r.m.Use()
	key := entry.Key(id)
	if r.m.Call(key)&entry.Called != 0 {
		return false
	}
	r.m.SetCall(key, entry.Called)
	return true
}

// texts are the parts of a message that are texts. A message may be a string.
func texts(content []byte) []byte {
	if jsonscan.KindOf(content) != jsonscan.KindArray {
		return content
	}
	var all parts.Joiner
	_ = jsonscan.Array(content, func(part []byte) bool {
		switch text := jsonscan.Get(part, "text"); {
		case jsonscan.KindOf(part) == jsonscan.KindString:
			all.Add(part)
		case !parts.Empty(text):
			all.Add(text)
		case jsonscan.Get(part, "inlineData") != nil || jsonscan.Get(part, "fileData") != nil:
			all.Add([]byte(`"[file]"`))
		}
		return true
	})
	return all.Token()
}

// sent is what a model is sent of messages, whose parts stand under that key, as text.
func sent(messages []byte, key string) string {
	var all parts.Joiner
	_ = jsonscan.Array(messages, func(message []byte) bool {
		content := jsonscan.Get(message, key)
		if text := texts(content); !parts.Empty(text) {
			all.Add(text)
		}
		_ = jsonscan.Array(content, func(part []byte) bool {
			if jsonscan.Get(part, "functionCall") != nil || jsonscan.Get(part, "functionResponse") != nil {
				all.Add(jsonscan.AppendString(nil, string(part)))
			}
			return true
		})
		if calls := jsonscan.Get(message, "toolCalls"); calls != nil {
			all.Add(jsonscan.AppendString(nil, string(calls)))
		}
		return true
	})
	return parts.Text(all.Token())
}

// user posts what stands under the name of the user: a prompt, which begins a turn, or results of tools.
func (r *reader) user(content []byte) {
	results := 0
	_ = jsonscan.Array(content, func(part []byte) bool {
		if response := jsonscan.Get(part, "functionResponse"); response != nil {
			results++
			r.response(response)
		}
		return true
	})
	text := texts(content)
	switch {
	case results > 0:
		r.Role = entry.RoleTool
	case !parts.Empty(text):
		r.Role = entry.RoleUser
		r.m.Prompt(r.Time)
		r.add(events.User(text))
	}
}

// call posts a call of a tool, once.
func (r *reader) call(call []byte) {
	if id := jsonscan.Get(call, "id"); r.first(id) {
		name := cmp.Or(parts.Text(jsonscan.Get(call, "name")), "tool")
		r.add(events.ToolCall(name, parts.Text(id), jsonscan.Get(call, "args")))
	}
}

// response posts the result of a call, once.
func (r *reader) response(response []byte) {
	id := jsonscan.Get(response, "id")
	key := entry.Key(id)
	if response == nil || !parts.Empty(id) && r.m.Call(key)&entry.Resulted != 0 {
		r.m.Use()
		return
	}
	if !parts.Empty(id) {
		r.m.Use()
		r.m.SetCall(key, entry.Resulted)
	}
	said := jsonscan.Get(response, "response")
	failure, output := jsonscan.Get(said, "error"), jsonscan.Get(said, "output")
	switch {
	case failure != nil:
		output = failure
	case output == nil:
		output = said
	}
	r.add(events.ToolResult(parts.Text(id), failure != nil, parts.Join(output)))
}

func (r *reader) endTurn(by uint64) {
	if stats, ok := r.m.End(r.Time, by); ok {
		r.add(events.TurnEnd(stats))
	}
}

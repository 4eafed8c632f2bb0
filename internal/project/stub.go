package project

import (
	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// Stub is what has an item's number where the item itself cannot be posted (SPEC P10): who it is of, its type, its
// brief and its call as far as they are short, and where the whole of it is.
func Stub(it events.Posted) events.Posted {
	log := "its thread"
	if t, ok := events.ParseItemSubject(it.Subject); ok {
		log = LocalLog(t)
	}
	b := []byte{'{'}
	member := func(name string, value []byte) {
		if len(value) == 0 {
			return
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(jsonscan.AppendString(b, name), ':')
		b = append(b, value...)
	}
	node := jsonscan.Get(it.Data, "node")
	for _, name := range []string{"id", "n", "session", "thread", "user_id", "claimed_user", "created_at"} {
		member(name, jsonscan.Get(it.Data, name))
	}
	member("node", node)
	text := brief(events.Item{Content: jsonscan.Get(it.Data, "content")})
	if text != "" {
		text += " "
	}
	content := append([]byte(`[{"type":"text","text":`), jsonscan.AppendString(nil, text+"…[left out; see "+log+"]…")...)
	member("content", append(content, "}]"...))
	rest := b
	short := func(name string, path ...string) {
		if value := jsonscan.Get(it.Data, append([]string{"metadata"}, path...)...); len(value) <= stubMember {
			member(name, value)
		}
	}
	b = []byte{'{'}
	short("name", "tool", "name")
	short("invocation_id", "tool", "invocation_id")
	short("is_error", "tool", "is_error")
	tool := append(b, '}')
	b = []byte{'{'}
	short("type", "type")
	if len(tool) > len("{}") {
		member("tool", tool)
	}
	short("artifact", "artifact")
	member("truncated", []byte("true"))
	member("local_log", jsonscan.AppendString(nil, log))
	member("node", node)
	metadata := append(b, '}')
	b = rest
	member("metadata", metadata)
	it.Data = append(b, '}')
	return it
}

// stubMember is the longest member of an item that its stub has, in bytes of JSON.
const stubMember = 2_048

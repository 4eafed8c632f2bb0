package project

import (
	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// Stub is what has an item's number where the item itself cannot be posted (SPEC P10): who it is of, its type, and where the whole of it
// is.
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
	for _, name := range []string{"id", "n", "session", "thread", "user_id", "created_at"} {
		member(name, jsonscan.Get(it.Data, name))
	}
	member("node", node)
	content := append([]byte(`[{"type":"text","text":`), jsonscan.AppendString(nil, "…[left out; see "+log+"]…")...)
	member("content", append(content, "}]"...))
	rest := b
	b = []byte{'{'}
	if kind := jsonscan.Get(it.Data, "metadata", "type"); len(kind) <= stubType {
		member("type", kind)
	}
	member("truncated", []byte("true"))
	member("local_log", jsonscan.AppendString(nil, log))
	member("node", node)
	metadata := append(b, '}')
	b = rest
	member("metadata", metadata)
	it.Data = append(b, '}')
	return it
}

// stubType is the longest type that a stub tells, in bytes.
const stubType = 64

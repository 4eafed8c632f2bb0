package raw

import (
	"bytes"

	"spool/pkg/dialect/entry"
)

// Tagged is the dialect "tagged": any bytes behind a line with their id. Appends to a stream that carry a sequence of their
// writer's are such entries, so that the thread's head names the newest one.
type Tagged struct{}

// TaggedName is the name of the dialect "tagged".
const TaggedName = "tagged"

// Name is "tagged".
func (Tagged) Name() string { return TaggedName }

// Version is the version of the mapping.
func (Tagged) Version() int { return 1 }

// Read takes the id and nothing else. It never fails.
func (Tagged) Read(b []byte, m *entry.Memory) (entry.Entry, error) {
	if m != nil {
		m.Begin()
	}
	id, _ := Untag(b)
	return entry.Entry{Step: entry.Step{ID: string(id), Role: entry.RoleSystem, Type: TaggedName, Known: true}}, nil
}

// Tag is the entry of some bytes with an id, which has no newline.
func Tag(id string, b []byte) []byte {
	return append(append(append(make([]byte, 0, len(id)+1+len(b)), id...), '\n'), b...)
}

// Untag is the opposite of Tag. An entry without a newline is all id.
func Untag(entry []byte) (id, b []byte) {
	id, b, _ = bytes.Cut(entry, []byte{'\n'})
	return id, b
}

package sessions

import (
	"cmp"
	"fmt"

	"spool/internal/jsonscan"
)

// Whoever keeps entries elsewhere than in a Tree appends and places them with these.

// NotFound is the error that names an entry which is not there: "Entry <id> not found" (SPEC S3). It wraps ErrNotFound.
func NotFound(id string) error { return notFoundError(id) }

// BranchSummary is the summary of the path that was left; from is an entry, or "" for the root.
func BranchSummary(from string, s Summarized) Draft {
	return Draft{typ: TypeBranchSummary}.with(
		change{"fromId", quoted(cmp.Or(from, "root"))}, change{"summary", quoted(s.Summary)},
		change{"details", s.Details}, change{"fromExtension", s.FromExtension},
	)
}

// Type is the type of entry that it becomes.
func (d Draft) Type() string { return d.typ }

// Target is the entry that a label is for; "" for every other draft.
func (d Draft) Target() string { return d.target }

// JSON is the draft without its place: an object with its type and its own members. ParseDraft reads it.
func (d Draft) JSON() []byte {
	dst := append([]byte(`{"type":`), quoted(d.typ)...)
	return append(append(append(dst, d.before...), d.after...), '}')
}

// ParseDraft reads an object as the entry that it is to become. Its id, parentId and timestamp, if it has them, are left
// out: whoever appends the draft gives it those.
func ParseDraft(raw []byte) (Draft, error) {
	if err := jsonscan.Valid(raw); err != nil {
		return Draft{}, fmt.Errorf("entry: %w", err)
	}
	if jsonscan.KindOf(raw) != jsonscan.KindObject {
		return Draft{}, fmt.Errorf("entry: want an object")
	}
	var d Draft
	members(raw, func(key []byte, _, at, to int) {
		value := raw[at:to]
		switch string(key) {
		case "type":
			d.typ, _ = jsonscan.Text(value)
		case "id", "parentId", "timestamp":
		default:
			d.after = appendMember(d.after, false, string(key), value)
		}
	})
	switch d.typ {
	case "", TypeHeader, TypeTitleSlot:
		return Draft{}, fmt.Errorf("entry: type %q is none of an entry", d.typ)
	case TypeLabel:
		d.target, _ = jsonscan.Text(jsonscan.Get(raw, "targetId"))
	}
	return d, nil
}

// Entry is the draft at its place: under its parent, "" for a root. The stamp must have an ID.
func (d Draft) Entry(s Stamp, parent string) (Entry, error) {
	e := d.entry(s, parent)
	if err := jsonscan.Valid(e.Raw); err != nil {
		return Entry{}, fmt.Errorf("append %s entry: %w", d.typ, err)
	}
	return e, nil
}

// Placed is the entry with this id and parent, which its JSON says too, and every other byte as it was.
func (e Entry) Placed(id, parent string) Entry {
	if e.ID != id || e.Parent != parent || jsonscan.Get(e.Raw, "parentId") == nil {
		e.ID, e.Parent, e.fix = id, parent, e.fix|fixPlace
	}
	return e
}

package threads

import (
	"fmt"

	"spool/internal/family"
	"spool/pkg/casstore"
)

// ErrShape says that a node is not what its place in a thread demands: another type, a ref missing or at the wrong
// position, a payload of another form.
var ErrShape = family.Damaged.New("wrong shape")

const (
	// MaxAncestors is the length limit of a state's skip list (seed 004).
	MaxAncestors = 10
	// RoleEnd is the role of the last state of a thread.
	RoleEnd = "__end__"
	// RoleFork is the role of the first state of a fork: its parent is the fork point (SPEC C5).
	RoleFork = "__fork__"
	// RoleTail is the role of a state whose content is what a transcript file held behind its last complete line; meta
	// {open} is true when the last entry's line had no newline yet (SPEC X1).
	RoleTail = "__tail__"
)

// The positions of a state's refs (seed 004).
const (
	posStart = iota
	posParent
	posContent
	posAncestors
)

// State is one entry of a thread, or its end (SPEC C2).
type State struct {
	Role      string
	Meta      []byte       // canonical msgpack map; nil stands for the empty map
	Timestamp int64        // of the entry, Unix milliseconds
	Compact   casstore.Ref // summary of all before, nil if none; also in the content's refs (SPEC C6)
	Entry     Record

	Start     casstore.Ref
	Parent    casstore.Ref // nil for the first state
	Content   casstore.Ref
	Ancestors []casstore.Ref // older than the parent, newest first, at most MaxAncestors
}

// Record is what Spool noted about the entry when it took it in. Zero fields are left out of the encoding.
type Record struct {
	Dialect string // "dialect"
	ID      string // "id": the entry's id at its source
	Type    string // "type": the entry's type at its source
	Index   int64  // "index": 1-based place of the entry in the thread, counted across branches

	// "items": the entry's items are First to First+Count-1. With Count 0, First is the number the next item will have, so
	// that numbering can be derived from any state. Left out when both are zero.
	First, Count int64

	Projection string       // "projection": what made the items, for instance "claude/1"
	Memory     []byte       // "memory": the projection memory that the entry was read with
	User       string       // "user": who published it
	Claimed    string       // "claimed": who it says published it, where that is another (SPEC P4)
	Raw        []byte       // "raw": the entry as persisted, when the content is not the entry's own text but a part of it
	Full       casstore.Ref // "full": blob with the entry before a cut (SPEC T9)
	Kept       string       // "kept", with Compact: the first state that stays in context, by its id or its ref (SPEC C6)
	Splices    [][2]int64   // "splices": byte offset and form of each externalized value, so that export is byte-exact
}

// LastItem is the number of the last item of the thread once this entry is in; ok is false if the record does not say.
func (r Record) LastItem() (n int64, ok bool) { return r.First + r.Count - 1, r.First > 0 }

// Node encodes the state. More ancestors than MaxAncestors are cut off.
func (s State) Node() casstore.Node {
	refs := s.appendRefs(make([]casstore.Ref, 0, posAncestors+MaxAncestors))
	return casstore.Node{Type: TypeState, Payload: s.appendPayload(make([]byte, 0, 192+len(s.Meta))), Refs: refs}
}

// AddTo is Node, added to a draft.
func (s *State) AddTo(d *casstore.Draft) casstore.Ref {
	var room [posAncestors + MaxAncestors]casstore.Ref
	return d.AddPayload(TypeState, s.appendRefs(room[:0]), s.appendPayload)
}

func (s *State) appendRefs(refs []casstore.Ref) []casstore.Ref {
	refs = append(refs, s.Start, s.Parent, s.Content)
	return append(refs, s.Ancestors[:min(len(s.Ancestors), MaxAncestors)]...)
}

func (s *State) appendPayload(p []byte) []byte {
	entry := s.Entry.fields()
	pairs := 3
	if !s.Compact.IsZero() {
		pairs++
	}
	if entry > 0 {
		pairs++
	}
	p = casstore.AppendMapHeader(p, pairs)
	if !s.Compact.IsZero() {
		p = casstore.AppendString(casstore.AppendString(p, "compact"), s.Compact.String())
	}
	if entry > 0 {
		p = s.Entry.appendTo(casstore.AppendString(p, "entry"), entry)
	}
	p = casstore.AppendString(p, "meta")
	if len(s.Meta) == 0 {
		p = casstore.AppendMapHeader(p, 0)
	} else {
		p = append(p, s.Meta...)
	}
	p = casstore.AppendText(casstore.AppendString(p, "role"), []byte(s.Role))
	return casstore.AppendInt(casstore.AppendString(p, "timestamp"), s.Timestamp)
}

// ParseState is the opposite of Node. Meta and the byte fields alias the node; an empty meta map comes as nil. Payload keys
// of a later writer are ignored. Errors wrap ErrShape or casstore.ErrMalformed and name the position or key at fault.
func ParseState(n casstore.Node) (State, error) {
	if err := checkType(n, TypeState); err != nil {
		return State{}, err
	}
	if err := checkStateRefs(n.Refs); err != nil {
		return State{}, fmt.Errorf("state: %w", err)
	}
	s := State{Start: n.Refs[posStart], Parent: n.Refs[posParent], Content: n.Refs[posContent]}
	if len(n.Refs) > posAncestors {
		s.Ancestors = n.Refs[posAncestors:]
	}
	c := casstore.NewCursor(n.Payload)
	roles := 0
	for range c.Map() {
		switch c.String() {
		case "compact":
			s.Compact = refText(c)
		case "entry":
			s.Entry = parseRecord(c)
		case "meta":
			s.Meta = metaMap(c)
		case "role":
			s.Role = string(c.Text())
			roles++
		case "timestamp":
			s.Timestamp = c.Int()
		default:
			c.Value()
		}
	}
	if roles != 1 {
		c.Fail("want one key role")
	}
	if err := c.Done(); err != nil {
		return State{}, fmt.Errorf("state: %w", err)
	}
	return s, nil
}

// checkStateRefs holds a state's refs against the contract of positions.
func checkStateRefs(refs []casstore.Ref) error {
	if len(refs) < posAncestors || len(refs) > posAncestors+MaxAncestors {
		return fmt.Errorf("%w: %d refs, want %d to %d", ErrShape, len(refs), posAncestors, posAncestors+MaxAncestors)
	}
	for i, r := range refs {
		if i == posParent && r.IsZero() {
			if len(refs) > posAncestors {
				return fmt.Errorf("%w: refs[%d], the parent, is nil but there are ancestors", ErrShape, posParent)
			}
			continue
		}
		if r.Kind() != casstore.KindNode {
			return fmt.Errorf("%w: refs[%d] is not a node", ErrShape, i)
		}
	}
	return nil
}

// metaMap reads a map and returns its bytes, nil if it is empty.
func metaMap(c *casstore.Cursor) []byte {
	b := c.Value()
	if casstore.NewCursor(b).Map() == 0 {
		if len(b) == 0 || b[0] != 0x80 {
			c.Fail("meta: want a map")
		}
		return nil
	}
	return b
}

// refText reads a ref in its text form.
func refText(c *casstore.Cursor) casstore.Ref {
	s := c.String()
	if c.Err() != nil {
		return casstore.Ref{}
	}
	r, err := casstore.ParseRef(s)
	if err != nil {
		c.Fail(err.Error())
	}
	return r
}

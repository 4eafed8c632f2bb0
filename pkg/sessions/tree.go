package sessions

import (
	"fmt"
	"maps"
	"slices"

	"spool/internal/family"
	"spool/internal/jsonscan"
)

// Errors of a Tree.
var (
	// ErrNotFound says that no entry has the id; its text is "Entry <id> not found" (SPEC S3).
	ErrNotFound = family.NotFound.New("entry not found")
	// ErrTaken says that an appended entry's id is that of another.
	ErrTaken = family.Conflict.New("id is taken")
)

// notFoundError is ErrNotFound in the program's words; its text is the id.
type notFoundError string

func (e notFoundError) Error() string { return "Entry " + string(e) + " not found" }
func (e notFoundError) Unwrap() error { return ErrNotFound }

// Tree is a session in memory: its entries, linked by parentId, and the leaf, after which the next entry goes (SPEC S3).
// Entries are never changed or removed. It is not safe for concurrent use.
type Tree struct {
	header  Header
	entries []Entry
	byID    map[string]int // of entries that share an id, the last
	leaf    Leaf
	labels  map[string]string // by entry
	file    *File             // it was loaded from; nil for none
}

// Leaf is a place in a tree: an entry, no entry (Root), or wherever the last entry is (Last, the zero value).
type Leaf struct {
	id   string
	root bool
}

// The leaves that are no id.
var (
	Last = Leaf{}
	Root = Leaf{root: true}
)

// At is the leaf at an entry; "" is Last.
func At(id string) Leaf { return Leaf{id: id} }

// ID is the leaf's entry, "" for Root and Last.
func (l Leaf) ID() string { return l.id }

// NewTree is a session with these entries, whose leaf is the last of them. Their bytes are not copied.
func NewTree(h Header, entries ...Entry) *Tree {
	t := &Tree{header: h, byID: make(map[string]int, len(entries)), labels: map[string]string{}, leaf: Root}
	for _, e := range entries {
		t.add(e)
	}
	return t
}

// Tree is the session that the file holds. Its leaf is the one that was written (SPEC S3), else the last entry.
func (f *File) Tree() *Tree {
	t := NewTree(f.Header, f.Entries...)
	t.file = f
	if leaf, ok := t.storedLeaf(f.header); ok {
		t.leaf = leaf
	}
	return t
}

func (t *Tree) add(e Entry) {
	if e.ID != "" {
		t.byID[e.ID] = len(t.entries)
	}
	if e.Type == TypeLabel {
		t.label(e)
	}
	t.entries = append(t.entries, e)
	t.leaf = At(e.ID)
}

// label applies a label entry: the last one for a target wins (SPEC S4).
func (t *Tree) label(e Entry) {
	target, _ := jsonscan.Text(jsonscan.Get(e.Raw, "targetId"))
	label, _ := jsonscan.Text(jsonscan.Get(e.Raw, "label"))
	if label == "" {
		delete(t.labels, target)
		return
	}
	t.labels[target] = label
}

// Header is the session's header.
func (t *Tree) Header() Header { return t.header }

// SetHeader replaces the header, for instance by that of Info.Over.
func (t *Tree) SetHeader(h Header) { t.header = h }

// Entries are all entries in the order in which they came. The slice is the tree's own.
func (t *Tree) Entries() []Entry { return t.entries }

// Entry is the entry with this id.
func (t *Tree) Entry(id string) (Entry, error) {
	i, ok := t.byID[id]
	if !ok {
		return Entry{}, notFoundError(id)
	}
	return t.entries[i], nil
}

// Leaf is the place after which the next entry goes: an entry or Root; Last only after an entry without an id.
func (t *Tree) Leaf() Leaf { return t.leaf }

// Append makes an entry of a draft, as a child of the leaf, and moves the leaf to it (SPEC S3).
func (t *Tree) Append(d Draft, s Stamp) (Entry, error) {
	if d.typ == TypeLabel {
		if _, err := t.Entry(d.target); err != nil {
			return Entry{}, err
		}
	}
	taken := func(id string) bool { _, ok := t.byID[id]; return ok }
	if s.ID == "" {
		s.ID = freshID(t.header.ID, len(t.entries)+1, taken)
	}
	if taken(s.ID) {
		return Entry{}, fmt.Errorf("append entry %s: %w", s.ID, ErrTaken)
	}
	e := d.entry(s, t.leaf.id)
	if err := jsonscan.Valid(e.Raw); err != nil {
		return Entry{}, fmt.Errorf("append %s entry: %w", d.typ, err)
	}
	t.add(e)
	return e, nil
}

// Branch moves the leaf to an entry; nothing else changes (SPEC S3).
func (t *Tree) Branch(id string) error {
	if _, err := t.Entry(id); err != nil {
		return err
	}
	t.leaf = At(id)
	return nil
}

// ResetLeaf takes the leaf away: the next entry is a new root (SPEC S3).
func (t *Tree) ResetLeaf() { t.leaf = Root }

// Label is the label of an entry, "" for none.
func (t *Tree) Label(id string) string { return t.labels[id] }

// Labels are the labels by entry. Targets need not exist.
func (t *Tree) Labels() map[string]string { return maps.Clone(t.labels) }

// Path is the entries from the root to a leaf.
func (t *Tree) Path(leaf Leaf) []Entry {
	path := t.path(leaf)
	entries := make([]Entry, len(path))
	for i, at := range path {
		entries[i] = t.entries[at]
	}
	return entries
}

// path is the indices of the entries from the root to a leaf. A leaf that no entry has is the last entry. The walk ends at a
// parent that is missing, and at one that it has passed (SPEC S7).
func (t *Tree) path(leaf Leaf) []int {
	if leaf.root || len(t.entries) == 0 {
		return nil
	}
	at, ok := t.byID[leaf.id]
	if !ok {
		at = len(t.entries) - 1
	}
	path := []int{at}
	var passed map[int]bool // only once a parent stands behind its child: without that there is no cycle
	for {
		parent, ok := t.byID[t.entries[at].Parent]
		if !ok {
			break
		}
		if parent >= at && passed == nil {
			passed = make(map[int]bool, len(path))
			for _, i := range path {
				passed[i] = true
			}
		}
		if passed != nil {
			if passed[parent] {
				break
			}
			passed[parent] = true
		}
		path = append(path, parent)
		at = parent
	}
	slices.Reverse(path)
	return path
}

package sessions

// Fork is the whole session again under another header, usually Header.Child: same entries, same leaf, each going its own
// way from here (SPEC S9). Nothing is copied but the list of entries.
func (t *Tree) Fork(h Header) *Tree {
	fork := NewTree(h, t.entries...)
	fork.leaf = t.leaf
	return fork
}

// Extract is the path to an entry as a session of its own (SPEC S9): without label entries, whose children go to the entry
// above them (✗ the program leaves them without a parent). Labels of entries on the path are set again at the end, in
// the order in which they were given; stamps gives each its id and time.
func (t *Tree) Extract(leaf string, h Header, stamps func() Stamp) (*Tree, error) {
	if _, err := t.Entry(leaf); err != nil {
		return nil, err
	}
	branch := NewTree(h)
	parent := ""
	for _, e := range t.Path(At(leaf)) {
		if e.Type == TypeLabel {
			continue
		}
		if e.Parent != parent {
			e.Parent, e.fix = parent, e.fix|fixPlace
		}
		branch.add(e)
		parent = e.ID
	}
	for _, id := range t.labelledIDs() {
		if _, err := branch.Entry(id); err != nil {
			continue
		}
		if _, err := branch.Append(Label(id, t.Label(id)), stamps()); err != nil {
			return nil, err
		}
	}
	return branch, nil
}

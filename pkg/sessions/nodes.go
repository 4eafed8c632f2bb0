package sessions

// Node is an entry with all that goes on from it.
type Node struct {
	Entry    Entry
	Label    string
	Children []*Node // in the order in which they came
}

// Roots are the trees of a session: an entry without a parent begins one, and so does one whose parent is missing. Of
// entries that are each other's ancestors the first begins one, so that every entry is in exactly one tree.
func (t *Tree) Roots() []*Node {
	nodes := make([]Node, len(t.entries))
	parents := make([]int, len(t.entries))
	for i, e := range t.entries {
		nodes[i] = Node{Entry: e, Label: t.Label(e.ID)}
		parents[i] = -1
		if p, ok := t.byID[e.Parent]; ok {
			parents[i] = p
		}
	}
	uncycle(parents)
	var roots []*Node
	for i, p := range parents {
		if p < 0 {
			roots = append(roots, &nodes[i])
		} else {
			nodes[p].Children = append(nodes[p].Children, &nodes[i])
		}
	}
	return roots
}

// uncycle makes the first member of each cycle a root.
func uncycle(parents []int) {
	const done = -1
	seen := make([]int, len(parents)) // the walk that passed it, from 1; done if it leads to a root
	for i := range parents {
		at := i
		for at >= 0 && seen[at] == 0 {
			seen[at] = i + 1
			at = parents[at]
		}
		if at >= 0 && seen[at] == i+1 { // at is on a cycle: cut it at its first member
			first := at
			for p := parents[at]; p != at; p = parents[p] {
				first = min(first, p)
			}
			parents[first] = -1
		}
		for at = i; at >= 0 && seen[at] == i+1; at = parents[at] {
			seen[at] = done
		}
	}
}

// Children are the entries whose parent is the leaf, in the order in which they came. Those of Root have none.
func (t *Tree) Children(leaf Leaf) []Entry {
	var children []Entry
	for _, e := range t.entries {
		_, hasParent := t.byID[e.Parent]
		if leaf.root && !hasParent || leaf.id != "" && e.Parent == leaf.id {
			children = append(children, e)
		}
	}
	return children
}

package casstore

// Draft is nodes that may come into a pack: encoded, and under their refs. It is a value that can be dropped, while a
// pack keeps what it was given. The zero value is empty. Not safe for concurrent use.
type Draft struct {
	raw   []byte // encoded nodes, one after the other
	refs  []Ref  // of all nodes, one after the other
	nodes []drafted
}

// drafted is a node in a draft.
type drafted struct {
	ref         Ref
	end, refEnd int // in raw and in refs
}

// AddNode adds a node and returns its ref.
func (d *Draft) AddNode(n *Node) Ref {
	from := len(d.raw)
	d.raw = n.AppendTo(d.raw)
	return d.add(from, n.Refs)
}

// AddPayload is AddNode for a node whose payload, one canonical value, is written straight into the draft.
func (d *Draft) AddPayload(typ string, refs []Ref, payload func(dst []byte) []byte) Ref {
	from := len(d.raw)
	d.raw = appendNodeRefs(payload(appendNodeHead(d.raw, typ, nodeKeys)), refs)
	return d.add(from, refs)
}

func (d *Draft) add(from int, refs []Ref) Ref {
	ref := SumNode(d.raw[from:])
	d.refs = append(d.refs, refs...)
	d.nodes = append(d.nodes, drafted{ref: ref, end: len(d.raw), refEnd: len(d.refs)})
	return ref
}

// Len is the number of nodes added.
func (d *Draft) Len() int { return len(d.nodes) }

// Reset empties the draft and keeps its memory.
func (d *Draft) Reset() { d.raw, d.refs, d.nodes = d.raw[:0], d.refs[:0], d.nodes[:0] }

// AddDraft adds the nodes of a draft, whose memory may be used again afterwards.
func (b *PackBuilder) AddDraft(d *Draft) {
	at, refAt := 0, 0
	for i := range d.nodes {
		n := &d.nodes[i]
		from := len(b.raw)
		b.raw = append(b.raw, d.raw[at:n.end]...)
		b.add(from, n.ref, d.refs[refAt:n.refEnd])
		at, refAt = n.end, n.refEnd
	}
}

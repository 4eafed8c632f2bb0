package casstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"spool/internal/family"
)

// ErrUnlocated says that a pack cannot be finished because a node in it refers to a node that is neither in the pack nor
// located. It is wrapped with both refs.
var ErrUnlocated = family.Damaged.New("node is neither in the pack nor located")

// ErrTooLarge says that a node or a pack exceeds a limit of the format.
var ErrTooLarge = family.Invalid.New("exceeds the limit of the format")

// PackBuilder collects the nodes of one pack. Not safe for concurrent use.
type PackBuilder struct {
	// Quick makes Finish compress with Snappy instead of Zstandard: half the work, and a third more bytes. What is written
	// in a hurry can be repacked later. Reset clears it.
	Quick bool

	raw   []byte  // encoded nodes, one after the other
	nodes []entry // in the order added
	edges []int32 // refs of all nodes, one after the other: an id, or nilEdge

	known []known // by id: every ref that was added, located or referred to
	ids   refTable

	scratch []byte // a compressed frame
}

// entry is a node in the builder.
type entry struct {
	id      int32
	end     int // in raw
	edgeEnd int // in edges
}

// known is what the builder knows about a ref.
type known struct {
	ref     Ref
	node    int32 // index in nodes, or -1
	outside int32 // index in the outside table once Finish needs one, or -1
	pack    PackID
}

const nilEdge = -1

// NewPackBuilder returns an empty builder.
func NewPackBuilder() *PackBuilder { return new(PackBuilder) }

// Add adds an encoded node with its refs, which must be those in its encoding, and returns its ref. Adding equal bytes
// again changes nothing. What it refers to must be added or located before Finish, in any order.
func (b *PackBuilder) Add(encoded []byte, refs []Ref) Ref {
	from := len(b.raw)
	b.raw = append(b.raw, encoded...)
	return b.add(from, SumNode(b.raw[from:]), refs)
}

// AddNode is Add for a node that is not encoded yet.
func (b *PackBuilder) AddNode(n *Node) Ref {
	from := len(b.raw)
	b.raw = n.AppendTo(b.raw)
	return b.add(from, SumNode(b.raw[from:]), n.Refs)
}

// add takes the encoded bytes from that place of raw as the node with that ref.
func (b *PackBuilder) add(from int, ref Ref, refs []Ref) Ref {
	id := b.id(ref)
	if b.known[id].node >= 0 {
		b.raw = b.raw[:from]
		return ref
	}
	b.known[id].node = int32(len(b.nodes))
	for i := range refs {
		edge := int32(nilEdge)
		if !refs[i].IsZero() {
			edge = b.id(refs[i])
		}
		b.edges = append(b.edges, edge)
	}
	b.nodes = append(b.nodes, entry{id: id, end: len(b.raw), edgeEnd: len(b.edges)})
	return ref
}

// id is the small integer for a ref in this builder.
func (b *PackBuilder) id(ref Ref) int32 {
	if 2*len(b.known) >= len(b.ids.slots) {
		b.ids.grow(b.known)
	}
	slot := b.ids.slot(&ref, b.known)
	if *slot == 0 {
		b.known = append(b.known, known{ref: ref, node: -1, outside: -1})
		*slot = int32(len(b.known))
	}
	return *slot - 1
}

func (b *PackBuilder) find(ref Ref) (int32, bool) {
	if len(b.known) == 0 {
		return 0, false
	}
	id := *b.ids.slot(&ref, b.known)
	return id - 1, id != 0
}

// Has reports whether the node with that ref was added.
func (b *PackBuilder) Has(ref Ref) bool {
	id, ok := b.find(ref)
	return ok && b.known[id].node >= 0
}

// Len is the number of nodes added.
func (b *PackBuilder) Len() int { return len(b.nodes) }

// RawBytes is the length of all nodes added, before compression.
func (b *PackBuilder) RawBytes() int { return len(b.raw) }

// Locate says which pack holds a node outside. It has no effect on a node that is added here, on a blob, and for a zero
// pack; the last pack given for a ref holds.
func (b *PackBuilder) Locate(l Located) {
	if l.Ref.Kind() == KindNode && !l.Pack.IsZero() {
		b.known[b.id(l.Ref)].pack = l.Pack
	}
}

// Reset empties the builder and keeps its memory. Header and body that Finish returned stay valid.
func (b *PackBuilder) Reset() {
	b.Quick = false
	b.raw, b.nodes, b.edges, b.known = b.raw[:0], b.nodes[:0], b.edges[:0], b.known[:0]
	clear(b.ids.slots)
}

// Finish returns the header and the body of the pack, in memory of their own. It can be called again after more nodes or
// locations were given. Errors wrap ErrUnlocated, ErrTooLarge, or ErrMalformed when refs given to Add form a cycle.
func (b *PackBuilder) Finish() (header, body []byte, err error) {
	if err := b.sortChildrenFirst(); err != nil {
		return nil, nil, err
	}
	edges, outside, err := b.encodeEdges()
	if err != nil {
		return nil, nil, err
	}
	body, frames, err := b.compressFrames()
	if err != nil {
		return nil, nil, err
	}
	size := headerFixed + len(b.nodes)*sha256.Size + len(outside)*LocatedSize + len(frames) + len(edges) + headerSum
	if size > math.MaxInt32 {
		return nil, nil, fmt.Errorf("pack header: %w: %d bytes", ErrTooLarge, size)
	}
	h := append(make([]byte, 0, size), headerMagic...)
	h = append(h, headerVersion, 0, 0, 0)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(b.nodes)))
	h = binary.LittleEndian.AppendUint32(h, uint32(len(outside)))
	h = binary.LittleEndian.AppendUint32(h, uint32(len(frames)/frameEntry))
	h = binary.LittleEndian.AppendUint32(h, uint32(len(edges)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(b.raw)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(body)))
	for i := range b.nodes {
		h = append(h, b.known[b.nodes[i].id].ref[1:]...)
	}
	for _, id := range outside {
		h = Located{Ref: b.known[id].ref, Pack: b.known[id].pack}.AppendTo(h)
	}
	h = append(append(h, frames...), edges...)
	sum := sha256.Sum256(h)
	return append(h, sum[:]...), body, nil
}

// encodeEdges writes the edge table and lists the ids of the outside table in the order of their first use.
func (b *PackBuilder) encodeEdges() (table []byte, outside []int32, err error) {
	for i := range b.known {
		b.known[i].outside = -1
	}
	table = make([]byte, 0, 4*len(b.nodes)+2*len(b.edges))
	for i := range b.nodes {
		from, edges := b.at(i)
		size := b.nodes[i].end - from
		if size > MaxNode || len(edges) > MaxRefs {
			return nil, nil, fmt.Errorf("node %s: %w: %d bytes, %d refs", b.known[b.nodes[i].id].ref, ErrTooLarge, size, len(edges))
		}
		table = binary.AppendUvarint(table, uint64(size))
		table = binary.AppendUvarint(table, uint64(len(edges)))
		for _, id := range edges {
			if id == nilEdge {
				table = append(table, 0)
				continue
			}
			k := &b.known[id]
			if k.node >= 0 {
				table = binary.AppendUvarint(table, uint64(2*(i-int(k.node))-1))
				continue
			}
			if k.outside < 0 {
				if k.ref.Kind() == KindNode && k.pack.IsZero() {
					return nil, nil, fmt.Errorf("%s refers to %s: %w", b.known[b.nodes[i].id].ref, k.ref, ErrUnlocated)
				}
				k.outside = int32(len(outside))
				outside = append(outside, id)
			}
			table = binary.AppendUvarint(table, uint64(2*(k.outside+1)))
		}
	}
	return table, outside, nil
}

// at is where the node at that index begins in raw, and its edges.
func (b *PackBuilder) at(i int) (from int, edges []int32) {
	edgeFrom := 0
	if i > 0 {
		from, edgeFrom = b.nodes[i-1].end, b.nodes[i-1].edgeEnd
	}
	return from, b.edges[edgeFrom:b.nodes[i].edgeEnd]
}

// compressFrames writes the body and its frame table. A frame holds whole nodes; one that is larger than frameTarget has a
// frame of its own.
func (b *PackBuilder) compressFrames() (body, table []byte, err error) {
	body = make([]byte, 0, len(b.raw)/2+256)
	from := 0
	for i := range b.nodes {
		end := b.nodes[i].end
		if i+1 < len(b.nodes) && b.nodes[i+1].end-from <= frameTarget {
			continue
		}
		codec := uint32(frameZstd)
		if b.Quick {
			codec = frameSnappy
		}
		b.scratch = compress(b.scratch[:0], b.raw[from:end], codec)
		if len(b.scratch) > math.MaxUint32 {
			return nil, nil, fmt.Errorf("pack frame: %w", ErrTooLarge)
		}
		body = append(body, b.scratch...)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(b.scratch)))
		table = binary.LittleEndian.AppendUint32(table, uint32(end-from)|codec)
		from = end
	}
	return body, table, nil
}

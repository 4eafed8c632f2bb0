package casstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// The layout of a pack header (docs/format.md). Integers are little-endian. The tables stand in the order a collector
// needs them, and everything but the edges can be addressed without decoding.
const (
	headerMagic   = "SPK1"
	headerVersion = 1

	// Offsets in the fixed part.
	atVersion   = 4  // 1 byte, then 3 bytes of zero
	atNodes     = 8  // uint32: nodes in the pack
	atOutside   = 12 // uint32: entries of the outside table
	atFrames    = 16 // uint32: entries of the frame table
	atEdges     = 20 // uint32: bytes of the edge table
	atRaw       = 24 // uint64: bytes of the body before compression
	atBody      = 32 // uint64: bytes of the body
	headerFixed = 40

	frameEntry = 8           // uint32 compressed length, uint32 raw length and codec
	headerSum  = sha256.Size // the last bytes: SHA-256 of all before
)

// Header is the part of a pack that says what is in it and what that refers to. It is the first chunk of the pack's object,
// so that a collector marks from headers alone (DESIGN 9). Safe for concurrent use.
type Header struct {
	raw     []byte
	sums    []byte  // nodes × 32
	outside []byte  // outside × LocatedSize
	edges   []byte  // per node: length, number of refs, refs; all varints
	frames  []frame // in body order
	ends    []int64 // where each node ends in the uncompressed body
	edgeAt  []uint32
	own     hashIndex
	foreign hashIndex
}

// frame is one compressed frame of the body.
type frame struct {
	at, size int64 // in the body
	rawAt    int64 // in the uncompressed body
	rawSize  int64
	codec    uint32
}

// Target is where a ref of a node in a pack points: nowhere, to an own node, or to an entry of the outside table.
type Target int32

// NilTarget is the target of the nil ref.
const NilTarget Target = math.MinInt32

// Own is the index of the own node the ref points to, always below that of the node that holds the ref.
func (t Target) Own() (index int, ok bool) { return int(t), t >= 0 }

// Outside is the index in the outside table.
func (t Target) Outside() (index int, ok bool) { return int(-1 - t), t < 0 && t != NilTarget }

// OpenHeader checks an untrusted header as a whole and returns it. It keeps h; the caller must not change it. Errors wrap
// ErrVersion or ErrCorrupt.
func OpenHeader(h []byte) (*Header, error) {
	if len(h) < headerFixed+headerSum || string(h[:4]) != headerMagic {
		return nil, fmt.Errorf("pack header: %w: it does not begin with %q", ErrCorrupt, headerMagic)
	}
	if v := h[atVersion]; v != headerVersion {
		return nil, fmt.Errorf("pack header: %w: %d, this program reads version %d", ErrVersion, v, headerVersion)
	}
	covered := h[:len(h)-headerSum]
	if sum := sha256.Sum256(covered); !bytes.Equal(sum[:], h[len(covered):]) {
		return nil, fmt.Errorf("pack header: %w: its SHA-256 differs", ErrCorrupt)
	}
	out := &Header{raw: h}
	if what := out.parse(covered); what != "" {
		return nil, fmt.Errorf("pack header: %w: %s", ErrCorrupt, what)
	}
	return out, nil
}

// parse cuts the tables out and checks each; it returns what is wrong, or "".
func (h *Header) parse(b []byte) string {
	nodes, outside := uint64(binary.LittleEndian.Uint32(b[atNodes:])), uint64(binary.LittleEndian.Uint32(b[atOutside:]))
	frames, edges := uint64(binary.LittleEndian.Uint32(b[atFrames:])), uint64(binary.LittleEndian.Uint32(b[atEdges:]))
	if !bytes.Equal(b[atVersion+1:atNodes], []byte{0, 0, 0}) {
		return "reserved bytes are not zero"
	}
	if headerFixed+nodes*sha256.Size+outside*uint64(LocatedSize)+frames*frameEntry+edges != uint64(len(b)) {
		return "the counts do not add up to its length"
	}
	rest := b[headerFixed:]
	h.sums, rest = rest[:nodes*sha256.Size], rest[nodes*sha256.Size:]
	h.outside, rest = rest[:outside*uint64(LocatedSize)], rest[outside*uint64(LocatedSize):]
	table, rest := rest[:frames*frameEntry], rest[frames*frameEntry:]
	h.edges = rest
	if what := h.parseOutside(); what != "" {
		return what
	}
	if what := h.parseEdges(int(nodes), int(outside)); what != "" {
		return what
	}
	h.own = hashIndex{keys: h.sums, stride: sha256.Size, width: sha256.Size}
	h.foreign = hashIndex{keys: h.outside, stride: LocatedSize, width: RefSize}
	return h.parseFrames(table, binary.LittleEndian.Uint64(b[atRaw:]), binary.LittleEndian.Uint64(b[atBody:]))
}

func (h *Header) parseOutside() string {
	for at := 0; at < len(h.outside); at += LocatedSize {
		switch Kind(h.outside[at]) {
		case KindNode:
		case KindBlob:
			if !PackID(h.outside[at+RefSize : at+LocatedSize]).IsZero() {
				return "a blob is located in a pack"
			}
		default:
			return "an outside ref has no known kind"
		}
	}
	return ""
}

// parseEdges walks the edge table once, so that Refs need not check anything.
func (h *Header) parseEdges(nodes, outside int) string {
	h.ends, h.edgeAt = make([]int64, nodes), make([]uint32, nodes)
	at, end := 0, int64(0)
	for i := range nodes {
		size, at1 := uvarint(h.edges, at)
		if at1 == 0 || size == 0 || size > MaxNode {
			return "a node has an impossible length"
		}
		end += int64(size)
		h.ends[i], h.edgeAt[i] = end, uint32(at1)
		count, at2 := uvarint(h.edges, at1)
		if at2 == 0 || count > MaxRefs {
			return "a node has an impossible number of refs"
		}
		at = at2
		for range count {
			var code uint64
			if code, at = uvarint(h.edges, at); at == 0 {
				return "the edge table ends early"
			}
			if t := target(code, i); t != NilTarget && (int(t) >= i || -1-int(t) >= outside) || code > math.MaxUint32 {
				return "a ref points outside the tables"
			}
		}
	}
	if at != len(h.edges) {
		return "the edge table is longer than its nodes"
	}
	return ""
}

// parseFrames checks that the frames cover the body and that no node spans two.
func (h *Header) parseFrames(table []byte, raw, body uint64) string {
	h.frames = make([]frame, 0, len(table)/frameEntry)
	var at, rawAt int64
	node := 0
	for ; len(table) > 0; table = table[frameEntry:] {
		size, word := int64(binary.LittleEndian.Uint32(table)), binary.LittleEndian.Uint32(table[4:])
		codec, rawSize := word&frameCodec, int64(word&^frameCodec)
		h.frames = append(h.frames, frame{at, size, rawAt, rawSize, codec})
		at, rawAt = at+size, rawAt+rawSize
		first := node
		for node < len(h.ends) && h.ends[node] <= rawAt {
			node++
		}
		switch {
		case node == first || h.ends[node-1] != rawAt:
			return "a frame does not end where a node ends"
		case rawSize > maxSharedFrame && node != first+1:
			return "a frame of several nodes is too large"
		case rawSize/maxRatio > size:
			return "a frame announces more than it can hold"
		}
	}
	if node != len(h.ends) || uint64(rawAt) != raw || uint64(at) != body {
		return "the frames do not add up to the body"
	}
	return ""
}

// target decodes one ref code of the node at that index: 0 is nil, an odd code a distance back, an even one an outside entry.
func target(code uint64, node int) Target {
	switch {
	case code == 0:
		return NilTarget
	case code&1 == 1:
		back := int64(code/2) + 1
		if back > int64(node) {
			return Target(node) // itself: never valid
		}
		return Target(int64(node) - back)
	}
	return Target(-1 - int64(code/2-1))
}

// uvarint reads a varint of b at that place and returns the place after it, or 0 if there is none.
func uvarint(b []byte, at int) (v uint64, next int) {
	if at < len(b) && b[at] < 0x80 {
		return uint64(b[at]), at + 1
	}
	v, n := binary.Uvarint(b[at:])
	if n <= 0 {
		return 0, 0
	}
	return v, at + n
}

// Len is the number of nodes; their indexes are 0 to Len-1.
func (h *Header) Len() int { return len(h.ends) }

// sum is the SHA-256 of the node at that index.
func (h *Header) sum(i int) [32]byte { return [32]byte(h.sums[i*sha256.Size:]) }

// Ref is the ref of the node at that index.
func (h *Header) Ref(i int) Ref { return NodeRef(h.sum(i)) }

// NodeLen is the encoded length of the node at that index, in bytes.
func (h *Header) NodeLen(i int) int {
	if i == 0 {
		return int(h.ends[0])
	}
	return int(h.ends[i] - h.ends[i-1])
}

// offset is where the node at that index begins in the uncompressed body.
func (h *Header) offset(i int) int64 { return h.ends[i] - int64(h.NodeLen(i)) }

// RawLen is the length of the uncompressed body in bytes.
func (h *Header) RawLen() int64 { return int64(binary.LittleEndian.Uint64(h.raw[atRaw:])) }

// bodyLen is the length of the body in bytes.
func (h *Header) bodyLen() int64 { return int64(binary.LittleEndian.Uint64(h.raw[atBody:])) }

// Refs iterates over the targets of the refs of the node at that index, in their order.
func (h *Header) Refs(i int) iter.Seq[Target] {
	return func(yield func(Target) bool) {
		count, at := uvarint(h.edges, int(h.edgeAt[i]))
		for range count {
			var code uint64
			code, at = uvarint(h.edges, at)
			if !yield(target(code, i)) {
				return
			}
		}
	}
}

// OutsideLen is the number of entries of the outside table.
func (h *Header) OutsideLen() int { return len(h.outside) / LocatedSize }

// OutsideAt is the entry of the outside table at that index: a node with the pack that held it when this pack was written,
// or a blob.
func (h *Header) OutsideAt(i int) Located {
	b := h.outside[i*LocatedSize : (i+1)*LocatedSize]
	return Located{Ref: Ref(b[:RefSize]), Pack: PackID(b[RefSize:])}
}

// Outside iterates over the outside table.
func (h *Header) Outside() iter.Seq2[int, Located] {
	return func(yield func(int, Located) bool) {
		for i := range h.OutsideLen() {
			if !yield(i, h.OutsideAt(i)) {
				return
			}
		}
	}
}

// Find is the index of the node with that ref.
func (h *Header) Find(ref Ref) (index int, ok bool) {
	if ref.Kind() != KindNode {
		return 0, false
	}
	return h.own.find(ref[1:])
}

// Locate says which pack held an outside ref when this pack was written.
func (h *Header) Locate(ref Ref) (PackID, bool) {
	if i, ok := h.foreign.find(ref[:]); ok {
		pack := h.OutsideAt(i).Pack
		return pack, !pack.IsZero()
	}
	return PackID{}, false
}

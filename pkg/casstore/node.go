package casstore

import (
	"bytes"
	"fmt"

	"spool/internal/bounded"
)

// NodeVersion is the version of the node encoding that this package writes and reads.
const NodeVersion = 1

const (
	// MaxNode is the size limit of an encoded node in bytes, on writing and on reading.
	MaxNode = 256 << 20
	// MaxRefs is the limit on the refs of one node.
	MaxRefs = 1 << 20
)

// Node is an immutable record. Its name is the SHA-256 of its encoding (SumNode), so the encoding is canonical: one Node has
// one encoding, in every process and at any time (DESIGN 6).
type Node struct {
	Type    string // "start", "state", "content", "artifact"; valid UTF-8
	Payload []byte // one msgpack value, canonical as the Append functions write it
	Refs    []Ref  // positions have a meaning; the nil ref holds a place
	Extra   []byte // keys of a later writer as encoded pairs, kept as they are; nil when there are none
}

// The encoded frame of a node, but for its variable parts.
const (
	nodeVersionKey = "\xa1v"
	nodeTypeKey    = "\xa4type"
	nodePayloadKey = "\xa7payload"
	nodeRefsKey    = "\xa4refs"
	nodeKeys       = 4
)

// AppendTo appends the canonical encoding of the node: a map with the keys v, type, payload, refs in this order, then those
// of Extra.
func (n *Node) AppendTo(dst []byte) []byte {
	dst = appendNodeHead(dst, n.Type, nodeKeys+countPairs(n.Extra))
	if len(n.Payload) == 0 {
		dst = AppendNil(dst)
	} else {
		dst = append(dst, n.Payload...)
	}
	return append(appendNodeRefs(dst, n.Refs), n.Extra...)
}

// appendNodeHead appends what stands before the payload.
func appendNodeHead(dst []byte, typ string, keys int) []byte {
	dst = append(AppendMapHeader(dst, keys), nodeVersionKey...)
	dst = append(dst, NodeVersion)
	dst = AppendString(append(dst, nodeTypeKey...), typ)
	return append(dst, nodePayloadKey...)
}

// appendNodeRefs appends what stands behind the payload.
func appendNodeRefs(dst []byte, refs []Ref) []byte {
	dst = AppendArrayHeader(append(dst, nodeRefsKey...), len(refs))
	for i := range refs {
		dst = appendRef(dst, refs[i])
	}
	return dst
}

// countPairs counts the encoded pairs in b, which DecodeNode has checked.
func countPairs(b []byte) int {
	values := 0
	for len(b) > 0 {
		n, err := bounded.Check(b)
		if err != nil {
			break
		}
		b = b[n:]
		values++
	}
	return values / 2
}

// DecodeNode decodes untrusted bytes. It accepts only what AppendTo writes, so encoding the result again gives the same
// bytes; the values inside Payload and Extra need only be well-formed. The node aliases b. Errors wrap ErrVersion, naming
// the version found, or ErrMalformed.
func DecodeNode(b []byte) (Node, error) {
	if len(b) > MaxNode {
		return Node{}, fmt.Errorf("node: %w: %d bytes, the limit is %d", ErrMalformed, len(b), MaxNode)
	}
	c := NewCursor(b)
	pairs := c.Map()
	if c.key(nodeVersionKey); c.err == nil {
		if v := c.Value(); c.err == nil && !bytes.Equal(v, []byte{NodeVersion}) {
			return Node{}, fmt.Errorf("node: %w: %s, this program reads version %d", ErrVersion, describeVersion(v), NodeVersion)
		}
	}
	n := Node{}
	c.key(nodeTypeKey)
	n.Type = c.String()
	c.key(nodePayloadKey)
	n.Payload = c.Value()
	c.key(nodeRefsKey)
	n.Refs = c.refs()
	n.Extra = c.extra(pairs - nodeKeys)
	if err := c.Done(); err != nil {
		return Node{}, fmt.Errorf("node: %w", err)
	}
	if size := encodedFrameSize(&n, pairs); size != len(b) {
		return Node{}, fmt.Errorf("node: %w: a length is not in its shortest form", ErrMalformed)
	}
	return n, nil
}

// encodedFrameSize is the length of what AppendTo would write. Every value but the lengths is copied or fixed, and a length
// in a longer form than needed shows as a difference.
func encodedFrameSize(n *Node, pairs int) int {
	var scratch [8]byte
	size := len(AppendMapHeader(scratch[:0], pairs)) +
		len(nodeVersionKey) + 1 + len(nodeTypeKey) + len(nodePayloadKey) + len(nodeRefsKey) +
		len(appendLength(scratch[:0], len(n.Type), 0xa0, 32, 0xd9, 0xda, 0xdb)) + len(n.Type) +
		len(n.Payload) + len(AppendArrayHeader(scratch[:0], len(n.Refs))) + len(n.Extra)
	for i := range n.Refs {
		if n.Refs[i].IsZero() {
			size++
		} else {
			size += 2 + RefSize
		}
	}
	return size
}

// key consumes an encoded key.
func (c *Cursor) key(encoded string) {
	if c.err == nil && !bytes.HasPrefix(c.data[c.at:], []byte(encoded)) {
		c.Fail("want the key " + encoded[1:])
	}
	if c.err == nil {
		c.at += len(encoded)
	}
}

func (c *Cursor) refs() []Ref {
	n := c.Array()
	if n > MaxRefs {
		c.Fail(fmt.Sprintf("%d refs, the limit is %d", n, MaxRefs))
	}
	if c.err != nil || n == 0 {
		return nil
	}
	refs := make([]Ref, n)
	for i := range refs {
		if refs[i] = c.ref(); c.err != nil {
			return nil
		}
	}
	return refs
}

// extra reads that many pairs under keys this version does not know.
func (c *Cursor) extra(pairs int) []byte {
	if pairs < 0 {
		c.Fail("a key is missing")
	}
	from := c.at
	for i := 0; i < pairs && c.err == nil; i++ {
		switch k := c.String(); k {
		case nodeVersionKey[1:], nodeTypeKey[1:], nodePayloadKey[1:], nodeRefsKey[1:]:
			c.Fail("the key " + k + " stands twice")
		}
		c.Value()
	}
	if c.err != nil || c.at == from {
		return nil
	}
	return c.data[from:c.at:c.at]
}

// describeVersion names a version that is not ours.
func describeVersion(v []byte) string {
	if x, err := DecodeValue(v); err == nil {
		return fmt.Sprintf("%.50s", fmt.Sprint(x))
	}
	return fmt.Sprintf("%.50x", v)
}

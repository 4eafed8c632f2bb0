package casstore

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"spool/internal/family"
)

// The errors of reading. A caller decides by them; all are wrapped with the ref or the pack.
var (
	// ErrNotFound says that the store, or the pack asked, does not hold it.
	ErrNotFound = family.NotFound.New("not found")
	// ErrGone says that the store held it and that it was collected as garbage.
	ErrGone = family.NotFound.New("gone: collected as garbage")
	// ErrCorrupt says that the bytes held are not the bytes that were put.
	ErrCorrupt = family.Damaged.New("corrupt")
)

// Pack is an open pack: a header, a body, and the frames of it that were read. Safe for concurrent use.
type Pack struct {
	*Header
	body   []byte
	opened []openedFrame
	open   atomic.Int64 // bytes of opened
}

// openedFrame is a frame of the body after its first use.
type openedFrame struct {
	once sync.Once
	raw  []byte
	err  error
}

// OpenPack checks an untrusted header as a whole and the length of the body, and returns the pack. It keeps both; the caller
// must not change them. Nodes are checked when they are read. Errors wrap ErrVersion or ErrCorrupt.
func OpenPack(header, body []byte) (*Pack, error) {
	h, err := OpenHeader(header)
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != h.bodyLen() {
		return nil, fmt.Errorf("pack: %w: body of %d bytes, want %d", ErrCorrupt, len(body), h.bodyLen())
	}
	return (&Pack{Header: h, body: body}).closed(), nil
}

// Has reports whether the pack holds the node.
func (p *Pack) Has(ref Ref) bool {
	_, ok := p.Find(ref)
	return ok
}

// Node reads and decodes a node. It aliases the pack's memory. Errors wrap ErrNotFound, ErrCorrupt, ErrVersion or
// ErrMalformed.
func (p *Pack) Node(ref Ref) (Node, error) {
	b, err := p.Encoded(ref)
	if err != nil {
		return Node{}, err
	}
	n, err := DecodeNode(b)
	if err != nil {
		return Node{}, fmt.Errorf("%s: %w", ref, err)
	}
	return n, nil
}

// Encoded reads a node's bytes and compares their SHA-256 with the ref, on every call. The result is the pack's own memory
// and must not be changed. Errors wrap ErrNotFound or ErrCorrupt.
func (p *Pack) Encoded(ref Ref) ([]byte, error) {
	i, ok := p.Find(ref)
	if !ok {
		return nil, fmt.Errorf("node %s in pack: %w", ref, ErrNotFound)
	}
	b, err := p.EncodedAt(i)
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", ref, err)
	}
	return b, nil
}

// EncodedAt is Encoded for the node at that index.
func (p *Pack) EncodedAt(i int) ([]byte, error) {
	from, end := p.offset(i), p.ends[i]
	f, _ := slices.BinarySearchFunc(p.frames, end, func(f frame, end int64) int {
		if f.rawAt+f.rawSize < end {
			return -1
		}
		return 1
	})
	raw, err := p.frame(f)
	if err != nil {
		return nil, err
	}
	rawAt := p.frames[f].rawAt
	b := raw[from-rawAt : end-rawAt : end-rawAt]
	if sha256.Sum256(b) != p.sum(i) {
		return nil, fmt.Errorf("%w: the SHA-256 of the stored bytes differs", ErrCorrupt)
	}
	return b, nil
}

// frame is the uncompressed frame at that index.
func (p *Pack) frame(i int) ([]byte, error) {
	o := &p.opened[i]
	o.once.Do(func() {
		f := p.frames[i]
		o.raw, o.err = decompress(p.body[f.at:f.at+f.size], f.rawSize, f.codec)
		p.open.Add(int64(len(o.raw)))
	})
	return o.raw, o.err
}

// closed is the pack without the frames that were read.
func (p *Pack) closed() *Pack {
	return &Pack{Header: p.Header, body: p.body, opened: make([]openedFrame, len(p.frames))}
}

// Size is the memory the pack takes, in bytes. It grows by each frame that is read.
func (p *Pack) Size() int {
	perNode := 8 + 4 + 2*4 // ends, edgeAt, slots
	return len(p.raw) + len(p.body) + int(p.open.Load()) + perNode*p.Len() + 2*4*p.OutsideLen() + 64*len(p.frames) + 512
}

// Verify reads every node and compares its bytes, and its refs with those in the header. Errors wrap ErrCorrupt,
// ErrVersion or ErrMalformed.
func (p *Pack) Verify() error {
	for i := range p.Len() {
		n, err := p.Node(p.Ref(i))
		if err != nil {
			return err
		}
		at := 0
		for t := range p.Refs(i) {
			if at >= len(n.Refs) || p.resolve(t) != n.Refs[at] {
				at = -1
				break
			}
			at++
		}
		if at != len(n.Refs) {
			return fmt.Errorf("node %s: %w: its refs are not those in the header", p.Ref(i), ErrCorrupt)
		}
	}
	return nil
}

func (p *Pack) resolve(t Target) Ref {
	if i, ok := t.Own(); ok {
		return p.Ref(i)
	}
	if i, ok := t.Outside(); ok {
		return p.OutsideAt(i).Ref
	}
	return Ref{}
}

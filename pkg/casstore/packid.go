package casstore

import (
	"encoding/hex"
	"fmt"
	"strings"

	"spool/internal/family"
)

// PackID names a pack. The caller chooses it, unique for ever; it says nothing about the content. The zero value means that
// no pack is named.
type PackID [16]byte

// ErrBadPackID says that a text is not a pack id.
var ErrBadPackID = family.Invalid.New("not a pack id")

// String is the id as 32 lowercase hexadecimal digits.
func (id PackID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether no pack is named.
func (id PackID) IsZero() bool { return id == PackID{} }

// ParsePackID is the opposite of String. Errors wrap ErrBadPackID.
func ParsePackID(s string) (id PackID, err error) {
	if len(s) == 2*len(id) && strings.ToLower(s) == s {
		if _, err := hex.Decode(id[:], []byte(s)); err == nil {
			return id, nil
		}
	}
	return PackID{}, fmt.Errorf("%w: %.100q, want 32 lowercase hexadecimal digits", ErrBadPackID, s)
}

// LocatedSize is the length of the binary form of a Located in bytes: the ref, then the pack id.
const LocatedSize = RefSize + len(PackID{})

// Located is a ref and the pack that was seen to hold it. The pack is a hint: after a repack another one holds the node, and
// a wrong hint costs time, never correctness (DESIGN 7). The pack is zero for a blob.
type Located struct {
	Ref  Ref
	Pack PackID
}

// IsZero reports whether l locates nothing.
func (l Located) IsZero() bool { return l == Located{} }

// String is the ref, then "@" and the pack if there is one.
func (l Located) String() string {
	if l.Pack.IsZero() {
		return l.Ref.String()
	}
	return l.Ref.String() + "@" + l.Pack.String()
}

// ParseLocated is the opposite of String. Errors wrap ErrBadRef or ErrBadPackID.
func ParseLocated(s string) (l Located, err error) {
	ref, pack, named := strings.Cut(s, "@")
	if l.Ref, err = ParseRef(ref); err != nil || !named {
		return l, err
	}
	if l.Ref.Kind() != KindNode {
		return Located{}, fmt.Errorf("%w: %.100q: only nodes are in packs", ErrBadRef, s)
	}
	l.Pack, err = ParsePackID(pack)
	return l, err
}

// AppendTo appends the binary form, LocatedSize bytes.
func (l Located) AppendTo(dst []byte) []byte { return append(append(dst, l.Ref[:]...), l.Pack[:]...) }

// LocatedFromBytes reads the binary form of a Located whose ref is not nil. Errors wrap ErrBadRef.
func LocatedFromBytes(b []byte) (Located, error) {
	if len(b) != LocatedSize {
		return Located{}, fmt.Errorf("%w: %d bytes, want %d", ErrBadRef, len(b), LocatedSize)
	}
	r, err := refFromBytes(b[:RefSize])
	if err != nil {
		return Located{}, err
	}
	return Located{Ref: r, Pack: PackID(b[RefSize:])}, nil
}

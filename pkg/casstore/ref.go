package casstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"spool/internal/family"
)

// Kind says what a ref points to. It is part of the ref: bytes are never sniffed to find out what they are.
type Kind byte

const (
	KindNode Kind = 1 // an encoded Node, kept in a pack
	KindBlob Kind = 2 // raw bytes, kept alone
)

// String is the word for the kind in the text form of a ref.
func (k Kind) String() string {
	switch k {
	case KindNode:
		return "node"
	case KindBlob:
		return "blob"
	}
	return fmt.Sprintf("kind%d", byte(k))
}

// RefSize is the length of a Ref in bytes.
const RefSize = 1 + sha256.Size

// Ref names immutable bytes: one kind byte, then the SHA-256 of the bytes. The zero value is the nil ref, which points to
// nothing. Refs are comparable.
type Ref [RefSize]byte

// ErrBadRef says that a text or a byte string is not a ref.
var ErrBadRef = family.Invalid.New("not a ref")

// NodeRef is the ref of the node with that SHA-256.
func NodeRef(sum [32]byte) Ref { return newRef(KindNode, sum) }

// BlobRef is the ref of the blob with that SHA-256.
func BlobRef(sum [32]byte) Ref { return newRef(KindBlob, sum) }

// SumNode is the ref of an encoded node.
func SumNode(encoded []byte) Ref { return newRef(KindNode, sha256.Sum256(encoded)) }

// SumBlob is the ref of raw bytes.
func SumBlob(b []byte) Ref { return newRef(KindBlob, sha256.Sum256(b)) }

func newRef(kind Kind, sum [32]byte) (r Ref) {
	r[0] = byte(kind)
	copy(r[1:], sum[:])
	return r
}

// Kind is what the ref points to; 0 for the nil ref.
func (r Ref) Kind() Kind { return Kind(r[0]) }

// Sum is the SHA-256 of the bytes the ref names.
func (r Ref) Sum() [32]byte { return [32]byte(r[1:]) }

// IsZero reports whether r is the nil ref.
func (r Ref) IsZero() bool { return r == Ref{} }

// Hex is the SHA-256 as 64 lowercase hexadecimal digits.
func (r Ref) Hex() string { return hex.EncodeToString(r[1:]) }

// String is "node:sha256:<hex>" or "blob:sha256:<hex>"; "" for the nil ref.
func (r Ref) String() string {
	return string(r.AppendTo(make([]byte, 0, len("node")+len(algorithm)+2*sha256.Size)))
}

// AppendTo is String behind b.
func (r Ref) AppendTo(b []byte) []byte {
	if r.IsZero() {
		return b
	}
	return hex.AppendEncode(append(append(b, r.Kind().String()...), algorithm...), r[1:])
}

const algorithm = ":sha256:"

// ParseRef is the opposite of String, for refs that are not nil. It accepts `^(node|blob):sha256:[a-f0-9]{64}$` and
// nothing else (SPEC T8): a ref becomes part of object names and paths. Errors wrap ErrBadRef.
func ParseRef(s string) (Ref, error) {
	for _, k := range []Kind{KindNode, KindBlob} {
		digits, ok := strings.CutPrefix(s, k.String()+algorithm)
		if !ok || len(digits) != 2*sha256.Size || strings.ToLower(digits) != digits {
			continue
		}
		r := Ref{byte(k)}
		if _, err := hex.Decode(r[1:], []byte(digits)); err == nil {
			return r, nil
		}
	}
	return Ref{}, fmt.Errorf("%w: %.100q, want node:sha256: or blob:sha256: and 64 lowercase hexadecimal digits", ErrBadRef, s)
}

// refFromBytes reads the binary form of a ref that is not nil.
func refFromBytes(b []byte) (Ref, error) {
	if len(b) != RefSize {
		return Ref{}, fmt.Errorf("%w: %d bytes, want %d", ErrBadRef, len(b), RefSize)
	}
	if k := Kind(b[0]); k != KindNode && k != KindBlob {
		return Ref{}, fmt.Errorf("%w: kind byte %d", ErrBadRef, b[0])
	}
	return Ref(b), nil
}

package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"

	"spool/internal/bounded"
)

// Seal is what the checks of a store's records are made and judged with (docs/adr/0025).
type Seal struct {
	Store string // the identity that the record bucket says; "": nobody has marked it, and there are no checks
	From  uint64 // a record of a higher sequence that has no check is foreign
}

// Unsealed as a Seal's From: a record without a check may be one of an earlier version.
const Unsealed = math.MaxUint64

// Check is what goes with a value, under its key, in this store: half a SHA-256, as text. A removal has none.
func (s Seal) Check(key string, value []byte) string {
	if s.Store == "" || len(value) == 0 {
		return ""
	}
	h, b := sha256.New(), make([]byte, 0, 256)
	for _, part := range []string{s.Store, key} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	h.Write(b)
	h.Write(value)
	return base64.RawStdEncoding.EncodeToString(h.Sum(b[:0])[:sha256.Size/2])
}

// Own reports whether a record that has a check, or "", was written by the system; and whether that is certain.
func (s Seal) Own(r Record, check string) (own, certain bool) {
	class, err := ClassOf(r.Key)
	switch {
	case len(r.Value) == 0, err == nil && class.Sequence:
		return true, true
	case s.Store == "":
		return true, false
	case check == "":
		return r.Seq <= s.From, s.From != Unsealed
	}
	return check == s.Check(r.Key, r.Value), true
}

// Foreign is the record with a value that no decoder takes: nobody of the system wrote what it has.
func (r Record) Foreign() Record {
	r.Value = []byte(bounded.Foreign)
	return r
}

// IsForeign reports whether nobody of the system wrote the value.
func (r Record) IsForeign() bool { return string(r.Value) == bounded.Foreign }

package truncate

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	refPrefix = "blob:sha256:"
	refLen    = len(refPrefix) + 2*sha256.Size
)

// Ref returns the ref of a blob with these bytes: blob:sha256: and 64 lower-case hex digits.
func Ref(b []byte) string {
	sum := sha256.Sum256(b)
	return refPrefix + hex.EncodeToString(sum[:])
}

// IsRef tells whether s is a blob ref, the whole of it (SPEC T8).
func IsRef(s string) bool {
	if len(s) != refLen || s[:len(refPrefix)] != refPrefix {
		return false
	}
	for _, c := range []byte(s[len(refPrefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

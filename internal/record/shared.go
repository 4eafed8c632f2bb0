package record

import (
	"crypto/sha256"
	"encoding/hex"

	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// SharedKey is the key of the mark that says that an artifact's record names bytes which are not its own alone (SPEC
// A7); "" for one whose bytes are, or are not Spool's.
func SharedKey(r artifacts.Record) string {
	if r.Locator == nil || r.Object == r.ObjectName() {
		return ""
	}
	return events.SharedKey(ObjectToken(r.Object), r.Session, string(r.ID))
}

// ObjectToken stands for an object of ArtifactsBucket in the keys of its marks.
func ObjectToken(object string) string {
	sum := sha256.Sum256([]byte(object))
	return hex.EncodeToString(sum[:16])
}

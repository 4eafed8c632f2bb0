package rehydrate

import (
	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/sessions"
)

// Refs lists the blobs that a persisted entry refers to, where Resolve would put them back; one that it names twice stands
// there twice. text must have passed jsonscan.Valid.
func Refs(text []byte) []casstore.Ref {
	if typ, _ := jsonscan.Text(jsonscan.Get(text, "type")); typ == sessions.TypeHeader {
		return nil
	}
	var walk refWalk
	walk.value(text, jsonscan.SkipSpace(text, 0), "", false)
	refs := make([]casstore.Ref, len(walk.places))
	for i, p := range walk.places {
		refs[i] = p.ref
	}
	return refs
}

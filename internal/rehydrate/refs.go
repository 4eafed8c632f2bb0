package rehydrate

import "spool/pkg/casstore"

// Refs lists the blobs that a persisted entry refers to, where Resolve would put them back; one that it names twice stands
// there twice. text must have passed jsonscan.Valid.
func Refs(text []byte) []casstore.Ref {
	places := images(text)
	refs := make([]casstore.Ref, len(places))
	for i, p := range places {
		refs[i] = p.ref
	}
	return refs
}

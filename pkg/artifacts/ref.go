package artifacts

import (
	"errors"
	"fmt"

	"spool/internal/jsonscan"
)

// Ref is what stays in a message in place of an artifact (SPEC A4). Summary and MIME may be empty.
type Ref struct {
	ID      ID
	Summary string
	MIME    string
}

// ErrRef is wrapped by everything that is no reference.
var ErrRef = errors.New("bad artifact reference")

const refType = "artifact_ref"

// JSON is {"type":"artifact_ref","artifact_id":…,"summary":…,"mime_type":…}; what is empty is null.
func (r Ref) JSON() []byte {
	b := jsonscan.AppendString([]byte(`{"type":"`+refType+`","artifact_id":`), string(r.ID))
	b = appendText(append(b, `,"summary":`...), r.Summary)
	b = appendText(append(b, `,"mime_type":`...), r.MIME)
	return append(b, '}')
}

func appendText(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonscan.AppendString(dst, s)
}

// ParseRef reads a reference. It is strict, so that no one mistakes something else for one: unknown and repeated fields are
// refused, type and artifact_id are needed, summary and mime_type may be null or absent. Errors wrap ErrRef.
func ParseRef(raw []byte) (Ref, error) {
	if err := jsonscan.Valid(raw); err != nil {
		return Ref{}, fmt.Errorf("%w: %w", ErrRef, err)
	}
	var r Ref
	var id, typ string
	fields := map[string]*string{"type": &typ, "artifact_id": &id, "summary": &r.Summary, "mime_type": &r.MIME}
	var wrong error
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		name := string(key)
		field, known := fields[name]
		if !known {
			wrong = fmt.Errorf("%w: field %.64q is unknown or stands twice", ErrRef, name)
			return false
		}
		delete(fields, name)
		text, isText := jsonscan.Text(value)
		if !isText && (jsonscan.KindOf(value) != jsonscan.KindNull || field == &typ || field == &id) {
			wrong = fmt.Errorf("%w: %s is no string", ErrRef, name)
			return false
		}
		*field = text
		return true
	})
	switch {
	case err != nil:
		return Ref{}, fmt.Errorf("%w: %w", ErrRef, err)
	case wrong != nil:
		return Ref{}, wrong
	case typ != refType:
		return Ref{}, fmt.Errorf("%w: type is %.64q, want %q", ErrRef, typ, refType)
	case id == "":
		return Ref{}, fmt.Errorf("%w: artifact_id is missing or empty", ErrRef)
	}
	r.ID = ID(id)
	return r, nil
}

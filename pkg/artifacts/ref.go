package artifacts

import "spool/internal/jsonscan"

// Ref is what stays in a message in place of an artifact (SPEC A4). Summary and MIME may be empty.
type Ref struct {
	ID      ID
	Summary string
	MIME    string
}

// JSON is {"type":"artifact_ref","artifact_id":…,"summary":…,"mime_type":…}; what is empty is null.
func (r Ref) JSON() []byte {
	b := jsonscan.AppendString([]byte(`{"type":"artifact_ref","artifact_id":`), string(r.ID))
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

package truncate

import (
	"encoding/base64"
	"errors"
	"fmt"
)

// ErrBadSplice says that splices and text do not belong together: offsets out of order or not at a blob ref, or an unknown
// form.
var ErrBadSplice = errors.New("splice does not fit the text")

// Form is how the bytes of a blob stood in the original text.
type Form byte

// The forms are part of the stored format (SPEC T10): never renumber.
const (
	FormBase64    Form = 0 // standard base64 with padding
	FormBase64Raw Form = 1 // standard base64 without padding
	FormVerbatim  Form = 2 // as they are, between quotes and without escapes
)

// Splice is a place where a blob ref (76 bytes, between quotes) replaced a value. Offset is in bytes, of the ref's first
// letter.
type Splice struct {
	Offset int
	Form   Form
}

func (f Form) encoding() *base64.Encoding {
	if f == FormBase64 {
		return base64.StdEncoding
	}
	return base64.RawStdEncoding
}

// Restore undoes the externalization of a Result: given Full (or Text where Full is nil), its splices and the blobs, it
// returns the raw entry exactly. get is called once a splice, in order; its error ends the work and is wrapped with the
// ref. Splices that do not fit are ErrBadSplice. Without splices text itself is returned.
func Restore(text []byte, splices []Splice, get func(ref string) ([]byte, error)) ([]byte, error) {
	if len(splices) == 0 {
		return text, nil
	}
	var out []byte
	from := 0
	for _, s := range splices {
		if s.Offset < from || s.Offset > len(text)-refLen || s.Form > FormVerbatim {
			return nil, fmt.Errorf("restore at byte %d of %d: %w", s.Offset, len(text), ErrBadSplice)
		}
		ref := string(text[s.Offset : s.Offset+refLen])
		if !IsRef(ref) {
			return nil, fmt.Errorf("restore at byte %d: %w: %w", s.Offset, ErrBadSplice, ErrBadRef)
		}
		blob, err := get(ref)
		if err != nil {
			return nil, fmt.Errorf("restore %s: %w", ref, err)
		}
		out = append(out, text[from:s.Offset]...)
		if s.Form == FormVerbatim {
			out = append(out, blob...)
		} else {
			out = s.Form.encoding().AppendEncode(out, blob)
		}
		from = s.Offset + refLen
	}
	return append(out, text[from:]...), nil
}

package truncate

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"spool/internal/family"
)

// ErrBadSplice says that splices and text do not belong together: offsets out of order or not at a blob ref, or an unknown
// form.
var ErrBadSplice = family.Damaged.New("splice does not fit the text")

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
	var out bytes.Buffer
	out.Grow(len(text))
	err := RestoreTo(&out, bytes.NewReader(text), splices, func(ref string) (io.ReadCloser, error) {
		b, err := get(ref)
		return io.NopCloser(bytes.NewReader(b)), err
	})
	if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// RestoreTo is Restore for an entry of any size: it reads text, and each blob while it is needed, and writes the raw entry
// to dst. If open returns a nil reader, the ref stays where it is (SPEC T10, a missing blob). Its readers must fail rather
// than give bytes that do not have the ref; after an error what was written to dst is incomplete.
func RestoreTo(dst io.Writer, text io.Reader, splices []Splice, open func(ref string) (io.ReadCloser, error)) error {
	at := 0
	for _, s := range splices {
		if s.Offset < at || s.Form > FormVerbatim {
			return fmt.Errorf("restore at byte %d: %w", s.Offset, ErrBadSplice)
		}
		ref, err := nextRef(dst, text, s.Offset-at)
		if err != nil {
			return fmt.Errorf("restore at byte %d: %w", s.Offset, err)
		}
		at = s.Offset + refLen
		if err := restoreBlob(dst, ref, s.Form, open); err != nil {
			return fmt.Errorf("restore %s: %w", ref, err)
		}
	}
	_, err := io.Copy(dst, text)
	return err
}

// nextRef copies the n bytes before a ref and reads the ref.
func nextRef(dst io.Writer, text io.Reader, n int) (string, error) {
	_, err := io.CopyN(dst, text, int64(n))
	var ref [refLen]byte
	if err == nil {
		_, err = io.ReadFull(text, ref[:])
	}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "", fmt.Errorf("%w: the text ends before", ErrBadSplice)
	case err != nil:
		return "", err
	case !IsRef(string(ref[:])):
		return "", fmt.Errorf("%w: %w", ErrBadSplice, ErrBadRef)
	}
	return string(ref[:]), nil
}

// restoreBlob writes a blob as it stood in the text.
func restoreBlob(dst io.Writer, ref string, form Form, open func(ref string) (io.ReadCloser, error)) error {
	blob, err := open(ref)
	if err != nil {
		return err
	}
	if blob == nil {
		_, err := io.WriteString(dst, ref)
		return err
	}
	if form == FormVerbatim {
		_, err = io.Copy(dst, blob)
	} else {
		encoder := base64.NewEncoder(form.encoding(), dst)
		if _, err = io.Copy(encoder, blob); err == nil {
			err = encoder.Close()
		}
	}
	return errors.Join(err, blob.Close())
}

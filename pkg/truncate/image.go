package truncate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"spool/internal/jsonscan"
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

// imageEdit externalizes the base64 string at data (SPEC T5), or returns false if it is a ref already, or its text is
// not what encoding the bytes again would give (SPEC T7).
func imageEdit(raw []byte, data span) (edit, bool) {
	body := raw[data.start+1 : data.end-1]
	e := edit{start: data.start + 1, end: data.end - 1, rule: externalized, exact: true}
	if bytes.IndexByte(body, '\\') >= 0 {
		text, _ := jsonscan.Text(data.of(raw))
		body, e.exact = []byte(text), false
	}
	if IsRef(string(body)) {
		return e, false
	}
	var canonical bool
	e.blob, e.form, canonical = decode64(body)
	return e, canonical
}

// decode64 decodes canonical base64, padded or not.
func decode64(text []byte) ([]byte, Form, bool) {
	form := FormBase64
	if len(text)%4 != 0 {
		form = FormBase64Raw
	}
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // Strict lets these pass
		return nil, form, false
	}
	encoding := form.encoding().Strict()
	blob := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(blob, text)
	return blob[:n], form, err == nil
}

// urlEdit externalizes a string body that is an image data URL (SPEC T6), its place still to be filled in. blob is nil if
// it has no exact UTF-8 form: then it stays as it is (SPEC T7).
func urlEdit(body []byte) (e edit, isURL bool) {
	e = edit{rule: externalized, exact: true, form: FormVerbatim, blob: body}
	if bytes.IndexByte(body, '\\') >= 0 {
		text, lossless := unescape(body)
		e.blob, e.exact = text, false
		if !lossless {
			e.blob = nil
		}
		return e, isDataURL(text)
	}
	return e, isDataURL(body)
}

func isDataURL(s []byte) bool {
	return bytes.HasPrefix(s, []byte("data:image/")) && bytes.Contains(s, []byte(";base64,"))
}

// unescape returns what a string body denotes, and whether it is all there: false for lone surrogates and invalid UTF-8.
func unescape(body []byte) (text []byte, lossless bool) {
	text, lossless = make([]byte, 0, len(body)), true
	for len(body) > 0 {
		r, n := jsonscan.Rune(body)
		if r == utf8.RuneError && (n < 3 || n == 6 && !bytes.EqualFold(body[:6], []byte(`\ufffd`))) {
			lossless = false
		}
		text = utf8.AppendRune(text, r)
		body = body[max(n, 1):]
	}
	return text, lossless
}

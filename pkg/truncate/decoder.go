package truncate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"unicode/utf8"

	"spool/internal/jsonscan"
)

// decoder turns the parts of a string into the bytes of its blob, in constant memory. A string that is not exactly what
// its blob would give back is bad (SPEC T7).
type decoder struct {
	form    Form
	w       io.Writer // gets the bytes; nil if nobody needs them
	sum     hash.Hash
	size    int64 // bytes so far
	escaped bool  // there are escape sequences
	bad     bool
	err     error // of w

	url     finder  // in a data URL
	invalid bool    // bytes that are no UTF-8
	quad    [4]byte // the last characters of base64, at least one once there are any: only they may be padded
	pending int     // how many of quad
	decoded []byte
}

// begin starts a string anew.
func (d *decoder) begin(verbatim, sum bool) {
	*d = decoder{sum: d.sum, decoded: d.decoded}
	if verbatim {
		d.form = FormVerbatim
	}
	if sum {
		if d.sum == nil {
			d.sum = sha256.New()
		}
		d.sum.Reset()
		d.w = d.sum
	}
}

// ref is the ref of the bytes, "" if nobody needs it.
func (d *decoder) ref() string {
	if d.sum == nil {
		return ""
	}
	return refPrefix + hex.EncodeToString(d.sum.Sum(nil))
}

// isDataURL tells whether the string that begins with head is an image data URL (SPEC T6).
func (d *decoder) isDataURL(head []byte) bool {
	return bytes.HasPrefix(head, []byte("data:image/")) && d.url.found
}

// read takes the rest of a string, and gives its spelling to tee, which may be nil.
func (d *decoder) read(r *jsonscan.Reader, tee io.Writer) error {
	for {
		p, err := r.Part()
		if err != nil || len(p.Raw) == 0 {
			return err
		}
		if d.add(p); d.err != nil {
			return d.err
		}
		if tee != nil {
			if _, err := tee.Write(p.Raw); err != nil {
				return err
			}
		}
	}
}

// add takes the next part.
func (d *decoder) add(p jsonscan.Part) {
	text := p.Raw
	if p.Rune >= 0 {
		var c [utf8.UTFMax]byte
		text = c[:utf8.EncodeRune(c[:], p.Rune)]
		d.escaped = true
	}
	if d.form != FormVerbatim {
		d.bad = d.bad || p.Rune == '\n' || p.Rune == '\r' // which package base64 skips
		d.base64(text)
		return
	}
	d.bad = d.bad || p.Rune >= 0xD800 && p.Rune <= 0xDFFF
	d.invalid = d.invalid || p.Rune < 0 && !utf8.Valid(text)
	d.url.add(text)
	d.write(text)
}

func (d *decoder) write(b []byte) {
	d.size += int64(len(b))
	if d.w != nil && d.err == nil {
		_, d.err = d.w.Write(b)
	}
}

// base64 decodes more characters, all but the last up to four.
func (d *decoder) base64(text []byte) {
	if d.pending+len(text) <= len(d.quad) {
		d.pending += copy(d.quad[d.pending:], text)
		return
	}
	if d.pending > 0 {
		text = text[copy(d.quad[d.pending:], text):]
		d.decode(FormBase64Raw, d.quad[:])
	}
	whole := (len(text) - 1) / len(d.quad) * len(d.quad)
	d.decode(FormBase64Raw, text[:whole])
	d.pending = copy(d.quad[:], text[whole:])
}

// decode decodes characters that end on a quad, or at the end.
func (d *decoder) decode(form Form, text []byte) {
	const step = 32 << 10
	if d.decoded == nil {
		d.decoded = make([]byte, step/4*3)
	}
	for len(text) > 0 && !d.bad {
		n, err := form.encoding().Strict().Decode(d.decoded, text[:min(step, len(text))])
		d.bad = err != nil
		d.write(d.decoded[:n])
		text = text[min(step, len(text)):]
	}
}

// close ends the string, and tells whether its bytes give back exactly the same text.
func (d *decoder) close() bool {
	if d.form == FormVerbatim {
		return !d.bad && !(d.escaped && d.invalid)
	}
	if d.pending < len(d.quad) {
		d.form = FormBase64Raw
	}
	d.decode(d.form, d.quad[:d.pending])
	d.pending = 0
	return !d.bad
}

// finder looks for ";base64,".
type finder struct {
	found bool
	last  [2 * len(base64Mark)]byte
	n     int // how many of last
}

const base64Mark = ";base64,"

func (f *finder) add(text []byte) {
	if f.found {
		return
	}
	n := copy(f.last[f.n:], text) // over the border
	seam := f.last[:f.n+n]
	f.found = bytes.Contains(seam, []byte(base64Mark)) || bytes.Contains(text, []byte(base64Mark))
	if n < len(text) {
		seam = text
	}
	f.n = copy(f.last[:], seam[max(0, len(seam)-len(base64Mark)+1):])
}

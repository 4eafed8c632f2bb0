package artifacts

import (
	"bytes"
	"iter"

	"spool/pkg/truncate"
)

// Mentions lists the blobs that a text names anywhere, in order, repeats included: what has to come along with a foreign
// transcript, and what no one may take for garbage. It is generous on purpose: a ref counts in any case, spelled with JSON
// escapes, in the midst of prose and in a line that is no JSON. It does not count when its hash goes on.
func Mentions(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		const prefix, hash = "blob:sha256:", 64
		// "256" has no case, and escapes hide it: what has neither names nothing.
		if !bytes.Contains(text, []byte("256")) && !bytes.Contains(text, []byte(`\u00`)) {
			return
		}
		rest := bytes.ToLower(plain(text))
		for {
			i := bytes.Index(rest, []byte(prefix))
			if i < 0 {
				return
			}
			rest = rest[i:]
			end := len(prefix) + hash
			if len(rest) < end {
				return
			}
			goesOn := len(rest) > end && isHex(rest[end])
			if ref := string(rest[:end]); !goesOn && truncate.IsRef(ref) && !yield(ref) {
				return
			}
			rest = rest[len(prefix):]
		}
	}
}

// plain replaces the escapes of ASCII characters, \u0000 to \u007f, by the characters.
func plain(text []byte) []byte {
	escape := []byte(`\u00`)
	if !bytes.Contains(text, escape) {
		return text
	}
	out := make([]byte, 0, len(text))
	for {
		i := bytes.Index(text, escape)
		if i < 0 || len(text) < i+6 {
			return append(out, text...)
		}
		hi, lo := text[i+4], text[i+5]
		out = append(out, text[:i]...)
		if isHex(hi) && hi < '8' && isHex(lo) {
			out = append(out, hexValue(hi)<<4|hexValue(lo))
		} else {
			out = append(out, text[i:i+6]...)
		}
		text = text[i+6:]
	}
}

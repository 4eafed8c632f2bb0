package truncate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"spool/internal/jsonscan"
)

// Limits of an entry. Units are UTF-16 code units of the string a token denotes (SPEC U2); all limits are strict (SPEC U3).
const (
	// MaxUnits is the longest string that is kept whole (SPEC T1).
	MaxUnits = 500_000
	// Notice ends a string that was cut; it is 47 units, and the cut string together with it at most MaxUnits (SPEC T1).
	Notice = "\n\n[Session persistence truncated large content]"
	// MinImage is the least number of base64 characters of an image that becomes a blob (SPEC T5).
	MinImage = 1024
)

// ErrBadRef says that the blobs callback returned something that is not a blob ref.
var ErrBadRef = errors.New("not a blob ref")

// Options chooses among the rules of Entry. The zero value follows the seed.
type Options struct {
	// Signed is what happens to provider signatures over the limit (SPEC T2).
	Signed Signed
}

// Signed is a treatment of signatures. The zero value means SignedCleared.
type Signed string

const (
	// SignedCleared replaces a signature of more than MaxUnits by "".
	SignedCleared Signed = "cleared"
	// SignedVerbatim never touches a signature, and keeps the whole of a signed block as it is: no cut, no externalization,
	// nothing removed, at any depth below it. Signed blocks are objects of type thinking, text, toolCall, redactedThinking
	// or reasoning with a non-empty thinkingSignature, textSignature, thoughtSignature, data or encrypted_content, and of
	// type anthropicServerTool or anthropicCompaction.
	SignedVerbatim Signed = "verbatim"
)

// Result is an entry after the rules.
type Result struct {
	// Text is the entry as persisted. It is raw itself, not a copy, if no rule applied.
	Text []byte
	// Full is the entry before T1–T4 took anything away, with the images still externalized wherever Restore can put back
	// the exact text. It is nil if Text itself can be restored, and raw itself if nothing in it was externalized.
	Full []byte
	// Splices are the externalized values of Full, or of Text if Full is nil, in ascending order.
	Splices []Splice
	// Truncated strings (T1), Cleared signatures (T2), Stripped members (T3), Externalized values (T5, T6; in Text).
	Truncated, Cleared, Stripped, Externalized int
}

// Entry applies SPEC T1–T8 to the JSON text of one entry. blobs is called with the bytes of each externalized value and
// returns its ref; the bytes may alias raw and must not be changed. It may be nil: then the refs are computed with Ref
// and nothing is stored. raw must have passed jsonscan.Valid: an entry that can be seen to need no work is returned
// without a second look; otherwise text that is not JSON is jsonscan.ErrSyntax or ErrDepth.
//
// T7: image data that is not canonical base64 stays inline, uncut, and so do the other members of its block; the same
// holds for a data URL whose characters have no UTF-8 form (lone surrogates).
func Entry(raw []byte, blobs func(b []byte) (ref string), opt Options) (Result, error) {
	if clean(raw) {
		return Result{Text: raw}, nil
	}
	if err := jsonscan.Valid(raw); err != nil {
		return Result{}, fmt.Errorf("truncate entry: %w", err)
	}
	w := walker{raw: raw, opt: opt}
	w.value(jsonscan.SkipSpace(raw, 0), keyOther, false)
	if len(w.edits) == 0 {
		return Result{Text: raw}, nil
	}
	slices.SortFunc(w.edits, func(a, b edit) int { return a.start - b.start })
	if blobs == nil {
		blobs = Ref
	}
	r := Result{}
	lossy := false
	for i := range w.edits {
		e := &w.edits[i]
		lossy = lossy || !e.exact
		r.count(e.rule)
		if e.rule != externalized {
			continue
		}
		if e.text = blobs(e.blob); !IsRef(e.text) {
			return Result{}, fmt.Errorf("truncate entry: %w: %q", ErrBadRef, e.text)
		}
	}
	r.Text, r.Splices = apply(raw, w.edits, false)
	if lossy {
		r.Full, r.Splices = apply(raw, w.edits, true)
	}
	return r, nil
}

// clean tells that no rule can apply: no string can be too long (a byte is at most one unit), and none of the names that
// T3, T5 and T6 look for occurs, nor an escape of a printable ASCII character, which could spell one. The search begins
// with parts of the names whose first letter is rare, which is what bytes.Contains is fast at.
func clean(raw []byte) bool {
	return len(raw) <= MaxUnits &&
		!holds(raw, "Json", `partialJson"`) && !holds(raw, "Events", `jsonlEvents"`) &&
		!holds(raw, "mage", `"image"`, `"image_url"`) && !escapesASCII(raw)
}

// holds looks for names that all have the letters hint in them.
func holds(raw []byte, hint string, names ...string) bool {
	if !bytes.Contains(raw, []byte(hint)) {
		return false
	}
	for _, name := range names {
		if bytes.Contains(raw, []byte(name)) {
			return true
		}
	}
	return false
}

// escapesASCII finds \u002x to \u007x.
func escapesASCII(raw []byte) bool {
	for {
		i := bytes.Index(raw, []byte(`\u00`))
		if i < 0 || i+4 >= len(raw) {
			return false
		}
		if c := raw[i+4]; '2' <= c && c <= '7' {
			return true
		}
		raw = raw[i+4:]
	}
}

// rule is what an edit was made for.
type rule byte

const (
	truncated    rule = iota // T1
	cleared                  // T2
	stripped                 // T3
	counted                  // T4
	externalized             // T5, T6
)

// edit replaces raw[start:end] by text. An exact one is undone by its splice; blob is what goes to the store.
type edit struct {
	start, end int
	rule       rule
	exact      bool
	form       Form
	text       string
	blob       []byte
}

func (r *Result) count(rule rule) {
	switch rule {
	case truncated:
		r.Truncated++
	case cleared:
		r.Cleared++
	case stripped:
		r.Stripped++
	case externalized:
		r.Externalized++
	}
}

// apply makes the edits, in ascending order and apart from each other, or the exact ones only. It returns raw itself if
// there are none.
func apply(raw []byte, edits []edit, exactOnly bool) ([]byte, []Splice) {
	size, n := len(raw), 0
	for _, e := range edits {
		if e.exact || !exactOnly {
			size += len(e.text) - (e.end - e.start)
			n++
		}
	}
	if n == 0 {
		return raw, nil
	}
	out, from := make([]byte, 0, size), 0
	var splices []Splice
	for _, e := range edits {
		if !e.exact && exactOnly {
			continue
		}
		out = append(out, raw[from:e.start]...)
		if e.exact {
			splices = append(splices, Splice{Offset: len(out), Form: e.form})
		}
		out = append(out, e.text...)
		from = e.end
	}
	return append(out, raw[from:]...), splices
}

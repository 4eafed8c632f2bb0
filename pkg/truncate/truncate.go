package truncate

import (
	"bytes"
	"fmt"

	"spool/internal/family"
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

var (
	// ErrBadRef says that the blobs callback returned something that is not a blob ref.
	ErrBadRef = family.Invalid.New("not a blob ref")
	// ErrTooManyEdits says that the rules would change an entry in more than 100,000 places.
	ErrTooManyEdits = family.Invalid.New("entry needs more than 100000 edits")
)

// Options chooses among the rules of Entry. The zero value follows the seed.
type Options struct {
	// Signed is what happens to provider signatures over the limit (SPEC T2).
	Signed Signed
	// Sources has the images of Claude Code moved too: SPEC T5 also for the data of a block's source, and for what
	// toolUseResult has of a result, blocks or the base64 of a file.
	Sources bool
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

// Summary says what the rules did to an entry.
type Summary struct {
	// Truncated strings (T1), Cleared signatures (T2), Stripped members (T3), Externalized values (T5, T6; in Text).
	Truncated, Cleared, Stripped, Externalized int
	// Splices are the externalized values of Full, or of Text if there is no Full, in ascending order.
	Splices []Splice
}

// Result is an entry after the rules.
type Result struct {
	// Text is the entry as persisted. It is raw itself, not a copy, if no rule applied.
	Text []byte
	// Full is the entry before T1–T4 took anything away, with the images still externalized wherever Restore can put back
	// the exact text. It is nil if Text itself can be restored, and raw itself if nothing in it was externalized.
	Full []byte
	Summary
}

// Entry checks that raw is JSON and applies SPEC T1–T8 to it. blobs is called with the bytes of each externalized value and
// returns its ref; the bytes may alias raw and must not be changed. It may be nil: then the refs are computed with Ref and
// nothing is stored. Errors are jsonscan.ErrSyntax, jsonscan.ErrDepth, ErrBadRef and ErrTooManyEdits. An entry too large
// for memory goes through Scan.
//
// T7: image data that is not canonical base64 stays inline, uncut, and so do the other members of its block; the same
// holds for a data URL whose characters have no UTF-8 form (lone surrogates).
func Entry(raw []byte, blobs func(b []byte) (ref string), opt Options) (Result, error) {
	suspect := len(raw) > MaxUnits // a byte is at most one unit
	if !suspect {
		var err error
		if suspect, err = jsonscan.ValidUnless(raw, suspicious); err != nil {
			return Result{}, err
		}
	}
	if !suspect {
		return Result{Text: raw}, nil
	}
	s := scanner{r: jsonscan.NewTextReader(raw, 0), opt: opt}
	if err := s.scan(); err != nil {
		return Result{}, err
	}
	if blobs == nil {
		blobs = Ref
	}
	for i := range s.edits {
		e := &s.edits[i]
		if e.rule != externalized {
			continue
		}
		if e.ref = blobs(e.blob(raw)); !IsRef(e.ref) {
			return Result{}, fmt.Errorf("%w: %q", ErrBadRef, e.ref)
		}
	}
	p := newPlan(s.edits, int64(len(raw)))
	r := Result{Text: p.edit(raw, false), Summary: p.Summary}
	if p.Lossy {
		r.Full = p.edit(raw, true)
	}
	return r, nil
}

// suspicious tells that a rule could apply to the member with this key and the text after it, in an entry that is too
// short for T1: T3, T6 and T5 look for keys that agents write (for the last with a long string under it), and a name that
// is spelled with \u escapes might be one of them.
func suspicious(key, rest []byte) bool {
	switch string(key) {
	case "data", "base64":
		rest = rest[jsonscan.SkipSpace(rest, 0):]
		return len(rest) > MinImage && rest[0] == '"' && bytes.IndexByte(rest[1:MinImage+1], '"') < 0
	case "partialJson", "jsonlEvents", "image_url":
		return true
	}
	return len(key) >= len(`d\u0061ta`) && bytes.IndexByte(key, '\\') >= 0
}

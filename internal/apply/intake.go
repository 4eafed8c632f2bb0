package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// Secrets finds in what agents wrote what must not be stored, and may take it out: before anything is hashed, so that
// nodes, blobs, items and artifacts never had it. Equal bytes must become equal bytes. found says how much there was.
type Secrets interface {
	Clean(text []byte, json bool) (clean []byte, found int)      // JSON stays JSON
	Blank(text []byte) (clean []byte, found int)                 // of the same length
	Reader(r io.Reader, json bool, found *int) (clean io.Reader) // Clean, in bounded memory

	// Piece is Blank for a text that comes in pieces. Of each it may hold back the end, which the next one may go on
	// with, and which is given to the next call with the context; with the last piece, which may be empty, all comes
	// out.
	Piece(context, held, piece []byte, last bool) (out, nextContext, nextHeld []byte, found int)
}

// ErrBody: the body of a claim check is not what it should be.
var ErrBody = errors.New("body in the inbox")

// Clean takes the secrets out of an entry that is in memory, and says how many there were. Those of an output's pieces are
// taken out when they are applied, in their order.
func Clean(e *Staged, secrets Secrets) (found int) {
	if secrets == nil || e.Kind != events.KindEntry {
		return 0
	}
	clean, found := secrets.Clean(e.Body, dialect.IsJSON(e.Dialect))
	if found > 0 {
		came := e.Event.Means()
		e.Came = &came
	}
	e.Body = clean
	return found
}

// Stage reads and cuts an event whose body is in memory. An error means that it can never be applied.
func Stage(e *Staged) (err error) {
	e.Text = e.Body
	switch {
	case e.Kind == events.KindChunk:
		e.Chunk, err = events.ParseChunk(e.Body)
		return err
	case e.Kind != events.KindEntry:
		return nil
	case !dialect.IsJSON(e.Dialect):
		if len(e.Body) > RawLimit {
			e.Text, e.Cuts.Full, e.Cuts.Truncated = CutRaw(e.Body), e.Body, 1
		}
		return nil
	}
	switch err := e.cut(e.Body); {
	case errors.Is(err, jsonscan.ErrSyntax) || errors.Is(err, jsonscan.ErrDepth):
		return NotJSON(err)
	case err != nil:
		return fmt.Errorf("entry: %w", err)
	}
	return nil
}

// SizeRules are the rules by which an entry of a dialect is cut, where how is the persister's.
func SizeRules(name string, how truncate.Options) truncate.Options {
	how.Sources = name == claudeDialect
	return how
}

// NotJSON is the refusal of an entry that is no JSON.
func NotJSON(err error) error {
	return fmt.Errorf("entry is not JSON: %w; publish bytes that are not JSON in the dialect %q", err, rawDialect)
}

// Raw bytes have no strings to cut. More than RawLimit of them are kept as a blob, and the text is their beginning:
// part of the format (docs/format.md), whatever the memory of a persister.
const (
	RawLimit = 8 << 20
	RawText  = truncate.MaxUnits
)

// CutRaw is what stays of raw bytes that begin with head: as much as of a long string, up to a character's end.
func CutRaw(head []byte) []byte {
	head = head[:RawText-len(truncate.Notice)]
	for n := 1; n < utf8.UTFMax; n++ {
		if tail := head[len(head)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				head = head[:len(head)-n]
			}
			break
		}
	}
	return append(bytes.Clone(head), truncate.Notice...)
}

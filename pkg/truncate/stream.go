package truncate

import (
	"errors"
	"fmt"
	"io"

	"spool/internal/family"
	"spool/internal/jsonscan"
)

// ErrChanged says that the text that Apply read is not the one that Scan read.
var ErrChanged = family.Damaged.New("the entry is not the one that was scanned")

// Blobs stores what is moved out of an entry.
type Blobs interface {
	// NewBlob begins a blob whose ref and size in bytes are known. A nil writer says that its bytes are not needed again.
	// Blobs come one after the other, in the order of the text.
	NewBlob(ref string, size int64) (BlobWriter, error)
}

// BlobWriter takes the bytes of a blob. Commit makes them durable, and fails if they do not have the ref; Abort drops
// them. Exactly one of the two is called, last.
type BlobWriter interface {
	io.Writer
	Commit() error
	Abort()
}

// Scan is the first of two passes over an entry of any size: it checks that raw is JSON and finds what Entry would do to
// it. It stores nothing, and its memory does not depend on the size of the entry or of anything in it: some 100 KiB, and
// 200 bytes for each edit. Errors are those of raw, jsonscan.ErrSyntax, jsonscan.ErrDepth and ErrTooManyEdits.
func Scan(raw io.Reader, opt Options) (*Plan, error) {
	s := scanner{r: jsonscan.NewReader(raw), opt: opt, hash: true}
	if err := s.scan(); err != nil {
		return nil, err
	}
	return newPlan(s.edits, s.r.Offset()), nil
}

// Check says whether an entry of any size is JSON, as Scan does, in memory that does not depend on it. Errors are those of raw,
// jsonscan.ErrSyntax and jsonscan.ErrDepth.
func Check(raw io.Reader) error {
	s := scanner{r: jsonscan.NewReader(raw), check: true}
	return s.scan()
}

// Apply is the second pass: it reads the same entry again and writes what Entry calls Text to text, Full to full, and the
// externalized values to blobs. full may be nil, and nothing is written to it if the plan is not Lossy. After an error the
// outputs are incomplete; ErrChanged says that raw is another text than before.
func (p *Plan) Apply(raw io.Reader, text, full io.Writer, blobs Blobs) error {
	if full == nil || !p.Lossy {
		full = io.Discard
	}
	a := applier{src: jsonscan.NewReader(raw), text: text, full: full, both: io.MultiWriter(text, full), blobs: blobs}
	for i := range p.edits {
		e := &p.edits[i]
		err := a.copy(e.start, a.both)
		if err == nil {
			err = a.apply(e)
		}
		if err != nil {
			return fmt.Errorf("edit the entry at byte %d: %w", a.src.Offset(), err)
		}
	}
	if err := a.copy(p.Size, a.both); err != nil {
		return fmt.Errorf("copy the end of the entry: %w", err)
	}
	if !a.src.End() {
		return fmt.Errorf("%w after byte %d", changed(a.src.Unexpected()), p.Size)
	}
	return nil
}

// applier is the second pass at one point of the text.
type applier struct {
	src              *jsonscan.Reader
	text, full, both io.Writer
	blobs            Blobs
}

// copy copies up to the offset end.
func (a *applier) copy(end int64, dst io.Writer) error {
	return changed(a.src.Copy(dst, end-a.src.Offset()))
}

// apply makes an edit. What is not exact stands in full as it stood before.
func (a *applier) apply(e *edit) error {
	news, old := a.text, a.full
	if e.exact {
		news, old = a.both, io.Discard
	}
	if _, err := io.WriteString(news, e.text()); err != nil {
		return err
	}
	if e.rule != externalized {
		return a.copy(e.end, old)
	}
	w, err := a.blobs.NewBlob(e.ref, e.size)
	if err != nil {
		return fmt.Errorf("new blob %s: %w", e.ref, err)
	}
	if w == nil {
		return a.copy(e.end, old)
	}
	if err := a.move(e, w, old); err != nil {
		w.Abort()
		return fmt.Errorf("blob %s: %w", e.ref, err)
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("commit blob %s: %w", e.ref, err)
	}
	_, err = io.WriteString(a.both, `"`) // which was read as the end of the string
	return err
}

// move decodes a value into a blob, and reads the quote behind it.
func (a *applier) move(e *edit, blob, old io.Writer) error {
	d := decoder{form: e.form, w: blob}
	if err := d.read(a.src, old); err != nil {
		return changed(err)
	}
	ok := d.close()
	if d.err == nil && (!ok || d.size != e.size || d.form != e.form || a.src.Offset() != e.end+1) {
		return ErrChanged
	}
	return d.err
}

// changed says what it means that a text that was scanned is not JSON, or ends.
func changed(err error) error {
	if errors.Is(err, jsonscan.ErrSyntax) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

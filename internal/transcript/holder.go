package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// holder finds the thread of c's session that has all of a file, its own first: the file is what an export writes of it, or
// a beginning of that. A former generation counts only where the file bears its name, as an export of all threads gives it:
// under any other name the file may be the source, gone back to what it was. A thread that cannot be read holds nothing. The
// zero Thread: no thread has it.
func (im *Importer) holder(ctx context.Context, f *file, c *claim) (held events.Thread, more bool, err error) {
	beside, err := im.stored.Beside(ctx, c.thread)
	if err != nil {
		return held, false, err
	}
	for i, t := range append([]events.Thread{c.thread}, beside...) {
		if events.HasFormer(c.thread, t) && stem(f.src.Path) != t.Name {
			continue
		}
		writes := []func(io.Writer) error{im.exportAs(ctx, t, rehydrate.Full), im.exportAs(ctx, t, rehydrate.Stored)}
		if i == 0 && im.cfg.SessionExport != nil {
			writes = append(writes, func(w io.Writer) error { return im.cfg.SessionExport(ctx, t, w) })
		}
		for _, write := range writes {
			begins, more, err := f.src.begins(write)
			switch {
			case err != nil && !unreadable(err):
				return held, false, fmt.Errorf("look for the lines of %s in %s: %w", f.src.Path, t, err)
			case err == nil && begins:
				return t, more, nil
			}
		}
	}
	return held, false, nil
}

func (im *Importer) exportAs(ctx context.Context, t events.Thread, form rehydrate.Form) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := im.stored.ExportAs(ctx, t, form, w, nil)
		return err
	}
}

// unreadable tells whether a thread is not there, or not whole.
func unreadable(err error) bool {
	for _, is := range []error{threads.ErrNoThread, threads.ErrShape, casstore.ErrNotFound, casstore.ErrGone, casstore.ErrCorrupt} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// begins tells whether the file's bytes are those that write writes, or a beginning of them, and whether there are more.
func (s Source) begins(write func(io.Writer) error) (begins, more bool, err error) {
	in, done, err := s.open(nil)
	if err != nil {
		return false, false, err
	}
	defer done()
	w := &beginning{file: in.r}
	err = write(w)
	switch {
	case w.err != nil:
		return false, false, fmt.Errorf("%s: %w", s.Path, w.err)
	case w.over: // what write said of that does not matter
		return w.begins, w.begins, nil
	case err != nil:
		return false, false, err
	}
	n, err := in.r.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n == 0 && err == nil, false, err
}

// beginning compares what is written to it with a file.
type beginning struct {
	file   io.Reader
	buf    []byte
	over   bool // the answer is known
	begins bool // it is that the file ended first
	err    error
}

// errKnown ends a comparison whose answer is known.
var errKnown = errors.New("the rest makes no difference")

func (w *beginning) Write(p []byte) (int, error) {
	if w.over || w.err != nil {
		return 0, errKnown
	}
	if len(w.buf) < len(p) {
		w.buf = make([]byte, len(p))
	}
	n, err := io.ReadFull(w.file, w.buf[:len(p)])
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch same := bytes.Equal(w.buf[:n], p[:n]); {
	case err != nil && !ended:
		w.err = err
	case !same:
		w.over = true
	case n < len(p):
		w.over, w.begins = true, true
	default:
		return n, nil
	}
	return n, errKnown
}

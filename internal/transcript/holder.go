package transcript

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// holder finds the thread of c's session that has all of a file, its own first: the file is what an export writes of it, or
// a beginning of that. A former generation counts only where the file bears its name, as an export of all threads gives it:
// under any other name the file may be the source, gone back to what it was. A thread that cannot be read holds nothing.
func (im *Importer) holder(ctx context.Context, f *file, c *claim) (held holding, err error) {
	beside, err := im.stored.Beside(ctx, c.thread)
	if err != nil {
		return held, err
	}
	older, err := im.older(ctx, f, c, beside)
	if err != nil {
		return held, err
	}
	movesLeaf, err := f.movesLeaf()
	if err != nil {
		return held, err
	}
	has := []events.Thread{c.thread}
	lines, err := f.src.entries()
	if err != nil {
		return held, err
	}
	for t, head := range beside {
		if head.Entries >= lines { // no other is read: it cannot have all of the file
			has = append(has, t)
		}
	}
	for i, t := range has {
		former := events.HasFormer(c.thread, t)
		writes := []func(io.Writer) error{im.exportAs(ctx, t, rehydrate.Full), im.exportAs(ctx, t, rehydrate.Stored)}
		if i == 0 && im.cfg.SessionExport != nil {
			writes = append(writes, func(w io.Writer) error { return im.cfg.SessionExport(ctx, t, w) })
		}
		named := !former || stem(f.src.Path) == t.Name
		for _, like := range []struct {
			holding
			asked bool
			heads func(file, export []byte) bool
		}{
			{asked: named},
			{holding{leaf: true}, named && movesLeaf, sameButLeaf},
			{holding{older: true}, older && (i == 0 || former), func(_, _ []byte) bool { return true }},
		} {
			for _, write := range writes {
				if !like.asked {
					break
				}
				begins, more, err := f.src.begins(write, like.heads)
				switch {
				case err != nil && !unreadable(err):
					return held, fmt.Errorf("look for the lines of %s in %s: %w", f.src.Path, t, err)
				case err == nil && begins:
					like.thread, like.more = t, more
					return like.holding, nil
				}
			}
		}
	}
	return held, nil
}

// isHeld tells whether a thread of the session has all of a file, and says so.
func (im *Importer) isHeld(ctx context.Context, f *file, c *claim) (bool, error) {
	by, err := im.holder(ctx, f, c)
	if err != nil || by == (holding{}) {
		return false, err
	}
	f.res.begin(&claim{thread: by.thread})
	switch {
	case by.leaf && !by.more:
		f.warn(leafStays(by.thread))
	case by.older:
		f.warn(fmt.Sprintf("nothing was added: %s has all its entries, and it is older than what was said of the session since", by.thread))
	default:
		f.held(by.thread, by.more)
	}
	return true, f.countHad()
}

// countHad counts the lines of a file that is in a thread already.
func (f *file) countHad() error {
	p := pass{f: f}
	for r, err := range f.src.records() {
		if err != nil {
			return err
		}
		if r.torn {
			break
		}
		p.count(r, true)
		f.res.Bytes = r.start + r.size()
		if !r.part && !r.open { // its newline
			f.res.Bytes++
		}
	}
	return nil
}

// held notes that a thread has all of the file.
func (f *file) held(t events.Thread, more bool) {
	said := fmt.Sprintf("nothing was added: %s has all of it", t)
	if more {
		said += ", and more"
	}
	f.warn(said)
}

// holding is a thread that has all of a file; the zero holding: none has.
type holding struct {
	thread events.Thread
	more   bool // than the file
	leaf   bool // but for where the file's header says that the leaf is
	older  bool // but for what the file says before them: an older title or directory of the session
}

// older tells whether what a file says of its session before the entries may be older than what there is: since it was written the thread
// was replaced, or somebody named or moved the session in Spool.
func (im *Importer) older(ctx context.Context, f *file, c *claim, beside iter.Seq2[events.Thread, threads.Head]) (bool, error) {
	written := f.src.Modified()
	if f.id.Dialect != ompDialect || written.IsZero() || c.replaced {
		return false, nil
	}
	for t, head := range beside {
		if events.HasFormer(c.thread, t) && written.UnixMilli() <= head.Updated {
			return true, nil
		}
	}
	if im.cfg.Said == nil || c.thread.Name != events.MainThread {
		return false, nil
	}
	said, err := im.cfg.Said(ctx, c.thread.Session)
	return err == nil && !written.After(said), err
}

// entries counts those that the complete lines of a file are.
func (s Source) entries() (n int64, err error) {
	for r, err := range s.records() {
		if err != nil || r.torn {
			return n, err
		}
		if !r.part {
			n++
		}
	}
	return n, nil
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

// begins tells whether the file's bytes are those that write writes, or a beginning of them, and whether there are more. sameHeads, if not
// nil, tells whether the lines before the entries of a session's file are the same, here and there.
func (s Source) begins(write func(io.Writer) error, sameHeads func(file, export []byte) bool) (begins, more bool, err error) {
	in, done, err := s.open(nil)
	if err != nil {
		return false, false, err
	}
	defer done()
	w := &beginning{file: in.r}
	if sameHeads != nil {
		var heads bytes.Buffer
		end, err := s.headsEnd()
		if err == nil {
			_, err = io.CopyN(&heads, in.r, end)
		}
		if err != nil {
			return false, false, err
		}
		exported, behind := write, headless{}
		write = func(w io.Writer) error {
			behind.w = w
			return errors.Join(exported(&behind), behind.flush())
		}
		defer func() { begins = begins && sameHeads(heads.Bytes(), behind.heads) }()
	}
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

// headsEnd is the offset of the first line behind those that stand before the entries of a session's file.
func (s Source) headsEnd() (int64, error) {
	for r, err := range s.records() {
		if err != nil || !r.heads() {
			return r.start, err
		}
	}
	return s.size(), nil
}

// headless passes what an export writes, without the lines before the entries.
type headless struct {
	w    io.Writer
	line []byte // the beginning of one that may be such a line
	past bool

	heads []byte // what was left out
}

func (h *headless) Write(p []byte) (int, error) {
	rest := p
	for !h.past && len(rest) > 0 {
		n := bytes.IndexByte(rest, '\n') + 1
		n = cmp.Or(n, len(rest))
		h.line, rest = append(h.line, rest[:n]...), rest[n:]
		if h.line[len(h.line)-1] != '\n' && len(h.line) <= giantLine {
			continue
		}
		if text := bytes.TrimSpace(h.line); jsonscan.Valid(text) == nil && (record{body: text, json: true, first: true}).heads() {
			h.heads, h.line = append(h.heads, h.line...), h.line[:0]
		} else if err := h.flush(); err != nil {
			return 0, err
		}
	}
	if len(rest) > 0 {
		if _, err := h.w.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// flush passes a line that has no end, or is none of those.
func (h *headless) flush() error {
	if h.past || len(h.line) == 0 {
		return nil
	}
	h.past = true
	_, err := h.w.Write(h.line)
	return err
}

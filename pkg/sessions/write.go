package sessions

import (
	"bytes"
	"io"
	"strings"

	"spool/internal/jsonscan"
)

// WriteTo writes the session as a file of the current version (SPEC S12). A file that was loaded keeps its bytes, what was
// skipped in it included, and appended entries follow as lines; only a header that changed or entries that were migrated
// make it new, and then each piece of it stands on a line of its own.
func (t *Tree) WriteTo(w io.Writer) (int64, error) {
	out := lineWriter{w: w}
	header, same := t.headerJSON()
	appended := t.entries
	switch f := t.file; {
	case f == nil:
		out.line(header)
	case same && !f.Migrated:
		out.write(f.text)
		if !bytes.HasSuffix(f.text, newline) {
			out.write(newline) // ✗ the program fuses the next entry with the last
		}
		appended = t.entries[len(f.Entries):]
	default:
		for _, p := range f.pieces {
			switch {
			case p.entry >= 0:
				out.line(t.entries[p.entry].JSON())
			case len(f.header) > 0 && &p.raw[0] == &f.header[0]:
				out.line(header)
			default:
				out.line(p.raw)
			}
		}
		appended = t.entries[len(f.Entries):]
	}
	for i := range appended {
		out.line(appended[i].JSON())
	}
	return out.n, out.err
}

// headerJSON is the header to write, and whether it is the very one that was loaded.
func (t *Tree) headerJSON() (header []byte, same bool) {
	h := t.header
	h.Type, h.Version = TypeHeader, max(h.Version, Version)
	header = h.JSON()
	if t.file != nil {
		header = t.file.headerAs(h)
	}
	if leaf := t.leafJSON(); !bytes.Equal(leaf, jsonscan.Get(header, "leaf")) {
		if _, valid := t.storedLeaf(header); leaf != nil || valid {
			header = edit(header, change{"leaf", leaf})
		}
	}
	return header, t.file != nil && bytes.Equal(header, t.file.header)
}

// headerAs is the file's header with the members changed in which h differs from it.
func (f *File) headerAs(h Header) []byte {
	var changes []change
	if f.Header.Version < Version {
		changes = append(changes, change{"version", []byte("3")})
	}
	return editHeader(f.header, f.Header, h, changes)
}

// editHeader is the text of a header with the members changed in which two headers differ, and others.
func editHeader(raw []byte, was, is Header, changes []change) []byte {
	for _, m := range []struct{ name, was, is string }{
		{"id", was.ID, is.ID}, {"timestamp", was.Timestamp, is.Timestamp}, {"cwd", was.Cwd, is.Cwd},
		{"title", was.Title, is.Title}, {"titleSource", was.TitleSource, is.TitleSource},
		{"parentSession", was.ParentSession, is.ParentSession},
	} {
		if m.was != m.is {
			changes = append(changes, optional(m.name, m.is))
		}
	}
	if changes == nil {
		return raw
	}
	return edit(raw, changes...)
}

// The leaf is stored in the header when it is not the last entry, which is where a reader of the format looks for it:
//
//	"leaf":{"id":ID or null,"after":ID of the last entry}
//
// A program that does not know the member and appends to the file makes it void: after is then not the last entry (✗ the
// program forgets a branch on which nothing was appended yet).

// leafJSON is the member to write, nil if the leaf is the last entry.
func (t *Tree) leafJSON() []byte {
	if len(t.entries) == 0 {
		return nil
	}
	last := t.entries[len(t.entries)-1].ID
	if last == "" || t.leaf == At(last) {
		return nil
	}
	dst := append([]byte(`{"id":`), quotedOrNull(t.leaf.id)...)
	return append(appendMember(dst, false, "after", quoted(last)), '}')
}

// WithoutLeaf is a header without the member, as it stood before it was written.
func WithoutLeaf(header []byte) []byte { return edit(header, change{"leaf", nil}) }

// storedLeaf reads the member.
func (t *Tree) storedLeaf(header []byte) (Leaf, bool) {
	leaf := jsonscan.Get(header, "leaf")
	if len(t.entries) == 0 || leaf == nil {
		return Leaf{}, false
	}
	last := t.entries[len(t.entries)-1].ID
	if last == "" || !is(jsonscan.Get(leaf, "after"), last) {
		return Leaf{}, false
	}
	id := jsonscan.Get(leaf, "id")
	if jsonscan.KindOf(id) == jsonscan.KindNull {
		return Root, true
	}
	_, known := t.byID[textOr(id, "")]
	return At(textOr(id, "")), known
}

// HeaderWriter writes a session's file, with title slot and header as operations on the session made them (Info.Over);
// every other byte passes as it is. Flush writes what is left.
type HeaderWriter struct {
	W    io.Writer
	Info Info

	line []byte // the beginning of a line that may be the header
	past bool   // the header is written, or there is none
}

// maxHeader is the most bytes of a line that is looked at.
const maxHeader = 1 << 20

func (w *HeaderWriter) Write(b []byte) (int, error) {
	n := len(b)
	w.past = w.past || !w.Info.Named && !w.Info.Moved
	for !w.past && len(b) > 0 {
		end := bytes.IndexByte(b, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(b)
		}
		w.line, b = append(w.line, b[:end]...), b[end:]
		if whole || len(w.line) > maxHeader {
			if err := w.Flush(); err != nil {
				return 0, err
			}
		}
	}
	if len(b) > 0 {
		if _, err := w.W.Write(b); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Flush writes a line that has no end.
func (w *HeaderWriter) Flush() error {
	raw := bytes.TrimSpace(bytes.TrimPrefix(w.line, []byte("\xef\xbb\xbf")))
	line := w.line
	w.line = nil
	if len(raw) > 0 {
		h, err := parseLine(raw)
		w.past = err != nil || h.Type != TypeTitleSlot
		switch {
		case err == nil && w.past:
			line = bytes.Replace(line, raw, editHeader(raw, h, w.Info.Over(h), nil), 1)
		case err == nil && w.Info.Named:
			line = bytes.Replace(line, raw, slotOf(raw, w.Info), 1)
		}
	}
	if len(line) == 0 {
		return nil
	}
	_, err := w.W.Write(line)
	return err
}

// slotOf is a title slot with another title, of the same length if that has room for it.
func slotOf(raw []byte, info Info) []byte {
	changes := []change{{"title", quoted(info.Title)}, {"pad", []byte(`""`)}}
	if jsonscan.Get(raw, "source") != nil {
		changes = append(changes, optional("source", info.TitleSource))
	}
	room := len(raw) - len(edit(raw, changes...))
	changes[1].value = quoted(strings.Repeat(" ", max(room, 0)))
	return edit(raw, changes...)
}

// lineWriter stops at the first error.
type lineWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (w *lineWriter) line(b []byte) {
	w.write(b)
	w.write(newline)
}

func (w *lineWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.n, w.err = w.n+int64(n), err
}

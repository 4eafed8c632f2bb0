package sessions

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
)

// File is a session file that was read. Everything in it aliases the text that was loaded.
type File struct {
	Header   Header
	Entries  []Entry // in the order of the file, in their current form (SPEC S5)
	Skipped  []Skipped
	Migrated bool // the file is older than Version

	text   []byte
	header []byte // the header's JSON
	pieces []piece
}

// Skipped is a stretch of a line that is no JSON object (SPEC S6). It is kept: writing the file writes it, too.
type Skipped struct {
	Line int
	Raw  []byte
}

// piece is what stands in the file at one place: an entry, or something that is kept as it is.
type piece struct {
	raw   []byte
	entry int // index in Entries, or one of these:
}

const (
	pieceObject = -1 // header, title slot
	pieceJunk   = -2
)

// Objects are the JSON objects of the file as they were found, in order: title slot, header and entries.
func (f *File) Objects() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, p := range f.pieces {
			if p.entry != pieceJunk && !yield(p.raw) {
				return
			}
		}
	}
}

// Load reads a session file leniently (SPEC S6). text is not copied: keep it unchanged as long as the File is used.
//
// Blank lines, CR LF, a byte order mark, a title slot and a missing final newline are fine; an object may span lines.
// What is no JSON object is skipped, counted, and never takes its neighbours with it: whole entries are found again that
// stand behind it on the same line. The first object must be the header, else the error is ErrHeader with the line.
func Load(text []byte) (*File, error) {
	f := &File{text: text}
	var m *Migration
	var title string
	var err error
	scan(text, func(line int, raw []byte, object bool) bool {
		p := piece{raw: raw, entry: pieceObject}
		switch {
		case !object:
			p.entry = pieceJunk
			f.Skipped = append(f.Skipped, Skipped{line, raw})
		case m != nil:
			if e, ok := m.Entry(raw, ""); ok {
				e.Line, p.entry = line, len(f.Entries)
				f.Entries = append(f.Entries, e)
			}
		default:
			h, herr := parseLine(raw)
			if herr != nil {
				err = fmt.Errorf("line %d: %w", line, herr)
				return false
			}
			if h.Type == TypeTitleSlot {
				title = h.Title
				break
			}
			f.Header, f.header = h, raw
			m = NewMigration(h)
			f.Migrated = m.needed()
		}
		f.pieces = append(f.pieces, p)
		return true
	})
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("line %d: %w: the file holds none", 1+bytes.Count(text, []byte("\n")), ErrHeader)
	}
	f.Header.Title = cmp.Or(f.Header.Title, title)
	return f, nil
}

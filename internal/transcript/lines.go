package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"spool/internal/jsonscan"
	"spool/pkg/sessions"
)

// record is what becomes one entry: a line, the lines of one JSON object, or a stretch of a line that was torn (SPEC S6).
type record struct {
	start int64  // offset of its first byte in the uncompressed file
	line  int    // of its first byte, from 1
	body  []byte // without the newline behind it; the record's own memory
	json  bool   // body is one JSON object
	part  bool   // body stands in place of the newline between the records around it
	open  bool   // the file ends before its newline; of a torn one: it does not begin a line
	torn  bool   // the file ends inside it; body is all that is left of the file
	giant *giant // too long for body, which is nil
	first bool   // no entry stands before it: no JSON object but those that stand before the entries
}

// seq is the record's place in its source: it grows from record to record, those without bytes included.
func (r record) seq() uint64 {
	if r.part {
		return uint64(max(r.start+int64(len(r.body)), 1))
	}
	return uint64(r.start) + 1
}

// malformed tells whether it is none of the agent's doing: bytes that are no JSON object and not blank.
func (r record) malformed() bool {
	if r.giant != nil {
		return !r.json
	}
	mark := r.part && r.start == 0 && bytes.Equal(r.body, byteOrderMark)
	return !r.json && !mark && len(bytes.Trim(r.body, " \t\r\n")) > 0
}

// maxObject is how far an object is followed that does not end with its line, in bytes.
const maxObject = 16 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines reads a file record by record. A line may have any length. What sessions.Load finds in a file, it finds too.
type lines struct {
	r    *bufio.Reader
	at   int64  // offset behind the last record and its newline
	line int    // there, from 1
	text []byte // what was read behind that: whole lines, but for the file's last
	eof  bool   // nothing comes behind text
	mid  bool   // text does not begin a line
	part bool   // the last record was a part
	long bool   // text is the beginning of a line of more than giantLine bytes, which goes on in r

	restore func(n int, body []byte) []byte // Source.Restore
	objects int                             // records that are JSON so far
	entries bool                            // one of them is an entry
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 128<<10), line: 1} }

// next gives the next record; io.EOF behind the last.
func (l *lines) next() (record, error) {
	if len(l.text) == 0 {
		l.text = nil // records keep their memory
		if err := l.more(1); err != nil {
			return record{}, err
		}
		if l.long {
			return l.giant()
		}
		if l.at == 0 && bytes.HasPrefix(l.text, byteOrderMark) {
			return l.take(record{part: true}, len(byteOrderMark)), nil
		}
	}
	if len(l.text) == 0 {
		return record{}, io.EOF
	}
	eol := bytes.IndexByte(l.text, '\n')
	if eol < 0 {
		eol = len(l.text)
	}
	if !l.mid && jsonscan.KindOf(l.text) == jsonscan.KindObject && jsonscan.Valid(l.text[:eol]) == nil {
		return l.take(record{json: true}, eol), nil
	}
	p, n, open := sessions.Cut(l.text, eol)
	for open && len(l.text) < maxObject && !l.eof {
		if err := l.more(2 * len(l.text)); err != nil {
			return record{}, err
		}
		p, n, open = sessions.Cut(l.text, eol)
	}
	if l.eof && !p.Object && (open || eol == len(l.text)) && !hasObject(l.text[n:]) {
		return l.take(record{torn: true}, len(l.text)), nil
	}
	return l.piece(p, n, eol), nil
}

// piece makes a record of a piece that takes n bytes, on the line that ends at eol.
func (l *lines) piece(p sessions.Piece, n, eol int) record {
	if n == eol+1 {
		n = eol
	}
	if p.Object { // what is blank behind it on its line is its own
		blank := l.text[n:jsonscan.SkipSpace(l.text, n)]
		if nl := bytes.IndexByte(blank, '\n'); nl >= 0 {
			n += nl
		} else if n+len(blank) == len(l.text) {
			n = len(l.text)
		}
	}
	ends := n == len(l.text) || l.text[n] == '\n'
	switch {
	case l.mid && !l.part && (p.Object || ends):
		return l.take(record{part: true}, 0)
	case !p.Object && !ends:
		return l.take(record{part: true}, n)
	}
	return l.take(record{json: p.Object}, n)
}

// take takes n bytes off the text for a record, and the newline behind them. A part has the newline before it, too.
func (l *lines) take(r record, n int) record {
	r.start, r.line, r.body = l.at, l.line, l.text[:n:n]
	first := l.at == 0 || l.part
	l.line += bytes.Count(r.body, []byte("\n"))
	l.at, l.text = l.at+int64(n), l.text[n:]
	switch {
	case r.torn:
		r.open = l.mid
	case r.part && !l.mid && !first:
		r.start, r.body = r.start-1, append([]byte{'\n'}, r.body...)
	case r.part:
	case len(l.text) == 0:
		r.open = true
	case l.text[0] == '\n':
		l.at, l.text, l.line, l.mid, l.part = l.at+1, l.text[1:], l.line+1, false, false
		return l.restored(r)
	}
	l.mid, l.part = true, r.part
	return l.restored(r)
}

// restored is a record as it was when it was taken in first.
func (l *lines) restored(r record) record {
	if r.json {
		if l.objects++; l.restore != nil {
			r.body = l.restore(l.objects, r.body)
		}
	}
	return l.placed(r)
}

// placed is a record that knows whether it stands before the entries.
func (l *lines) placed(r record) record {
	r.first = !l.entries
	l.entries = l.entries || r.json && !r.heads()
	return r
}

// more reads on until the text has a size, in whole lines, or the file ends.
func (l *lines) more(size int) error {
	for len(l.text) < size && !l.eof {
		piece, err := l.r.ReadSlice('\n')
		l.text = append(l.text, piece...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if l.long = size == 1 && len(l.text) > giantLine; l.long {
				return nil
			}
			piece, err = l.r.ReadSlice('\n')
			l.text = append(l.text, piece...)
		}
		if errors.Is(err, io.EOF) {
			l.eof = true
		} else if err != nil {
			return fmt.Errorf("read at byte %d: %w", l.at+int64(len(l.text)), err)
		}
	}
	return nil
}

// hasObject tells whether there is one in the rest of a file.
func hasObject(text []byte) bool {
	for len(text) > 0 {
		eol := bytes.IndexByte(text, '\n')
		if eol < 0 {
			eol = len(text)
		}
		p, n, _ := sessions.Cut(text, eol)
		if p.Object {
			return true
		}
		text = text[n:]
	}
	return false
}

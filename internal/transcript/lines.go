package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"spool/internal/jsonscan"
)

// record is what becomes one entry: a line, or the lines of one pretty-printed object (SPEC S6).
type record struct {
	start int64  // offset of its first byte in the uncompressed file
	body  []byte // without the newline behind it; the record's own memory
	json  bool   // body is one JSON value
	open  bool   // the file ends before its newline
	torn  bool   // the file ends inside it; body is all that is left of the file
}

// maxObject is how far an object that begins with a lone brace is followed, in bytes.
const maxObject = 4 << 20

// lines reads a file record by record. A line may have any length.
type lines struct {
	r     *bufio.Reader
	at    int64    // offset behind what was read
	ahead []record // lines that were read for an object which was none
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 128<<10)} }

// next gives the next record; io.EOF behind the last.
func (l *lines) next() (record, error) {
	r, err := l.line()
	if err != nil {
		return record{}, err
	}
	r.json = jsonscan.Valid(r.body) == nil
	switch {
	case r.open:
		r.torn = !r.json
	case !r.json && string(bytes.TrimRight(r.body, " \t\r")) == "{":
		return l.object(r)
	}
	return r, nil
}

// line gives the next line, its JSON unchecked.
func (l *lines) line() (record, error) {
	if len(l.ahead) > 0 {
		r := l.ahead[0]
		l.ahead = l.ahead[1:]
		return r, nil
	}
	r := record{start: l.at}
	for {
		piece, err := l.r.ReadSlice('\n')
		r.body = append(r.body, piece...)
		l.at += int64(len(piece))
		switch {
		case err == nil:
			r.body = r.body[:len(r.body)-1]
			return r, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case !errors.Is(err, io.EOF):
			return record{}, fmt.Errorf("read at byte %d: %w", l.at, err)
		case len(r.body) == 0:
			return record{}, io.EOF
		}
		r.open = true
		return r, nil
	}
}

// object goes on from a line that is a lone brace: indented lines and a closing brace in the first column make one value.
// Anything else leaves the brace as a line of its own.
func (l *lines) object(first record) (record, error) {
	whole := first
	whole.body = bytes.Clone(first.body)
	var ahead []record
	for {
		r, err := l.line()
		if errors.Is(err, io.EOF) {
			whole.body, whole.torn = append(whole.body, '\n'), true
			return whole, nil
		}
		if err != nil {
			return record{}, err
		}
		ahead = append(ahead, r)
		whole.body = append(append(whole.body, '\n'), r.body...)
		whole.open = r.open
		closes := bytes.HasPrefix(r.body, []byte("}"))
		if closes && jsonscan.Valid(whole.body) == nil {
			whole.json = true
			return whole, nil
		}
		if closes || !bytes.HasPrefix(r.body, []byte(" ")) && !bytes.HasPrefix(r.body, []byte("\t")) || len(whole.body) > maxObject {
			l.ahead = append(ahead, l.ahead...)
			return first, nil
		}
		if r.open {
			whole.torn = true
			return whole, nil
		}
	}
}

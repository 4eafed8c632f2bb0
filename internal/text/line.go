package text

import (
	"bufio"
	"bytes"
	"io"
)

// LineReader reads the rest of one line, of any size. It ends at the newline, which it takes, or where In ends.
type LineReader struct {
	In    *bufio.Reader
	Found bool // the newline was there

	err error
}

func (l *LineReader) Read(p []byte) (int, error) {
	if l.err == nil && !l.Found {
		_, l.err = l.In.Peek(1)
	}
	if l.err != nil {
		return 0, l.err
	}
	if l.Found {
		return 0, io.EOF
	}
	piece, _ := l.In.Peek(min(l.In.Buffered(), len(p)))
	if i := bytes.IndexByte(piece, '\n'); i >= 0 {
		piece, l.Found = piece[:i], true
	}
	n := copy(p, piece)
	_, l.err = l.In.Discard(n)
	if l.Found && l.err == nil {
		_, l.err = l.In.Discard(1)
	}
	return n, l.err
}

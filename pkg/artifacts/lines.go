package artifacts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"spool/internal/family"
)

// Lines selects lines of a text: Limit of them from line Offset on, which counts from 1. The zero value selects all. A line
// goes up to its newline and has it, so that ranges that meet make up the text.
type Lines struct{ Offset, Limit int64 }

// ErrPastEnd: the text has fewer lines than the offset. A text has one line more than it has newlines.
var ErrPastEnd = family.Invalid.New("past the end")

func (l Lines) all() bool { return l == Lines{} }

func (l Lines) check() error {
	if l.Offset < 0 || l.Limit < 0 {
		return fmt.Errorf("%w: offset %d, limit %d: lines count from 1, and a limit is not negative", ErrURL, l.Offset, l.Limit)
	}
	return nil
}

// selected reads the lines of r that l selects. It passes over the lines before them at once, reads no further than the
// last, and holds one buffer however large the text and its lines are.
func (l Lines) selected(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	for passed := int64(0); passed < l.Offset-1; {
		_, err := b.ReadSlice('\n')
		switch {
		case err == nil:
			passed++
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: offset %d, but there are %d lines", ErrPastEnd, l.Offset, passed+1)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
	if l.Limit == 0 {
		return b, nil
	}
	return &lineReader{b, l.Limit}, nil
}

// lineReader ends after so many newlines.
type lineReader struct {
	r    io.Reader
	left int64
}

func (l *lineReader) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(p)
	for at := 0; at < n; {
		i := bytes.IndexByte(p[at:n], '\n')
		if i < 0 {
			break
		}
		at += i + 1
		if l.left--; l.left == 0 {
			return at, io.EOF
		}
	}
	return n, err
}

// Of selects lines of r. ErrPastEnd: it has fewer than the offset. A negative offset or limit is ErrURL.
func (l Lines) Of(r io.Reader) (io.Reader, error) {
	if err := l.check(); err != nil || l.all() {
		return r, err
	}
	return l.selected(r)
}

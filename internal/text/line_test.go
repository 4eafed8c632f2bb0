package text_test

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"spool/internal/text"
)

func TestLineReader(t *testing.T) {
	for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		in := bufio.NewReaderSize(wrap(strings.NewReader("one\n\n"+strings.Repeat("x", 5000)+"\nlast")), 16)
		for i, want := range []struct {
			text  string
			found bool
		}{{"one", true}, {"", true}, {strings.Repeat("x", 5000), true}, {"last", false}, {"", false}} {
			l := text.LineReader{In: in}
			got, err := io.ReadAll(&l)
			if err != nil || string(got) != want.text || l.Found != want.found {
				t.Errorf("line %d = %d bytes, newline %v, %v, want %d, %v", i, len(got), l.Found, err, len(want.text), want.found)
			}
		}
	}
	l := text.LineReader{In: bufio.NewReader(iotest.ErrReader(io.ErrNoProgress))}
	for range 2 {
		if _, err := l.Read(make([]byte, 10)); err != io.ErrNoProgress {
			t.Errorf("Read() = %v, want the error of the reader, and again", err)
		}
	}
}

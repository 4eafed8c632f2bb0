package jsonscan

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// windowSize is how much of a stream a Reader holds, in bytes.
const windowSize = 64 << 10

// Reader reads the tokens of a JSON text that need not fit into memory: it holds a window of 64 KiB, and even a single
// token may be larger. It checks what is inside tokens as Valid does; that they follow each other as they should is for
// the caller, who knows which may come and calls Unexpected for any other.
type Reader struct {
	src  io.Reader // nil: the window is the whole text, or its end
	buf  []byte
	i    int   // next byte in buf
	base int64 // offset of buf[0] in the text
	err  error // why src could not be read
}

// NewReader reads a stream.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 0, windowSize)} }

// NewTextReader reads a text in memory, without a copy. offset is the position that the first byte has for Offset.
func NewTextReader(text []byte, offset int64) *Reader { return &Reader{buf: text, base: offset} }

// Offset is the position of the next byte.
func (r *Reader) Offset() int64 { return r.base + int64(r.i) }

// fill reads on until the window has n bytes from r.i on, or the text ends. What was before r.i is gone then.
func (r *Reader) fill(n int) bool {
	for len(r.buf)-r.i < n {
		if r.src == nil {
			return false
		}
		if r.i > 0 && len(r.buf) == cap(r.buf) {
			r.buf, r.base, r.i = r.buf[:copy(r.buf, r.buf[r.i:])], r.base+int64(r.i), 0
		}
		got, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+got]
		if err != nil {
			r.src = nil
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
		}
	}
	return true
}

// Space skips white space and returns the byte after it without reading it; 0, which is no part of JSON, at the end.
func (r *Reader) Space() byte {
	for {
		r.i = SkipSpace(r.buf, r.i)
		if r.i < len(r.buf) {
			return r.buf[r.i]
		}
		if !r.fill(1) {
			return 0
		}
	}
}

// Skip reads the byte that Space returned.
func (r *Reader) Skip() { r.i++ }

// End tells that everything was read without an error.
func (r *Reader) End() bool { return r.i == len(r.buf) && !r.fill(1) && r.err == nil }

// Copy reads n bytes, whatever they are, and writes them to dst. A text that ends before is ErrSyntax.
func (r *Reader) Copy(dst io.Writer, n int64) error {
	for n > 0 {
		if r.i == len(r.buf) && !r.fill(1) {
			return r.Unexpected()
		}
		b := r.buf[r.i:]
		b = b[:min(n, int64(len(b)))]
		if _, err := dst.Write(b); err != nil {
			return err
		}
		r.i += len(b)
		n -= int64(len(b))
	}
	return nil
}

// Unexpected is the error for the next byte or the end of the text: ErrSyntax, unless the stream could not be read so far.
func (r *Reader) Unexpected() error {
	if r.err != nil {
		return fmt.Errorf("at byte %d: %w", r.Offset(), r.err)
	}
	return fmt.Errorf("%w at byte %d", ErrSyntax, r.Offset())
}

// TooDeep is the error for a bracket that opens a level below MaxDepth.
func (r *Reader) TooDeep() error { return fmt.Errorf("%w at byte %d", ErrDepth, r.Offset()) }

// Literal reads true, false or null.
func (r *Reader) Literal() error {
	word := "null"
	switch r.Space() {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	for k := range len(word) {
		if !r.fill(1) || r.buf[r.i] != word[k] {
			return r.Unexpected()
		}
		r.i++
	}
	return nil
}

// Number reads a number of any length. Its spelling is appended to dst as far as the capacity of dst allows.
func (r *Reader) Number(dst []byte) ([]byte, error) {
	next := func(set string) bool { // reads a byte of the set
		if !r.fill(1) {
			return false
		}
		for k := range len(set) {
			if c := r.buf[r.i]; c == set[k] {
				if len(dst) < cap(dst) {
					dst = append(dst, c)
				}
				r.i++
				return true
			}
		}
		return false
	}
	const digits = "0123456789"
	next("-")
	if !next("0") {
		if !next(digits[1:]) {
			return dst, r.Unexpected()
		}
		for next(digits) {
		}
	}
	if next(".") {
		if !next(digits) {
			return dst, r.Unexpected()
		}
		for next(digits) {
		}
	}
	if next("eE") {
		next("+-")
		if !next(digits) {
			return dst, r.Unexpected()
		}
		for next(digits) {
		}
	}
	return dst, nil
}

// Part is a piece of a string: an escape sequence, or a run of other characters, in which no UTF-8 sequence is torn. The
// zero Part is the end of the string.
type Part struct {
	Raw []byte // as it is spelled; valid until the next call of the Reader
	// Rune is what an escape sequence denotes, -1 for a run. A surrogate pair of escapes is one character; a lone surrogate
	// is itself (0xD800 to 0xDFFF).
	Rune rune
}

// Part reads on in a string whose opening quote was read. After the zero Part the closing quote has been read too.
func (r *Reader) Part() (Part, error) {
	for {
		end := stop(r.buf, r.i)
		if end == len(r.buf) && r.src != nil {
			end -= torn(r.buf[r.i:])
		}
		switch {
		case end > r.i:
			run := r.buf[r.i:end]
			r.i = end
			return Part{run, -1}, nil
		case r.i == len(r.buf) || r.buf[r.i] >= 0x20 && r.buf[r.i] != '"' && r.buf[r.i] != '\\': // nothing, or the beginning of a sequence
			if !r.fill(len(r.buf)-r.i+1) && r.i == len(r.buf) {
				return Part{}, r.Unexpected()
			}
		case r.buf[r.i] == '"':
			r.i++
			return Part{}, nil
		default:
			return r.escape()
		}
	}
}

// torn returns the length of the incomplete UTF-8 sequence at the end of b.
func torn(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// escape reads an escape sequence; a control character is an error here.
func (r *Reader) escape() (Part, error) {
	const pair = len(`\ud83c\udf4a`)
	if len(r.buf)-r.i < pair {
		r.fill(pair)
	}
	s := r.buf[r.i:]
	n := escapeLen(s)
	if s[0] != '\\' || n == 0 {
		return Part{}, r.Unexpected()
	}
	c := rune(unescaped[s[1]])
	if u, ok := hex4(s); ok {
		c = rune(u)
		if low, ok := hex4(s[n:]); ok && utf16.IsSurrogate(c) {
			if both := utf16.DecodeRune(c, rune(low)); both != utf8.RuneError {
				c, n = both, pair
			}
		}
	}
	r.i += n
	return Part{s[:n], c}, nil
}

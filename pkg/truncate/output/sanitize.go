package output

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxHeld is how many bytes an escape sequence may have; one that is longer was none.
const maxHeld = 64 << 10

const esc = 0x1B

// Sanitizer turns what a program writes to a terminal into text (SPEC O1): valid UTF-8 without ANSI escape sequences,
// control characters (C0 but tab and newline, DEL, C1) and lone surrogates (as WTF-8 spells them). CR LF and CR become a
// newline. Bytes that are no UTF-8 become U+FFFD, as a browser decodes them.
//
// It works on a stream: the result does not depend on where chunks begin and end. Of an escape sequence that never ends,
// is malformed or longer than 64 KiB only the escape character goes: what follows might be text. The zero value is ready.
type Sanitizer struct {
	// DropCR removes a CR as any other control character, instead of making a newline of it.
	DropCR bool

	cr    bool   // the last byte was a CR whose newline has not been written
	part  []byte // the beginning of a character
	state state
	held  []byte // the escape sequence so far
}

// state is where in an escape sequence (ECMA-48) a stream stands.
type state byte

const (
	inText         state = iota
	afterEscape          // ESC
	inIntermediate       // ESC, 2/0 to 2/15
	inControl            // ESC [
	inCommand            // ESC ]: ends with BEL or ESC \, and is one line
	inString             // ESC P, X, ^ or _: ends with ESC \
	endOfString          // ESC in one of the last two
	finished             // with this byte
	malformed            // before this byte
)

// Sanitize is a Sanitizer for a text that is all there.
func Sanitize(text []byte) []byte {
	var s Sanitizer
	return s.Flush(s.Append(make([]byte, 0, len(text)), text))
}

// Append appends the next chunk to dst, but for an end of which it depends on the next one what it is.
func (s *Sanitizer) Append(dst, chunk []byte) []byte {
	if len(s.part) > 0 {
		chunk = append(s.part, chunk...)
		s.part = nil
	}
	return s.append(dst, chunk, false)
}

// Flush appends what is left at the end of the stream. The Sanitizer is as new afterwards.
func (s *Sanitizer) Flush(dst []byte) []byte {
	part := s.part
	s.part = nil
	dst = s.append(dst, part, true)
	for s.state != inText { // what was held may hold the beginning of another sequence
		dst = s.release(dst, true)
	}
	return s.newline(dst)
}

func (s *Sanitizer) append(dst, b []byte, final bool) []byte {
	for i := 0; i < len(b); {
		if s.state != inText {
			dst, i = s.sequence(dst, b, i)
			if len(s.part) > 0 { // what was released ends in the middle of a character
				b, i, s.part = append(s.part, b[i:]...), 0, nil
			}
			continue
		}
		if s.cr {
			dst = s.newline(dst)
			if b[i] == '\n' {
				i++
				continue
			}
		}
		start := i
		for i < len(b) && printable[b[i]] {
			i++
		}
		dst = append(dst, b[start:i]...)
		if i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == esc:
			s.state, s.held = afterEscape, append(s.held[:0], c)
			i++
		case c < utf8.RuneSelf:
			s.cr = c == '\r' && !s.DropCR
			i++
		default:
			r, n := character(b[i:], final)
			if n == 0 {
				s.part = append([]byte(nil), b[i:]...)
				return dst
			}
			if r >= 0xA0 {
				dst = utf8.AppendRune(dst, r)
			}
			i += n
		}
	}
	return dst
}

func (s *Sanitizer) newline(dst []byte) []byte {
	if s.cr {
		dst = append(dst, '\n')
	}
	s.cr = false
	return dst
}

// printable are the bytes that are copied: ASCII that is no control character, tab and newline.
var printable = func() (p [256]bool) {
	for c := ' '; c < 0x7F; c++ {
		p[c] = true
	}
	p['\t'], p['\n'] = true, true
	return p
}()

// sequence reads on in an escape sequence at b[i].
func (s *Sanitizer) sequence(dst, b []byte, i int) ([]byte, int) {
	for ; i < len(b); i++ {
		switch s.state = s.next(b[i]); s.state {
		case finished:
			s.state = inText
			return dst, i + 1
		case malformed:
			return s.release(dst, false), i
		}
		s.held = append(s.held, b[i])
	}
	return dst, i
}

// release treats what was held as text, without its escape character.
func (s *Sanitizer) release(dst []byte, final bool) []byte {
	text := s.held[1:]
	s.state, s.held = inText, nil
	return s.append(dst, text, final)
}

func (s *Sanitizer) next(c byte) state {
	intermediate, last := c >= ' ' && c < '0', c >= '0' && c < 0x7F
	switch {
	case len(s.held) == maxHeld:
	case s.state == afterEscape && c == '[':
		return inControl
	case s.state == afterEscape && c == ']':
		return inCommand
	case s.state == afterEscape && (c == 'P' || c == 'X' || c == '^' || c == '_'):
		return inString
	case (s.state == afterEscape || s.state == inIntermediate) && intermediate:
		return inIntermediate
	case (s.state == afterEscape || s.state == inIntermediate) && last:
		return finished
	case s.state == inControl && (intermediate || c >= '0' && c < '@'):
		return inControl
	case s.state == inControl && last, s.state == inCommand && c == '\a', s.state == endOfString && c == '\\':
		return finished
	case (s.state == inCommand || s.state == inString) && c == esc:
		return endOfString
	case s.state == inCommand && c >= ' ', s.state == inString:
		return s.state
	}
	return malformed
}

// character reads the character that b begins with, a byte from 0x80 up. n is 0 if more bytes are needed to tell; final
// says that there are none. r is 0 for a lone surrogate, U+FFFD for bytes that are no UTF-8.
func character(b []byte, final bool) (r rune, n int) {
	if r, n := surrogates(b, final); n >= 0 {
		return r, n
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return r, n
	}
	for n := min(len(b), utf8.UTFMax-1); n > 0; n-- {
		if !utf8.FullRune(b[:n]) { // the longest beginning of a character
			if n == len(b) && !final {
				return 0, 0
			}
			return utf8.RuneError, n
		}
	}
	return utf8.RuneError, 1
}

// surrogates reads the surrogate that b begins with, or the character that a pair of them stands for; n is -1 if b begins
// with something else.
func surrogates(b []byte, final bool) (r rune, n int) {
	high, more := surrogate(b)
	if more && !final {
		return 0, 0
	}
	if high == 0 {
		return 0, -1
	}
	if high < 0xDC00 {
		low, more := surrogate(b[3:])
		if (more || len(b) == 3) && !final {
			return 0, 0
		}
		if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
			return pair, 6
		}
	}
	return 0, 3
}

// surrogate is the surrogate that b begins with, or 0; more tells that b is the beginning of one.
func surrogate(b []byte) (r rune, more bool) {
	switch {
	case len(b) == 0 || b[0] != 0xED || len(b) > 1 && b[1]&0xE0 != 0xA0 || len(b) > 2 && b[2]&0xC0 != 0x80:
		return 0, false
	case len(b) < 3:
		return 0, true
	}
	return 0xD000 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F), false
}

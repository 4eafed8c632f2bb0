package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// SkipSpace returns the index of the first byte of raw[i:] that is not JSON white space, at most len(raw).
func SkipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// SkipString returns the index after the string token that begins at raw[i], or -1 if there is no complete, valid one.
func SkipString(raw []byte, i int) int {
	if i >= len(raw) || raw[i] != '"' {
		return -1
	}
	end, ok := scanString(raw, i+1)
	if !ok {
		return -1
	}
	return end
}

// SkipValue returns the index after the value that begins at raw[i] (no white space there), or -1 if none ends inside
// raw. Assumes that Valid passed: brackets are counted, not matched, and scalars end at the next delimiter.
func SkipValue(raw []byte, i int) int {
	if i >= len(raw) {
		return -1
	}
	switch raw[i] {
	case '"':
		return skipBody(raw, i+1)
	case '{', '[':
		return skipBrackets(raw, i)
	}
	start := i
	for i < len(raw) && class[raw[i]] == plain {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// Byte classes outside strings.
const (
	plain = iota
	quote
	opening
	closing
	delimiter // white space, comma, colon
)

var class = [256]byte{
	'"': quote, '{': opening, '[': opening, '}': closing, ']': closing,
	',': delimiter, ':': delimiter, ' ': delimiter, '\n': delimiter, '\r': delimiter, '\t': delimiter,
}

func skipBrackets(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch class[raw[i]] {
		case quote:
			if i = skipBody(raw, i+1); i < 0 {
				return -1
			}
			continue
		case opening:
			depth++
		case closing:
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// skipBody skips a string body from raw[i], just after the opening quote, to behind the closing one, looking at nothing but
// quotes: one is part of the body when an odd number of backslashes stands before it. -1 when the string does not end.
func skipBody(raw []byte, i int) int {
	start := i
	for {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for i-1-slashes >= start && raw[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// scanString reads a string body from raw[i], just after the opening quote. It returns the index after the closing
// quote, or the index of the offending byte and false: a control character, a bad escape, or the end of raw.
func scanString(raw []byte, i int) (int, bool) {
	for {
		i = stop(raw, i)
		if i >= len(raw) {
			return len(raw), false
		}
		switch raw[i] {
		case '"':
			return i + 1, true
		case '\\':
			n := escapeLen(raw[i:])
			if n == 0 {
				return i, false
			}
			i += n
		default:
			return i, false
		}
	}
}

// stop returns the index of the first quote, backslash or control character in raw[i:], or len(raw). Eight bytes a step:
// in each sum the lowest byte that becomes negative without having been so is the first match.
func stop(raw []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(raw); i += 8 {
		w := binary.LittleEndian.Uint64(raw[i:])
		q, b := w^ones*'"', w^ones*'\\'
		hit := ((q-ones)&^q | (b-ones)&^b | (w-ones*0x20)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(raw); i++ {
		if c := raw[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// escapeLen returns the length of the escape sequence that begins with the backslash at s[0]: 2, 6, or 0 if it is none.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// hex4 returns the code unit of the escape `\uXXXX` at the beginning of s.
func hex4(s []byte) (uint16, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var u uint16
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | uint16(c)
	}
	return u, true
}

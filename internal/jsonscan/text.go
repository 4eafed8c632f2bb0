package jsonscan

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text unescapes a string token. Lone surrogates and invalid UTF-8 become U+FFFD, so the result is valid UTF-8. It
// returns false for anything that is not exactly one string token.
func Text(raw []byte) (string, bool) {
	body, ok := body(raw)
	if !ok {
		return "", false
	}
	if bytes.IndexByte(body, '\\') < 0 && utf8.Valid(body) {
		return string(body), true
	}
	return string(appendText(make([]byte, 0, len(body)), body)), true
}

// Int returns the value of a number that is an integer, however it is spelled (5, 5.0, 5e0): exact for plain integers in
// the range of int64, and for other spellings up to 2^53.
func Int(raw []byte) (int64, bool) {
	raw = trim(raw)
	if KindOf(raw) != KindNumber {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || !bytes.ContainsAny(raw, ".eE") {
		return 0, false
	}
	return int64(f), true
}

// Bool returns the value of true or false; ok is false for anything else.
func Bool(raw []byte) (value, ok bool) {
	raw = trim(raw)
	return string(raw) == "true", string(raw) == "true" || string(raw) == "false"
}

// Prefix unescapes at most the first maxRunes characters of a string token; more tells that characters remain. It reads
// no further than it has to. What is not a string gives "".
func Prefix(raw []byte, maxRunes int) (text string, more bool) {
	rest, ok := opened(raw)
	if !ok {
		return "", false
	}
	var out []byte
	for ; len(rest) > 0 && rest[0] != '"'; maxRunes-- {
		if maxRunes <= 0 {
			return string(out), true
		}
		r, n := Rune(rest)
		if n == 0 {
			break
		}
		out = utf8.AppendRune(out, r)
		rest = rest[n:]
	}
	return string(out), false
}

// Lines counts the newline characters a string token denotes, without unescaping it: "" and "a" have 0, "a\nb\n" has 2.
func Lines(raw []byte) int {
	rest, ok := opened(raw)
	if !ok {
		return 0
	}
	lines := 0
	for {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return lines
		}
		rest = rest[i:]
		if u, ok := hex4(rest); rest[1] == 'n' || ok && u == '\n' {
			lines++
		}
		rest = rest[2:]
	}
}

// FirstLine returns the first line of a string token that has anything but white space, without the white space around
// it, cut back to a character boundary at maxBytes bytes of UTF-8. It reads no further than it has to.
func FirstLine(raw []byte, maxBytes int) string {
	rest, ok := opened(raw)
	if !ok {
		return ""
	}
	var out []byte
	for len(rest) > 0 && rest[0] != '"' {
		r, n := Rune(rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
		if r == '\n' || r == '\r' {
			if out = bytes.TrimSpace(out); len(out) > 0 {
				break
			}
			continue
		}
		if len(out) == 0 && (r == ' ' || r == '\t') {
			continue
		}
		if len(out)+utf8.RuneLen(r) > maxBytes {
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(bytes.TrimSpace(out))
}

// Rune decodes the first character of a string body: an escape sequence (a surrogate pair of escapes is one character),
// a UTF-8 sequence, or a single invalid byte. n is the length of its spelling, 0 if s is empty or begins with a broken
// escape. Lone surrogates and invalid bytes are U+FFFD. It knows nothing of the closing quote: stop there.
func Rune(s []byte) (r rune, n int) {
	if len(s) == 0 {
		return utf8.RuneError, 0
	}
	if s[0] != '\\' {
		if s[0] < utf8.RuneSelf {
			return rune(s[0]), 1
		}
		return utf8.DecodeRune(s)
	}
	n = escapeLen(s)
	if n != 6 {
		if n == 0 {
			return utf8.RuneError, 0
		}
		return rune(unescaped[s[1]]), n
	}
	u, _ := hex4(s)
	r = rune(u)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(s[6:]); ok {
		if pair := utf16.DecodeRune(r, rune(low)); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendText appends what the string body s denotes, as valid UTF-8.
func appendText(dst, s []byte) []byte {
	for len(s) > 0 {
		i := 0
		for i < len(s) && s[i] < utf8.RuneSelf && s[i] != '\\' {
			i++
		}
		dst, s = append(dst, s[:i]...), s[i:]
		if len(s) == 0 {
			break
		}
		r, n := Rune(s)
		if n == 0 {
			r, n = utf8.RuneError, 1
		}
		dst, s = utf8.AppendRune(dst, r), s[n:]
	}
	return dst
}

// appendUnescaped appends what the string body s denotes, bytes that are not UTF-8 kept as they are.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst, s = append(dst, s[:i]...), s[i:]
		r, n := Rune(s)
		if n == 0 {
			r, n = utf8.RuneError, 1
		}
		dst, s = utf8.AppendRune(dst, r), s[n:]
	}
}

// body returns what stands between the quotes of a string token that fills raw.
func body(raw []byte) ([]byte, bool) {
	raw = trim(raw)
	if len(raw) == 0 || SkipString(raw, 0) != len(raw) {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// opened returns what follows the opening quote.
func opened(raw []byte) ([]byte, bool) {
	i := SkipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '"' {
		return nil, false
	}
	return raw[i+1:], true
}

func trim(raw []byte) []byte {
	raw = raw[SkipSpace(raw, 0):]
	for len(raw) > 0 && class[raw[len(raw)-1]] == delimiter && raw[len(raw)-1] != ',' && raw[len(raw)-1] != ':' {
		raw = raw[:len(raw)-1]
	}
	return raw
}

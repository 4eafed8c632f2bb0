package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeJSON decodes JSON as the oracle's JavaScript sees it, to nil, bool, json.Number, string, []any and map[string]any.
//
// A lone surrogate stays what it is, as the three bytes that UTF-8 would give it (WTF-8); bytes that are not UTF-8 become
// U+FFFD as in the WHATWG decoder. Of duplicate keys the last counts. Numbers are equal when their float64 values are:
// 1, 1.0 and 1e0 all become "1".
func decodeJSON(b []byte) (any, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if !json.Valid(b) {
		var any any
		if err := json.Unmarshal(b, &any); err != nil {
			return nil, err
		}
		return nil, errors.New("invalid JSON")
	}
	d := jsonDecoder{rest: b}
	return d.value(), nil
}

// mustJSON is decodeJSON for text that this package wrote or has decoded before.
func mustJSON(b []byte) any {
	v, err := decodeJSON(b)
	if err != nil {
		panic(fmt.Sprintf("decode %.80q: %v", b, err))
	}
	return v
}

// readJSON decodes a file of vectors, gzipped or not.
func readJSON(name string) (any, error) {
	b, err := readFile(name)
	if err != nil {
		return nil, err
	}
	v, err := decodeJSON(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// jsonDecoder walks text that json.Valid accepted.
type jsonDecoder struct{ rest []byte }

func (d *jsonDecoder) value() any {
	switch d.next() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.string()
	case 't':
		d.rest = d.rest[len("true"):]
		return true
	case 'f':
		d.rest = d.rest[len("false"):]
		return false
	case 'n':
		d.rest = d.rest[len("null"):]
		return nil
	}
	return d.number()
}

// next skips white space and separators.
func (d *jsonDecoder) next() byte {
	d.rest = bytes.TrimLeft(d.rest, " \t\r\n,:")
	return d.rest[0]
}

func (d *jsonDecoder) object() map[string]any {
	d.rest = d.rest[1:]
	m := map[string]any{}
	for d.next() != '}' {
		key := d.string()
		m[key] = d.value()
	}
	d.rest = d.rest[1:]
	return m
}

func (d *jsonDecoder) array() []any {
	d.rest = d.rest[1:]
	a := []any{}
	for d.next() != ']' {
		a = append(a, d.value())
	}
	d.rest = d.rest[1:]
	return a
}

func (d *jsonDecoder) number() any {
	end := bytes.IndexFunc(d.rest, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if end < 0 {
		end = len(d.rest)
	}
	f, _ := strconv.ParseFloat(string(d.rest[:end]), 64)
	d.rest = d.rest[end:]
	switch {
	case f == 0:
		return json.Number("0")
	case math.Abs(f) < 1e21:
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

func (d *jsonDecoder) string() string {
	s := d.rest[1:]
	var out []byte
	for s[0] != '"' {
		switch {
		case s[0] != '\\' && s[0] < utf8.RuneSelf:
			out, s = append(out, s[0]), s[1:]
		case s[0] != '\\':
			n := whatwgLen(s)
			if utf8.Valid(s[:n]) {
				out = append(out, s[:n]...)
			} else {
				out = append(out, "\uFFFD"...)
			}
			s = s[n:]
		case s[1] == 'u':
			var n int
			out, n = appendUnicode(out, s)
			s = s[n:]
		default:
			out = append(out, unescapes[strings.IndexByte(escapes, s[1])])
			s = s[2:]
		}
	}
	d.rest = s[1:]
	return string(out)
}

const (
	escapes   = `"\/bfnrt`
	unescapes = "\"\\/\b\f\n\r\t"
)

// appendUnicode appends what one \u escape, or a pair of them, stands for, and returns the length of its spelling.
func appendUnicode(dst, s []byte) ([]byte, int) {
	u := hexUnit(s)
	if pair := utf16.DecodeRune(u, hexUnit(s[6:])); pair != utf8.RuneError {
		return utf8.AppendRune(dst, pair), 12
	}
	return appendUnit(dst, u), 6
}

// appendUnit appends a character, or a lone surrogate as WTF-8 does.
func appendUnit(dst []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
}

// hexUnit is the value of the \uXXXX that s begins with, or -1.
func hexUnit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	u, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(u)
}

// whatwgLen is the length of the character that s begins with, or of the bytes that one U+FFFD stands for: the longest
// beginning of a character, at least one byte.
func whatwgLen(s []byte) int {
	r, n := utf8.DecodeRune(s)
	if r != utf8.RuneError || n > 1 {
		return n
	}
	for _, tail := range []string{"\x80", "\x80\x80"} {
		for n = min(3, len(s)); n > 1; n-- {
			if utf8.Valid(append(slices.Clone(s[:n]), tail...)) && utf8.RuneCount(append(slices.Clone(s[:n]), tail...)) == 1 {
				return n
			}
		}
	}
	return 1
}

// encodeJSON is the inverse of decodeJSON: keys sorted, lone surrogates as escapes.
func encodeJSON(v any) []byte { return appendJSON(nil, v) }

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendJSONString(dst, k), ':')
			dst = appendJSON(dst, v[k])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case string:
		return appendJSONString(dst, v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return append(dst, b...)
}

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 && len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0:
			dst = fmt.Appendf(dst, `\u%04x`, 0xD000|rune(s[1]&0x3F)<<6|rune(s[2]&0x3F))
			n = 3
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return append(dst, '"')
}

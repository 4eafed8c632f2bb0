package sessions

import (
	"bytes"
	"strings"

	"spool/internal/jsonscan"
)

var (
	bom     = []byte("\xef\xbb\xbf")
	newline = []byte("\n")
)

// space is JSON's white space. Other characters that look blank, NUL above all, are content.
const space = " \t\r\n"

// scan cuts a file into JSON objects and the stretches between them that are none, until f returns false (SPEC S6). Both
// come without white space around them, and a stretch ends with its line. line counts from 1.
//
// An object may span lines, and one may follow another on the same line. A record that was torn by a crash has its
// successor right behind it: there only whole entries count, which reach to the end of the line or to the next object.
func scan(text []byte, f func(line int, raw []byte, object bool) bool) {
	text = bytes.TrimPrefix(text, bom)
	eol := -1 // of the line that the rest begins in
	for line, at := 1, 0; at < len(text); {
		if eol < at {
			if eol = bytes.IndexByte(text[at:], '\n') + at; eol < at {
				eol = len(text)
			}
		}
		rest, raw := text[at:], bytes.Trim(text[at:eol], space)
		length, ok := min(eol+1, len(text))-at, true
		switch start, end := 0, 0; {
		case len(raw) == 0:
		case isObject(raw):
			ok = f(line, raw, true)
		case leading(rest, eol-at, &start, &end):
			ok, length = f(line, rest[start:end], true), end
		case fused(rest[:eol-at], &start, &end):
			ok, length = f(line, bytes.Trim(rest[:start], space), false) && f(line, rest[start:end], true), end
		default:
			ok = f(line, raw, false)
		}
		if !ok {
			return
		}
		line += bytes.Count(rest[:length], newline)
		at += length
	}
}

func isObject(raw []byte) bool {
	return jsonscan.KindOf(raw) == jsonscan.KindObject && jsonscan.Valid(raw) == nil
}

// leading finds the object that a text begins with, whose first line is of some length: one that reaches into other lines,
// one that is followed by nothing or by another on its line, or an entry.
func leading(text []byte, line int, start, end *int) bool {
	*start = jsonscan.SkipSpace(text, 0)
	if *start >= line || text[*start] != '{' {
		return false
	}
	*end = closing(text, *start)
	if *end < 0 || !isObject(text[*start:*end]) {
		return false
	}
	return *end > line || continues(text[*end:line]) || isEntry(text[*start:*end])
}

// fused finds the first whole entry behind a torn one.
func fused(line []byte, start, end *int) bool {
	for i := jsonscan.SkipSpace(line, 0) + 1; ; {
		at := bytes.IndexByte(line[min(i, len(line)):], '{')
		if at < 0 {
			return false
		}
		i += at
		if key := jsonscan.SkipSpace(line, i+1); key >= len(line) || line[key] != '"' {
			i++
			continue
		}
		to := closing(line, i)
		if to < 0 || !isObject(line[i:to]) {
			i++
			continue
		}
		if isEntry(line[i:to]) && continues(line[to:]) {
			*start, *end = i, to
			return true
		}
		i = to
	}
}

// continues tells that nothing follows on a line, or another object.
func continues(rest []byte) bool {
	i := jsonscan.SkipSpace(rest, 0)
	return i == len(rest) || rest[i] == '{'
}

// isEntry tells records of a session from the objects inside them: those have no timestamp in text beside their type.
func isEntry(object []byte) bool {
	return jsonscan.KindOf(jsonscan.Get(object, "type")) == jsonscan.KindString &&
		jsonscan.KindOf(jsonscan.Get(object, "timestamp")) == jsonscan.KindString
}

// closing is the index after the object that begins at s[i], or -1. It gives up where no JSON goes on: at a string that
// leaves its line, at a value right after another, at jsonscan.MaxDepth. So a torn record costs no look at the whole file.
func closing(s []byte, i int) int {
	depth, last := 0, byte(',')
	for ; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"', '{', '[':
			if strings.IndexByte("{[,:", last) < 0 {
				return -1
			}
			if c == '"' {
				end := jsonscan.SkipString(s, i)
				if end < 0 {
					return -1
				}
				i = end - 1
			} else if depth++; depth > jsonscan.MaxDepth {
				return -1
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		last = s[i]
	}
	return -1
}

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

// Piece is a stretch of a session file without the white space around it: a JSON object, or something that is none. Of a
// blank line it is empty.
type Piece struct {
	Start, End int // in the text
	Object     bool
}

// scan cuts a file into pieces, until f returns false (SPEC S6). line counts from 1.
func scan(text []byte, f func(line int, raw []byte, object bool) bool) {
	text = bytes.TrimPrefix(text, bom)
	eol := -1 // of the line that the rest begins in
	for line, at := 1, 0; at < len(text); {
		if eol < at {
			if eol = bytes.IndexByte(text[at:], '\n') + at; eol < at {
				eol = len(text)
			}
		}
		p, n, _ := Cut(text[at:], eol-at)
		if p.End > p.Start && !f(line, text[at+p.Start:at+p.End], p.Object) {
			return
		}
		line += bytes.Count(text[at:at+n], newline)
		at += n
	}
}

// Cut finds the first piece of a text that begins with a line, or with the rest of one behind a piece (SPEC S6). eol is the
// end of that line, without its newline. n is how many bytes the piece takes, with white space around it.
//
// An object may span lines, and one may follow another on the same line. A record that was torn by a crash has its
// successor right behind it: there only whole entries count, which reach to the end of the line or to the next object.
//
// open tells that the text ends inside an object: if it goes on, the piece may be another one.
func Cut(text []byte, eol int) (p Piece, n int, open bool) {
	raw := bytes.TrimLeft(text[:eol], space)
	p.Start = eol - len(raw)
	raw = bytes.TrimRight(raw, space)
	p.End = p.Start + len(raw)
	n = min(eol+1, len(text))
	if len(raw) == 0 {
		return p, n, false
	}
	if isObject(raw) {
		p.Object = true
		return p, n, false
	}
	start, end := 0, 0
	if raw[0] == '{' {
		if end = closing(text, p.Start); end >= 0 && isLeading(text[p.Start:end], text[end:max(end, eol)]) {
			return Piece{p.Start, end, true}, end, false
		}
		open = end == unfinished
	}
	if fused(text[:eol], &start, &end) {
		return Piece{p.Start, len(bytes.TrimRight(text[:start], space)), false}, start, open
	}
	return p, n, open
}

func isObject(raw []byte) bool {
	return jsonscan.KindOf(raw) == jsonscan.KindObject && jsonscan.Valid(raw) == nil
}

// isLeading tells whether what a text begins with is an object: one that reaches into other lines, so that nothing is left
// of the first, one that is followed by nothing or by another on its line, or an entry.
func isLeading(object, rest []byte) bool {
	return isObject(object) && (continues(rest) || isEntry(object))
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

// unfinished is what closing returns for a text that ends inside the object.
const unfinished = -2

// closing is the index after the object that begins at s[i], or below 0. It gives up where no JSON goes on: at a string that
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
					if bytes.IndexByte(s[i:], '\n') < 0 {
						return unfinished
					}
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
	return unfinished
}

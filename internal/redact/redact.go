// Package redact finds secrets in text by rules that are data, and takes them out before anything is hashed or stored.
//
// Rules have the form of gitleaks' configuration (rules.go). What is searched is the text as its author wrote it: in JSON, with
// the escapes of strings undone. What is replaced is only what stands inside of strings, so JSON stays JSON, and the same bytes
// under the same rules always become the same bytes: entries that come twice still are the same.
package redact

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// Redactor applies rules. It is safe for concurrent use.
type Redactor struct {
	rules *Rules
	mask  bool
}

// New makes a redactor. Without mask it only counts.
func New(rules *Rules, mask bool) *Redactor { return &Redactor{rules, mask} }

// Mark begins what stands in the place of a secret: [redacted:<rule>].
const Mark = "[redacted:"

// Hides reports whether clean can be what Clean made of a text, by whatever rules: it is the text but for what its marks
// stand for, which in JSON is a part of one string. What was changed right beside a secret is taken for a part of it.
func Hides(clean, text []byte, json bool) bool {
	before, rest, ok := bytes.Cut(clean, []byte(Mark))
	if !ok || !bytes.HasPrefix(text, before) {
		return false
	}
	text = text[len(before):]
	for {
		_, after, ok := bytes.Cut(rest, []byte("]"))
		if !ok {
			return false
		}
		next, behind, more := bytes.Cut(after, []byte(Mark))
		at := len(text) - len(next)
		if more {
			at = bytes.Index(text, next)
		}
		if at < 0 || !bytes.HasPrefix(text[at:], next) || json && ends(text[:at]) {
			return false
		}
		if text, rest = text[at+len(next):], behind; !more {
			return true
		}
	}
}

// ends reports whether a string of JSON ends in a part of it.
func ends(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return true
		case '\\':
			i++
		}
	}
	return false
}

// Blanks reports whether blank can be what Blank made of a text, by whatever rules.
func Blanks(blank, text []byte) bool {
	if len(blank) != len(text) {
		return false
	}
	for i, b := range blank {
		if b != text[i] && b != '*' {
			return false
		}
	}
	return true
}

// Clean gives text without its secrets, each replaced by [redacted:<rule>], and how many it found. Text without any is
// returned as it is; otherwise it is copied.
func (r *Redactor) Clean(text []byte, json bool) ([]byte, int) {
	w := window{json: json}
	found := w.find(r, text, true)
	if !r.mask || len(found) == 0 {
		return text, len(found)
	}
	out, _, _ := w.edit(r, nil, text, found, len(text), named)
	return out, len(found)
}

// Blank gives text with "*" for every byte of a secret: its length stays, so places behind it do.
func (r *Redactor) Blank(text []byte) ([]byte, int) {
	var w window
	found := w.find(r, text, true)
	if !r.mask || len(found) == 0 {
		return text, len(found)
	}
	out, _, _ := w.edit(r, nil, text, found, len(text), blank)
	return out, len(found)
}

// Reader is Clean for text that does not fit into memory. A secret of more than 64 KiB is found only up to there. found, if
// not nil, is counted up.
func (r *Redactor) Reader(src io.Reader, json bool, found *int) io.Reader {
	if found == nil {
		found = new(int)
	}
	return &reader{r: r, src: src, w: window{json: json}, found: found}
}

// finding is a secret at a place of the text with its escapes undone.
type finding struct {
	from, to int
	rule     int
}

// window is where in a text its next bytes stand.
type window struct {
	json bool
	in   bool   // of a string
	tail []byte // what was before, for rules that look there
	text []byte // of the last find: tail, then the bytes with their escapes undone
}

// find looks for secrets in raw, which goes on where the window stands. final: nothing comes behind it.
func (w *window) find(r *Redactor, raw []byte, final bool) []finding {
	w.text = append(w.text[:0], w.tail...)
	for i, in := 0, w.in; i < len(raw); {
		if n := w.run(raw[i:], in); n > 0 {
			w.text = append(w.text, raw[i:i+n]...)
			i += n
			continue
		}
		n, inside, ok := w.step(raw, i, &in)
		if !ok && !final {
			break
		}
		w.text = appendPlain(w.text, raw[i:i+n], inside)
		i += n
	}
	straighten(w.text[len(w.tail):])
	found := r.rules.findDense(w.text)
	keep := found[:0]
	for _, f := range found {
		if f.from = max(f.from, len(w.tail)); f.to > f.from {
			keep = append(keep, f)
		}
	}
	return keep
}

// straighten writes spaces over what a text has around its words and rules need not know: colours of a terminal, marks
// and numbers of lines in diffs and listings, and escapes of a string in a string; zeros where there is nothing. Its
// length stays.
func straighten(text []byte) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case 0x1b:
			if n := len(colour.Find(text[i:min(len(text), i+24)])); n > 0 {
				fill(text[i : i+n])
			}
		case '\\':
			i = unescape(text, i)
			if text[i] == 0x1b || text[i] == '\n' {
				i--
			}
		case '\n':
			if rest := text[i+1 : min(len(text), i+16)]; len(rest) > 0 && (rest[0] <= '9' || rest[0] == '|') {
				if m := lineMark.FindSubmatchIndex(rest); m != nil {
					fill(rest[max(m[2], m[4]):max(m[3], m[5])])
				}
			}
		}
	}
}

var (
	colour   = regexp.MustCompile(`^\x1b\[[0-9;?]*[a-zA-Z]`)
	lineMark = regexp.MustCompile(`^(?:([+-])(?:[^+-]|$)|([ \t]*[0-9]{1,6}(?:\t|→|:|\|)|[|>] ))`)
)

func fill(text []byte) {
	for i := range text {
		text[i] = ' '
	}
}

// unescape puts what an escape stands for, with any number of backslashes, at its end. It returns where that is.
func unescape(text []byte, at int) int {
	n := at
	for n < len(text) && text[n] == '\\' {
		n++
	}
	if n == len(text) {
		return n - 1
	}
	c := text[n]
	switch c {
	case 'n':
		c = '\n'
	case 'r', 't':
		c = ' '
	case 'u':
		if m := asciiEscape.Find(text[n:min(len(text), n+5)]); m == nil {
			return n
		} else if v, err := strconv.ParseUint(string(m[1:]), 16, 8); err == nil {
			n, c = n+4, byte(v)
			clear(text[at:n])
			text[n] = c
			return n
		}
	default:
		return n - 1
	}
	fill(text[at:n])
	text[n] = c
	return n
}

var asciiEscape = regexp.MustCompile(`^u00(?:1[bB]|[2-6][0-9a-fA-F]|7[0-9a-eA-E])`)

// mask is what a secret becomes.
type mask uint8

const (
	none  mask = iota // itself
	named             // [redacted:<rule>]
	blank             // as many "*"
)

// edit appends raw to dst with the findings masked, up to a byte and the end of the finding there, and moves the window behind
// it. taken is how much of raw that is, passed how many findings.
func (w *window) edit(r *Redactor, dst, raw []byte, found []finding, limit int, how mask) (
	out []byte, taken, passed int,
) {
	all := len(found)
	if all == 0 && limit == len(raw) {
		w.tail = w.tail[:0] // nothing comes behind it
		return append(dst, raw...), len(raw), 0
	}
	at, masked := len(w.tail), false // at: place in w.text; masked: the secret's mask is written
	var plain [utf8.UTFMax]byte
	for taken < len(raw) && at < len(w.text) {
		for len(found) > 0 && found[0].to <= at {
			found, masked = found[1:], false
		}
		secret := len(found) > 0 && found[0].from <= at
		if taken >= limit && !secret {
			break
		}
		n, inside, _ := w.step(raw, taken, &w.in)
		switch {
		case !secret || w.json && !inside || how == none:
			dst, masked = append(dst, raw[taken:taken+n]...), false
		case how == blank:
			for range n {
				dst = append(dst, '*')
			}
		case !masked:
			dst, masked = append(append(append(dst, Mark...), r.rules.rules[found[0].rule].id...), ']'), true
		}
		at += len(appendPlain(plain[:0], raw[taken:taken+n], inside))
		taken += n
	}
	for len(found) > 0 && found[0].to <= at {
		found = found[1:]
	}
	w.tail = append(w.tail[:0], w.text[max(0, at-tailBytes):at]...)
	return dst, taken, all - len(found)
}

// run is how many bytes at the begin of raw stand for themselves, and neither begin nor end a string.
func (w *window) run(raw []byte, in bool) int {
	if !w.json {
		return len(raw)
	}
	if n := 0; in {
		for n < len(raw) && raw[n] != '"' && raw[n] != '\\' {
			n++
		}
		return n
	}
	if n := bytes.IndexByte(raw, '"'); n >= 0 {
		return n
	}
	return len(raw)
}

// step is the length of what stands at raw[i]: a byte, or an escape in a string; whether it is inside of a string; and whether
// all of it is there.
func (w *window) step(raw []byte, i int, in *bool) (n int, inside, ok bool) {
	switch {
	case !w.json:
		return 1, false, true
	case raw[i] == '"':
		*in = !*in
		return 1, false, true
	case !*in || raw[i] != '\\':
		return 1, *in, true
	}
	n = 2
	if i+1 < len(raw) && raw[i+1] == 'u' {
		n = 6
	}
	if i+n > len(raw) {
		return len(raw) - i, true, false
	}
	return n, true, true
}

// appendPlain appends what a step stands for. Halves of surrogate pairs, which are in no secret, become "?".
func appendPlain(dst, raw []byte, inside bool) []byte {
	if !inside || len(raw) == 1 || raw[0] != '\\' {
		return append(dst, raw...)
	}
	switch c := raw[1]; c {
	case 'b', 'f':
		return append(dst, ' ')
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'u':
		var r rune
		for _, c := range raw[2:] {
			switch {
			case c >= '0' && c <= '9':
				c -= '0'
			case c|0x20 >= 'a' && c|0x20 <= 'f':
				c = c | 0x20 - 'a' + 10
			default:
				return append(dst, '?')
			}
			r = r<<4 | rune(c)
		}
		if !utf8.ValidRune(r) {
			return append(dst, '?')
		}
		return utf8.AppendRune(dst, r)
	default:
		return append(dst, c)
	}
}

const (
	windowBytes = 1 << 20  // that are searched at a time
	aheadBytes  = 64 << 10 // behind them, where a secret may end
	tailBytes   = 256      // before them, where what makes it one may begin
)

type reader struct {
	r     *Redactor
	src   io.Reader
	w     window
	raw   []byte // read, and not given yet
	buf   []byte
	out   []byte // of buf: to be given
	found *int
	eof   bool
	err   error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		r.err = r.next()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, r.err
}

func (r *reader) next() error {
	if r.eof && len(r.raw) == 0 {
		return io.EOF
	}
	for !r.eof && len(r.raw) < windowBytes+aheadBytes {
		if r.raw == nil {
			r.raw = make([]byte, 0, windowBytes+aheadBytes)
		}
		n, err := r.src.Read(r.raw[len(r.raw):cap(r.raw)])
		r.raw = r.raw[:len(r.raw)+n]
		if err == io.EOF {
			r.eof = true
		} else if err != nil {
			return err
		}
	}
	limit := len(r.raw)
	if !r.eof {
		limit -= aheadBytes
	}
	how := none
	if r.r.mask {
		how = named
	}
	var taken, passed int
	r.buf, taken, passed = r.w.edit(r.r, r.buf[:0], r.raw, r.w.find(r.r, r.raw, r.eof), limit, how)
	*r.found += passed
	r.out = r.buf
	r.raw = r.raw[:copy(r.raw, r.raw[taken:])]
	return nil
}

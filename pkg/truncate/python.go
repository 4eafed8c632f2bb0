package truncate

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"spool/internal/jsonscan"
)

// PythonLen returns len(json.dumps(json.loads(raw))) as Python prints it (SPEC I4): ASCII only, ", " and ": " as
// separators, floats as repr, escapes counted as what Python would print for the same character, of duplicate keys the
// last. A byte that is not UTF-8 counts as U+FFFD. It returns -1 for text that is not JSON.
func PythonLen(raw []byte) int {
	if jsonscan.Valid(raw) != nil {
		return -1
	}
	m := meter{raw: raw}
	length, _ := m.value(jsonscan.SkipSpace(raw, 0))
	return length
}

// meter measures a valid text.
type meter struct{ raw []byte }

// value returns the printed length of the value at raw[i] and the index after it.
func (m meter) value(i int) (length, end int) {
	switch m.raw[i] {
	case '{':
		return m.object(i)
	case '[':
		return m.array(i)
	}
	end = jsonscan.SkipValue(m.raw, i)
	token := m.raw[i:end]
	switch token[0] {
	case '"':
		return 2 + pythonString(token[1:len(token)-1]), end
	case 't', 'f', 'n':
		return len(token), end
	}
	return pythonNumber(string(token)), end
}

func (m meter) array(i int) (length, end int) {
	length = len("[]")
	i = jsonscan.SkipSpace(m.raw, i+1)
	for m.raw[i] != ']' {
		n, end := m.value(i)
		length += n
		if i = jsonscan.SkipSpace(m.raw, end); m.raw[i] == ',' {
			length += len(", ")
			i = jsonscan.SkipSpace(m.raw, i+1)
		}
	}
	return length, i + 1
}

func (m meter) object(i int) (length, end int) {
	length = len("{}")
	var seen members
	i = jsonscan.SkipSpace(m.raw, i+1)
	for m.raw[i] != '}' {
		end := jsonscan.SkipString(m.raw, i)
		key := m.raw[i+1 : end-1]
		n, end := m.value(jsonscan.SkipSpace(m.raw, jsonscan.SkipSpace(m.raw, end)+1))
		if old, again := seen.put(key, n); again {
			length += n - old
		} else {
			length += len(`"": , `) + pythonString(key) + n
		}
		if i = jsonscan.SkipSpace(m.raw, end); m.raw[i] == ',' {
			i = jsonscan.SkipSpace(m.raw, i+1)
		}
	}
	if length > len("{}") {
		length -= len(", ")
	}
	return length, i + 1
}

// members holds the printed length of each value of an object, to find duplicate keys: a few in a list, more in a map.
type members struct {
	keys    []string
	lengths []int
	index   map[string]int
}

const fewMembers = 16

// put notes that the value under key has n bytes, and returns what was noted before.
func (s *members) put(key []byte, n int) (old int, again bool) {
	name := string(key)
	if bytes.IndexByte(key, '\\') >= 0 || !utf8.Valid(key) {
		name = pythonSpelling(key)
	}
	at := -1
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			at = i
		}
	} else {
		for i, k := range s.keys {
			if k == name {
				at = i
			}
		}
	}
	if at >= 0 {
		old, s.lengths[at] = s.lengths[at], n
		return old, true
	}
	s.keys, s.lengths = append(s.keys, name), append(s.lengths, n)
	if s.index == nil && len(s.keys) > fewMembers {
		s.index = make(map[string]int, 2*len(s.keys))
		for i, k := range s.keys {
			s.index[k] = i
		}
	} else if s.index != nil {
		s.index[name] = len(s.keys) - 1
	}
	return 0, false
}

// pythonSpelling makes keys that denote the same characters the same: unescaped, lone surrogates as three bytes.
func pythonSpelling(body []byte) string {
	var out []byte
	for len(body) > 0 {
		r, n := jsonscan.Rune(body)
		if r == utf8.RuneError && n == len(`\ud800`) {
			u, _ := strconv.ParseUint(string(body[2:6]), 16, 16)
			out = append(out, 0xE0|byte(u>>12), 0x80|byte(u>>6&0x3F), 0x80|byte(u&0x3F))
		} else {
			out = utf8.AppendRune(out, r)
		}
		body = body[max(n, 1):]
	}
	return string(out)
}

// printed is the length of what Python prints for a byte of valid UTF-8: the lead byte stands for its whole sequence.
var printed = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
			t[c] = 2
		case c < 0x20 || c == 0x7F:
			t[c] = 6
		case c < 0x80:
			t[c] = 1
		case c < 0xC0: // continues a sequence
			t[c] = 0
		case c < 0xF0:
			t[c] = 6
		default:
			t[c] = 12
		}
	}
	return t
}()

// pythonString returns the printed length of a string body, without quotes.
func pythonString(body []byte) int {
	if !utf8.Valid(body) {
		return pythonInvalid(body)
	}
	n := 0
	for i := 0; i < len(body); i++ {
		c := body[i]
		if c != '\\' {
			n += int(printed[c])
			continue
		}
		i++
		if i < len(body) && body[i] == 'u' {
			n += pythonEscape(body[i-1:])
			i += 4
		} else if i < len(body) && body[i] == '/' {
			n++
		} else {
			n += 2
		}
	}
	return n
}

// pythonEscape returns the printed length of the \u escape at s: of a pair each half is printed as six.
func pythonEscape(s []byte) int {
	if r, n := jsonscan.Rune(s); n == 6 && r < utf8.RuneSelf {
		return int(printed[r])
	}
	return 6
}

func pythonInvalid(body []byte) int {
	n := 0
	for len(body) > 0 {
		r, size := jsonscan.Rune(body)
		switch {
		case r > 0xFFFF:
			n += 12
		case r < utf8.RuneSelf:
			n += int(printed[r])
		default:
			n += 6
		}
		body = body[max(size, 1):]
	}
	return n
}

// pythonNumber returns the length of a number: an int keeps its digits, a float is printed as repr does.
func pythonNumber(token string) int {
	if token == "-0" {
		return 1
	}
	return cmp.Or(len(pythonFloat(token)), len(token))
}

// pythonFloat spells a float as Python does; "" for an int.
func pythonFloat(token string) string {
	if !strings.ContainsAny(token, ".eE") {
		return ""
	}
	f, _ := strconv.ParseFloat(token, 64) // out of range is an infinity, in Python too
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	scientific := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(scientific[strings.IndexByte(scientific, 'e')+1:])
	if exponent < -4 || exponent >= 16 {
		return scientific
	}
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(plain, '.') < 0 {
		return plain + ".0"
	}
	return plain
}

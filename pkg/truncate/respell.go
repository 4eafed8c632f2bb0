package truncate

import (
	"bytes"
	"unicode/utf8"

	"spool/internal/jsonscan"
)

// Respell writes a valid text as Python does that has read it, but for characters beyond ASCII, which stay as they are: without white
// space, escapes of what needs none, digits that say nothing, and all but the last of equal keys. So it has at most the bytes that
// PythonLen counts, but for a float beyond all that a float64 can be, which Python spells as no JSON and this as it was.
func Respell(raw []byte) []byte {
	s := speller{raw: raw}
	out, _ := s.value(make([]byte, 0, min(len(raw), ItemBudget)), jsonscan.SkipSpace(raw, 0))
	return out
}

// speller appends the value at raw[i] to what is written, and gives the index after it.
type speller struct{ raw []byte }

func (s speller) value(out []byte, i int) (all []byte, end int) {
	switch s.raw[i] {
	case '{':
		return s.object(out, i)
	case '[':
		out = append(out, '[')
		end = jsonscan.Elements(s.raw, i, func(at int) (end int) {
			if out[len(out)-1] != '[' {
				out = append(out, ',')
			}
			out, end = s.value(out, at)
			return end
		})
		return append(out, ']'), end
	}
	end = jsonscan.SkipValue(s.raw, i)
	switch token := s.raw[i:end]; token[0] {
	case '"':
		return spellString(out, token), end
	case 't', 'f', 'n':
		return append(out, token...), end
	default:
		return spellNumber(out, string(token)), end
	}
}

func (s speller) object(out []byte, i int) (all []byte, end int) {
	type member struct {
		key []byte
		at  int
	}
	var inOrder []member
	places := map[string]int{}
	i = jsonscan.SkipSpace(s.raw, i+1)
	for s.raw[i] != '}' {
		end = jsonscan.SkipString(s.raw, i)
		key := s.raw[i:end]
		at := jsonscan.SkipSpace(s.raw, jsonscan.SkipSpace(s.raw, end)+1)
		name := pythonSpelling(key[1 : len(key)-1])
		if known, again := places[name]; again {
			inOrder[known].at = at
		} else {
			places[name] = len(inOrder)
			inOrder = append(inOrder, member{key, at})
		}
		if i = jsonscan.SkipSpace(s.raw, jsonscan.SkipValue(s.raw, at)); s.raw[i] == ',' {
			i = jsonscan.SkipSpace(s.raw, i+1)
		}
	}
	out = append(out, '{')
	for k, m := range inOrder {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(spellString(out, m.key), ':')
		out, _ = s.value(out, m.at)
	}
	return append(out, '}'), i + 1
}

// spellString appends a string token. What is no character, as half of a pair, stays an escape.
func spellString(out, token []byte) []byte {
	for body := token; ; {
		at := bytes.IndexByte(body, '\\')
		if at < 0 {
			return append(out, body...)
		}
		out = append(out, body[:at]...)
		body = body[at:]
		r, n := jsonscan.Rune(body)
		switch {
		case r == utf8.RuneError:
			out = append(out, body[:n]...)
		case r == '"' || r == '\\' || r < 0x20:
			quoted := jsonscan.AppendString(nil, string(r))
			out = append(out, quoted[1:len(quoted)-1]...)
		default:
			out = utf8.AppendRune(out, r)
		}
		body = body[n:]
	}
}

// spellNumber appends a number. A float stays one: what reads 1.0 as another kind of number than 1 does so still.
func spellNumber(out []byte, token string) []byte {
	if python := pythonFloat(token); python != "" && len(python) < len(token) && jsonscan.Valid([]byte(python)) == nil {
		token = python
	}
	return append(out, token...)
}

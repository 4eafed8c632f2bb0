package truncate

import (
	"strings"

	"spool/internal/jsonscan"
)

// span is a token or value in a text.
type span struct{ start, end int }

func (s span) of(raw []byte) []byte { return raw[s.start:s.end] }

// member finds the value of the last member called name in the object at raw[i]; false if there is no object or no such
// member.
func member(raw []byte, i int, name string) (at span, ok bool) {
	i = jsonscan.SkipSpace(raw, i)
	if i >= len(raw) || raw[i] != '{' {
		return at, false
	}
	i = jsonscan.SkipSpace(raw, i+1)
	for raw[i] != '}' {
		end := jsonscan.SkipString(raw, i)
		key := raw[i:end]
		i = jsonscan.SkipSpace(raw, jsonscan.SkipSpace(raw, end)+1)
		end = jsonscan.SkipValue(raw, i)
		if text, _ := jsonscan.Text(key); text == name {
			at, ok = span{i, end}, true
		}
		if i = jsonscan.SkipSpace(raw, end); raw[i] == ',' {
			i = jsonscan.SkipSpace(raw, i+1)
		}
	}
	return at, ok
}

// set gives the member called name of an object a value: in its place, or as a new member at the end.
func set(object []byte, name string, value []byte) []byte {
	if at, ok := member(object, 0, name); ok {
		return replace(object, at, value)
	}
	end := len(object) - 1
	for object[end] != '}' {
		end--
	}
	var tail []byte
	if first := jsonscan.SkipSpace(object, 0) + 1; jsonscan.SkipSpace(object, first) != end {
		tail = append(tail, ',')
	}
	tail = append(jsonscan.AppendString(tail, name), ':')
	return replace(object, span{end, end}, append(tail, value...))
}

// listed appends name to a JSON array of names unless it is there; what is no array counts as empty.
func listed(array []byte, name string) []byte {
	token := jsonscan.AppendString(nil, name)
	if jsonscan.KindOf(array) != jsonscan.KindArray {
		return append(append([]byte{'['}, token...), ']')
	}
	empty, found := true, false
	_ = jsonscan.Array(array, func(value []byte) bool { // it is part of a valid text
		text, _ := jsonscan.Text(value)
		empty, found = false, found || text == name
		return true
	})
	if found {
		return array
	}
	if !empty {
		token = append([]byte{','}, token...)
	}
	return replace(array, span{len(array) - 1, len(array) - 1}, token)
}

func replace(raw []byte, at span, by []byte) []byte {
	out := make([]byte, 0, len(raw)-(at.end-at.start)+len(by))
	return append(append(append(out, raw[:at.start]...), by...), raw[at.end:]...)
}

// compact returns a JSON text without the white space between its tokens, as valid UTF-8.
func compact(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := jsonscan.SkipSpace(raw, 0); i < len(raw); i = jsonscan.SkipSpace(raw, i) {
		end := i + 1
		if raw[i] == '"' {
			end = jsonscan.SkipString(raw, i)
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxDepth is the deepest nesting of arrays and objects that Valid accepts (SPEC B1). A scalar has depth 0, [] has depth 1.
const MaxDepth = 256

// Errors are wrapped with the byte offset at which reading stopped.
var (
	// ErrSyntax says that the text is not JSON, or not the kind of value that was asked for.
	ErrSyntax = errors.New("invalid JSON")
	// ErrDepth says that arrays and objects are nested deeper than MaxDepth (SPEC B1).
	ErrDepth = errors.New("JSON nested deeper than 256")
)

// Kind is the type of a JSON value.
type Kind byte

// The kinds of JSON values. Invalid is anything that does not begin like one.
const (
	KindInvalid Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindObject
	KindArray
)

// KindOf tells the kind of a valid JSON text by its first byte after white space. It does not read further.
func KindOf(raw []byte) Kind {
	i := SkipSpace(raw, 0)
	if i == len(raw) {
		return KindInvalid
	}
	switch c := raw[i]; {
	case c == '"':
		return KindString
	case c == '{':
		return KindObject
	case c == '[':
		return KindArray
	case c == 'n':
		return KindNull
	case c == 't' || c == 'f':
		return KindBool
	case c == '-' || '0' <= c && c <= '9':
		return KindNumber
	}
	return KindInvalid
}

// Object calls f for each member of a JSON object in the order of the text, duplicates included, until f returns false.
// key is unescaped and aliases raw unless it held an escape; value is the raw text without surrounding white space and
// always aliases raw. Anything but an object is ErrSyntax. Assumes that Valid passed.
func Object(raw []byte, f func(key, value []byte) bool) error {
	stopped := false
	end := Members(raw, SkipSpace(raw, 0), func(key []byte, at int) int {
		end := SkipValue(raw, at)
		if end >= 0 && !f(key, raw[at:end:end]) {
			stopped = true
			return -1
		}
		return end
	})
	return ended(raw, end, stopped)
}

// ended is the error of a value that was read up to end, or stopped.
func ended(raw []byte, end int, stopped bool) error {
	switch {
	case stopped:
		return nil
	case end < 0:
		return syntaxAt(-1 - end)
	}
	return finish(raw, end)
}

// Members calls f for each member of the object that begins at raw[i], with the index at which its value begins; f returns
// the index after the value, however it comes to know it, or -1 to stop. So values that are read anyway need not be skipped
// first. Members returns the index after the object, or -1 less the index at which it stopped: there is no object, or it is
// broken, or f wished so. Assumes that Valid passed.
func Members(raw []byte, i int, f func(key []byte, at int) (end int)) (end int) {
	if i >= len(raw) || raw[i] != '{' {
		return -1 - i
	}
	if i = SkipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1
	}
	for {
		if end = SkipString(raw, i); end < 0 {
			return -1 - i
		}
		key := raw[i+1 : end-1]
		i = SkipSpace(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return -1 - i
		}
		if bytes.IndexByte(key, '\\') >= 0 {
			key = appendUnescaped(nil, key)
		}
		i = SkipSpace(raw, i+1)
		if end = f(key, i); end < 0 {
			return -1 - i
		}
		more, next := separator(raw, end, '}')
		if next < 0 {
			return -1 - end
		}
		if !more {
			return next
		}
		i = next
	}
}

// Elements is Members for the array that begins at raw[i].
func Elements(raw []byte, i int, f func(at int) (end int)) (end int) {
	if i >= len(raw) || raw[i] != '[' {
		return -1 - i
	}
	if i = SkipSpace(raw, i+1); i < len(raw) && raw[i] == ']' {
		return i + 1
	}
	for {
		if end = f(i); end < 0 {
			return -1 - i
		}
		more, next := separator(raw, end, ']')
		if next < 0 {
			return -1 - end
		}
		if !more {
			return next
		}
		i = next
	}
}

// Array calls f for each element of a JSON array in order, until f returns false. value is the raw text without
// surrounding white space. Anything but an array is ErrSyntax. Assumes that Valid passed.
func Array(raw []byte, f func(value []byte) bool) error {
	stopped := false
	end := Elements(raw, SkipSpace(raw, 0), func(at int) int {
		end := SkipValue(raw, at)
		if end >= 0 && !f(raw[at:end:end]) {
			stopped = true
			return -1
		}
		return end
	})
	return ended(raw, end, stopped)
}

// Get returns the raw text of the value reached from raw by the given keys, or nil if there is none. Of duplicate keys
// the last counts, as in JSON.parse. An empty path returns raw itself. Assumes that Valid passed.
func Get(raw []byte, path ...string) []byte {
	for _, name := range path {
		var found []byte
		err := Object(raw, func(key, value []byte) bool {
			if string(key) == name {
				found = value
			}
			return true
		})
		if err != nil || found == nil {
			return nil
		}
		raw = found
	}
	return raw
}

// Field is where the value of a member goes.
type Field struct {
	Key string
	To  *[]byte
}

// Fields gives each field the raw text of its member, as Get does, and leaves it as it is where there is none. Of several that go to
// one place the last counts.
func Fields(raw []byte, fields []Field) {
	_ = Object(raw, func(key, value []byte) bool {
		Give(fields, key, value)
		return true
	})
}

// FieldsAt is Fields for the object that begins at raw[i]; end is the index after it, negative if it is none that can be read.
func FieldsAt(raw []byte, i int, fields []Field) (end int) {
	return Members(raw, i, func(key []byte, at int) int {
		end := SkipValue(raw, at)
		if end >= 0 {
			Give(fields, key, raw[at:end])
		}
		return end
	})
}

// Give gives a member's value to its field, if there is one.
func Give(fields []Field, key, value []byte) {
	for _, f := range fields {
		if string(key) == f.Key {
			*f.To = value
			return
		}
	}
}

// separator reads what follows a value: a comma (more, index of the next token) or the closing bracket (index after it).
// The index is -1 for anything else.
func separator(raw []byte, i int, end byte) (more bool, next int) {
	i = SkipSpace(raw, i)
	switch {
	case i >= len(raw):
		return false, -1
	case raw[i] == ',':
		return true, SkipSpace(raw, i+1)
	case raw[i] == end:
		return false, i + 1
	}
	return false, -1
}

// finish checks that only white space follows.
func finish(raw []byte, i int) error {
	if i = SkipSpace(raw, i); i != len(raw) {
		return syntaxAt(i)
	}
	return nil
}

func syntaxAt(i int) error { return fmt.Errorf("%w at byte %d", ErrSyntax, i) }

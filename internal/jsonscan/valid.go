package jsonscan

import (
	"errors"
	"fmt"
)

// Valid checks that raw is exactly one JSON value (RFC 8259) with optional white space around it, nested at most MaxDepth
// deep (SPEC B1). Strings may hold any bytes from 0x20 up, valid UTF-8 or not, and any \u escape, paired or not: such
// bytes survive (SPEC T11). The error is ErrSyntax or ErrDepth with the offset of the byte that was not expected.
func Valid(raw []byte) error {
	_, err := ValidUnless(raw, nil)
	return err
}

// ValidUnless is Valid, but gives up at the first key for which special is true, and says so. key is spelled as in the
// text, escapes and all; rest is the text behind its colon, which has not been checked yet.
func ValidUnless(raw []byte, special func(key, rest []byte) bool) (found bool, err error) {
	v := validator{raw: raw, special: special}
	for i := 0; ; {
		i = SkipSpace(raw, i)
		end, opened, err := v.value(i)
		if err == nil && !opened {
			end, err = v.after(end)
		}
		if err != nil {
			return err == errSpecial, trouble(err)
		}
		if v.depth < 0 {
			return false, nil
		}
		i = end
	}
}

// errSpecial ends the work of ValidUnless.
var errSpecial = errors.New("special key")

// trouble is what a caller needs to hear of an error.
func trouble(err error) error {
	if err == errSpecial {
		return nil
	}
	return err
}

// validator is the nesting at one point of the text: bit d-1 of object tells whether level d is an object. depth is -1
// once the value is complete.
type validator struct {
	raw     []byte
	special func(key, rest []byte) bool
	depth   int
	object  [MaxDepth / 64]uint64
}

// value reads the value at raw[i]. A scalar or an empty array or object is read whole; otherwise opened tells that the
// first element is next.
func (v *validator) value(i int) (end int, opened bool, err error) {
	if i >= len(v.raw) {
		return 0, false, syntaxAt(i)
	}
	switch c := v.raw[i]; c {
	case '"':
		end, ok := scanString(v.raw, i+1)
		if !ok {
			return 0, false, syntaxAt(end)
		}
		return end, false, nil
	case '{', '[':
		return v.open(i)
	case 't':
		end, err = literal(v.raw, i, "true")
	case 'f':
		end, err = literal(v.raw, i, "false")
	case 'n':
		end, err = literal(v.raw, i, "null")
	default:
		end, err = number(v.raw, i)
	}
	return end, false, err
}

func (v *validator) open(i int) (end int, opened bool, err error) {
	if v.depth == MaxDepth {
		return 0, false, fmt.Errorf("%w at byte %d", ErrDepth, i)
	}
	bit := uint64(1) << (v.depth & 63)
	isObject := v.raw[i] == '{'
	i = SkipSpace(v.raw, i+1)
	if i < len(v.raw) && (isObject && v.raw[i] == '}' || !isObject && v.raw[i] == ']') {
		return i + 1, false, nil
	}
	if isObject {
		v.object[v.depth>>6] |= bit
		end, err = v.key(i)
	} else {
		v.object[v.depth>>6] &^= bit
		end = i
	}
	v.depth++
	return end, true, err
}

// after reads what may follow a value: closing brackets, then a comma (and, in an object, the next key). It returns the
// index of the next value.
func (v *validator) after(i int) (int, error) {
	for {
		i = SkipSpace(v.raw, i)
		if v.depth == 0 {
			if i != len(v.raw) {
				return 0, syntaxAt(i)
			}
			v.depth = -1
			return i, nil
		}
		if i >= len(v.raw) {
			return 0, syntaxAt(i)
		}
		level := v.depth - 1
		isObject := v.object[level>>6]>>(level&63)&1 == 1
		switch c := v.raw[i]; {
		case c == ',' && isObject:
			return v.key(SkipSpace(v.raw, i+1))
		case c == ',':
			return i + 1, nil
		case c == '}' && isObject || c == ']' && !isObject:
			v.depth--
			i++
		default:
			return 0, syntaxAt(i)
		}
	}
}

// key reads a key and its colon.
func (v *validator) key(i int) (int, error) {
	if i >= len(v.raw) || v.raw[i] != '"' {
		return 0, syntaxAt(i)
	}
	closed, ok := scanString(v.raw, i+1)
	if !ok {
		return 0, syntaxAt(closed)
	}
	end := SkipSpace(v.raw, closed)
	if end >= len(v.raw) || v.raw[end] != ':' {
		return 0, syntaxAt(end)
	}
	if v.special != nil && v.special(v.raw[i+1:closed-1], v.raw[end+1:]) {
		return 0, errSpecial
	}
	return end + 1, nil
}

func literal(raw []byte, i int, word string) (int, error) {
	for k := range len(word) {
		if i+k >= len(raw) || raw[i+k] != word[k] {
			return 0, syntaxAt(i + k)
		}
	}
	return i + len(word), nil
}

// number reads -? (0 | [1-9][0-9]*) (.[0-9]+)? ([eE][+-]?[0-9]+)?
func number(raw []byte, i int) (int, error) {
	if i < len(raw) && raw[i] == '-' {
		i++
	}
	start := i
	i = digits(raw, i)
	if i == start || raw[start] == '0' && i > start+1 {
		return 0, syntaxAt(start)
	}
	if i < len(raw) && raw[i] == '.' {
		start = i + 1
		if i = digits(raw, start); i == start {
			return 0, syntaxAt(start)
		}
	}
	if i < len(raw) && raw[i]|0x20 == 'e' {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		start = i
		if i = digits(raw, start); i == start {
			return 0, syntaxAt(start)
		}
	}
	return i, nil
}

func digits(raw []byte, i int) int {
	for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' {
		i++
	}
	return i
}

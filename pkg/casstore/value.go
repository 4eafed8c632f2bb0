package casstore

import (
	"fmt"
	"math"
	"slices"

	"spool/internal/family"
)

// ErrUnsupported says that a value has no canonical encoding: a type outside the list of AppendValue, or a nesting deeper
// than a reader accepts.
var ErrUnsupported = family.Invalid.New("value has no canonical encoding")

// maxValueDepth leaves room, below the 64 levels a reader accepts, for the frames a value is put into.
const maxValueDepth = 56

// AppendValue appends the canonical encoding of a JSON-like value: nil, bool, int, int64, uint64, float64, string, []byte,
// []any and map[string]any, whose keys are sorted by bytes. A string or key that is not valid UTF-8 becomes a bin. On
// error, which wraps ErrUnsupported, dst is returned as it was.
func AppendValue(dst []byte, v any) ([]byte, error) {
	out, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxValueDepth {
		return dst, fmt.Errorf("%w: nested deeper than %d", ErrUnsupported, maxValueDepth)
	}
	var err error
	switch v := v.(type) {
	case nil:
		return AppendNil(dst), nil
	case bool:
		return appendBool(dst, v), nil
	case int:
		return AppendInt(dst, int64(v)), nil
	case int64:
		return AppendInt(dst, v), nil
	case uint64:
		return AppendUint(dst, v), nil
	case float64:
		return appendFloat(dst, v), nil
	case string:
		return AppendText(dst, []byte(v)), nil
	case []byte:
		return AppendBin(dst, v), nil
	case []any:
		dst = AppendArrayHeader(dst, len(v))
		for _, x := range v {
			if dst, err = appendValue(dst, x, depth+1); err != nil {
				return dst, err
			}
		}
		return dst, nil
	case map[string]any:
		return appendMap(dst, v, depth)
	}
	return dst, fmt.Errorf("%w: Go type %T", ErrUnsupported, v)
}

func appendMap(dst []byte, m map[string]any, depth int) ([]byte, error) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = AppendMapHeader(dst, len(m))
	for _, k := range keys {
		var err error
		if dst, err = appendValue(AppendText(dst, []byte(k)), m[k], depth+1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// DecodeValue decodes one untrusted msgpack value into what AppendValue takes: a str becomes a string, a bin a []byte, an
// integer an int64 (a uint64 if it does not fit). Extension types, keys that are not text and doubled keys are refused.
// Errors wrap ErrMalformed.
func DecodeValue(b []byte) (any, error) {
	c := NewCursor(b)
	v := c.any()
	return v, c.Done()
}

// any reads the next value, whose depth NewCursor has bounded.
func (c *Cursor) any() any {
	first := c.peek()
	switch {
	case c.err != nil || c.Nil():
		return nil
	case first == 0xc2 || first == 0xc3:
		c.at++
		return first == 0xc3
	case first == 0xca:
		return float64(math.Float32frombits(uint32(c.number(4))))
	case first == 0xcb:
		return math.Float64frombits(c.number(8))
	case first&0xe0 == 0xa0 || first >= 0xd9 && first <= 0xdb:
		return c.String()
	case first >= 0xc4 && first <= 0xc6:
		return c.Bin()
	case first&0xf0 == 0x90 || first == 0xdc || first == 0xdd:
		list := make([]any, c.Array())
		for i := range list {
			list[i] = c.any()
		}
		return list
	case first&0xf0 == 0x80 || first == 0xde || first == 0xdf:
		return c.object()
	}
	v, negative := c.integer()
	if negative || v <= math.MaxInt64 {
		return int64(v)
	}
	return v
}

// object reads a map whose keys are text.
func (c *Cursor) object() map[string]any {
	n := c.Map()
	m := make(map[string]any, min(n, 64))
	for range n {
		k := string(c.Text())
		if _, doubled := m[k]; doubled {
			c.Fail("a key stands twice in a map")
		}
		m[k] = c.any()
	}
	return m
}

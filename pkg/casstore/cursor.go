package casstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"spool/internal/bounded"
	"spool/internal/family"
)

// ErrMalformed says that bytes are not what they should decode to. Every decoding error of this package and of
// pkg/threads wraps it, but for ErrVersion.
var ErrMalformed = family.Damaged.New("malformed")

// ErrVersion says that bytes were written by a later version than this one reads. It is wrapped with what was found.
var ErrVersion = family.Damaged.New("unknown version")

// Cursor reads msgpack values one after the other. The first error stays and makes every later read return a zero value, so
// a decoder reads all it wants and asks for Err once. No length is believed: each is compared with what is left. It is not
// strict about canonical form. What Text, Bin, Value and Rest return aliases the data.
type Cursor struct {
	data []byte
	at   int
	err  error
}

// NewCursor checks that b is exactly one bounded msgpack value and returns a cursor at its beginning. If it is not, the
// cursor has an error from the start.
func NewCursor(b []byte) *Cursor {
	c := &Cursor{data: b}
	if err := bounded.Exactly(b); err != nil {
		c.err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return c
}

// Err is the first error; it wraps ErrMalformed.
func (c *Cursor) Err() error { return c.err }

// Done is Err, or an error if values are left.
func (c *Cursor) Done() error {
	if c.err == nil && c.at != len(c.data) {
		c.Fail("values after the last one expected")
	}
	return c.err
}

// Fail records an error at the place of the last value read, unless there is one already.
func (c *Cursor) Fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: before byte %d: %s", ErrMalformed, c.at, what)
	}
}

// Value returns the bytes of the next value, whatever it is.
func (c *Cursor) Value() []byte {
	if c.err != nil {
		return nil
	}
	n, err := bounded.Check(c.data[c.at:])
	if err != nil {
		c.err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return nil
	}
	c.at += n
	return c.data[c.at-n : c.at : c.at]
}

// Rest returns all bytes that are left.
func (c *Cursor) Rest() []byte {
	if c.err != nil {
		return nil
	}
	rest := c.data[c.at:]
	c.at = len(c.data)
	return rest
}

// Map reads the head of a map and returns its number of pairs, each of which takes at least two of the bytes left.
func (c *Cursor) Map() int { return c.container("a map", 0x80, 0xde, 0xdf, 2) }

// Array reads the head of an array and returns its number of values, each of which takes at least one of the bytes left.
func (c *Cursor) Array() int { return c.container("an array", 0x90, 0xdc, 0xdd, 1) }

func (c *Cursor) container(what string, fixed, c16, c32 byte, least int) int {
	first := c.peek()
	n := -1
	switch {
	case c.err != nil:
		return 0
	case first&0xf0 == fixed:
		n = int(first & 0x0f)
		c.at++
	case first == c16:
		n = int(c.number(2))
	case first == c32:
		n = int(c.number(4))
	}
	if n < 0 || n > (len(c.data)-c.at)/least {
		c.Fail("want " + what)
	}
	if c.err != nil {
		return 0
	}
	return n
}

// Nil consumes a nil and reports true, or leaves the next value where it is.
func (c *Cursor) Nil() bool {
	if c.err != nil || c.at >= len(c.data) || c.data[c.at] != 0xc0 {
		return false
	}
	c.at++
	return true
}

// Uint reads an integer of zero or more.
func (c *Cursor) Uint() uint64 {
	v, negative := c.integer()
	if negative {
		c.Fail("want an integer of zero or more")
		return 0
	}
	return v
}

// Int reads an integer that fits 64 signed bits.
func (c *Cursor) Int() int64 {
	v, negative := c.integer()
	if !negative && v > math.MaxInt64 {
		c.Fail("want an integer below 2^63")
		return 0
	}
	return int64(v)
}

// integer reads any integer; a negative one comes as its two's complement.
func (c *Cursor) integer() (v uint64, negative bool) {
	first := c.peek()
	switch {
	case c.err != nil:
		return 0, false
	case first < 0x80:
		c.at++
		return uint64(first), false
	case first >= 0xe0:
		c.at++
		return uint64(int64(int8(first))), true
	case first >= 0xcc && first <= 0xcf:
		return c.number(1 << (first - 0xcc)), false
	case first >= 0xd0 && first <= 0xd3:
		width := 1 << (first - 0xd0)
		shift := 64 - 8*width
		s := int64(c.number(width)<<shift) >> shift
		return uint64(s), s < 0
	}
	c.Fail("want an integer")
	return 0, false
}

// Text reads a str, or a bin that stands for text that is not UTF-8.
func (c *Cursor) Text() []byte { return c.bytes(true, true) }

// String reads a str.
func (c *Cursor) String() string { return string(c.bytes(true, false)) }

// Bin reads a bin.
func (c *Cursor) Bin() []byte { return c.bytes(false, true) }

func (c *Cursor) ref() Ref {
	if c.Nil() {
		return Ref{}
	}
	b := c.Bin()
	if c.err != nil {
		return Ref{}
	}
	r, err := refFromBytes(b)
	if err != nil {
		c.Fail(err.Error())
	}
	return r
}

func (c *Cursor) bytes(str, bin bool) []byte {
	first := c.peek()
	if c.err != nil {
		return nil
	}
	n := -1
	switch {
	case str && first&0xe0 == 0xa0:
		n = int(first & 0x1f)
		c.at++
	case str && first >= 0xd9 && first <= 0xdb:
		n = int(c.number(1 << (first - 0xd9)))
	case bin && first >= 0xc4 && first <= 0xc6:
		n = int(c.number(1 << (first - 0xc4)))
	}
	if c.err == nil && (n < 0 || n > len(c.data)-c.at) {
		c.Fail("want a string")
	}
	if c.err != nil {
		return nil
	}
	c.at += n
	return c.data[c.at-n : c.at : c.at]
}

// peek is the first byte of the next value.
func (c *Cursor) peek() byte {
	if c.err == nil && c.at >= len(c.data) {
		c.Fail("a value is missing")
	}
	if c.err != nil {
		return 0xc1
	}
	return c.data[c.at]
}

// number reads the big-endian number of that width after the byte that peek showed.
func (c *Cursor) number(width int) uint64 {
	if c.err == nil && len(c.data)-c.at < 1+width {
		c.Fail("the data ends inside a number")
	}
	if c.err != nil {
		return 0
	}
	b := c.data[c.at+1:]
	c.at += 1 + width
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

package casstore

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// The Append functions write canonical msgpack: the shortest head for every length and every integer. Each returns the
// extended slice, like append.

// AppendNil appends nil.
func AppendNil(dst []byte) []byte { return append(dst, 0xc0) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 0xc3)
	}
	return append(dst, 0xc2)
}

// AppendInt appends a signed integer in its shortest form; a value of zero or more is written as AppendUint does.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(v))
}

// AppendUint appends an unsigned integer in its shortest form.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), v)
}

// appendFloat appends a 64-bit float; it is never turned into an integer.
func appendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v))
}

// AppendString appends a str. The caller knows that s is valid UTF-8; for text of unknown origin use AppendText.
func AppendString(dst []byte, s string) []byte {
	return append(appendLength(dst, len(s), 0xa0, 32, 0xd9, 0xda, 0xdb), s...)
}

// AppendText appends text as a str, or as a bin when it is not valid UTF-8, so that no byte is lost either way.
func AppendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		return AppendBin(dst, text)
	}
	return append(appendLength(dst, len(text), 0xa0, 32, 0xd9, 0xda, 0xdb), text...)
}

// AppendBin appends a bin.
func AppendBin(dst, b []byte) []byte {
	return append(appendLength(dst, len(b), 0, 0, 0xc4, 0xc5, 0xc6), b...)
}

// AppendArrayHeader appends the head of an array; n values follow.
func AppendArrayHeader(dst []byte, n int) []byte {
	return appendLength(dst, n, 0x90, 16, 0, 0xdc, 0xdd)
}

// AppendMapHeader appends the head of a map; n pairs of key and value follow.
func AppendMapHeader(dst []byte, n int) []byte { return appendLength(dst, n, 0x80, 16, 0, 0xde, 0xdf) }

// appendRef appends a ref as a bin of RefSize bytes, the nil ref as nil.
func appendRef(dst []byte, r Ref) []byte {
	if r.IsZero() {
		return append(dst, 0xc0)
	}
	return append(append(dst, 0xc4, RefSize), r[:]...)
}

// appendLength writes a head: inside the first byte for lengths below fix, else behind c8 (0: no such form), c16 or c32.
func appendLength(dst []byte, n int, fixed byte, fix int, c8, c16, c32 byte) []byte {
	switch {
	case n < fix:
		return append(dst, fixed|byte(n))
	case n <= math.MaxUint8 && c8 != 0:
		return append(dst, c8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, c16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, c32), uint32(n))
}

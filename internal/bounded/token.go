package bounded

// form says how the value behind a first byte from 0xc0 to 0xdf is laid out.
type form struct {
	fixed  uint8 // bytes after the first byte that are always there, the length field included
	length uint8 // width of the length field: 0, 1, 2 or 4 bytes
	per    uint8 // values that each unit of the length announces: 0 for bytes, 1 for arrays, 2 for maps
}

// reserved is the one first byte that msgpack never uses.
const reserved = 0xc1

// forms is indexed by first byte - 0xc0.
var forms = [32]form{
	0xc4 - 0xc0: {1, 1, 0}, 0xc5 - 0xc0: {2, 2, 0}, 0xc6 - 0xc0: {4, 4, 0}, // bin
	0xc7 - 0xc0: {2, 1, 0}, 0xc8 - 0xc0: {3, 2, 0}, 0xc9 - 0xc0: {5, 4, 0}, // ext: length, then a type byte
	0xca - 0xc0: {4, 0, 0}, 0xcb - 0xc0: {8, 0, 0}, // float
	0xcc - 0xc0: {1, 0, 0}, 0xcd - 0xc0: {2, 0, 0}, 0xce - 0xc0: {4, 0, 0}, 0xcf - 0xc0: {8, 0, 0}, // uint
	0xd0 - 0xc0: {1, 0, 0}, 0xd1 - 0xc0: {2, 0, 0}, 0xd2 - 0xc0: {4, 0, 0}, 0xd3 - 0xc0: {8, 0, 0}, // int
	0xd4 - 0xc0: {2, 0, 0}, 0xd5 - 0xc0: {3, 0, 0}, 0xd6 - 0xc0: {5, 0, 0}, 0xd7 - 0xc0: {9, 0, 0}, 0xd8 - 0xc0: {17, 0, 0}, // fixext
	0xd9 - 0xc0: {1, 1, 0}, 0xda - 0xc0: {2, 2, 0}, 0xdb - 0xc0: {4, 4, 0}, // str
	0xdc - 0xc0: {2, 2, 1}, 0xdd - 0xc0: {4, 4, 1}, // array
	0xde - 0xc0: {2, 2, 2}, 0xdf - 0xc0: {4, 4, 2}, // map
}

// token measures the value at the start of b: size is the bytes it takes itself, inner the number of values it contains.
// what is empty, or says why b does not begin with a value.
func token(b []byte) (size int, inner uint64, what string) {
	if len(b) == 0 {
		return 0, 0, "the data ends where a value should begin"
	}
	c := b[0]
	switch {
	case c < 0x80 || c >= 0xe0:
		return 1, 0, ""
	case c < 0x90:
		return 1, 2 * uint64(c&0x0f), ""
	case c < 0xa0:
		return 1, uint64(c & 0x0f), ""
	case c < 0xc0:
		return sized(b, 1, uint64(c&0x1f))
	case c == reserved:
		return 0, 0, "first byte 0xc1 is not used by msgpack"
	}
	f := forms[c-0xc0]
	if int(f.fixed) > len(b)-1 {
		return 0, 0, "the data ends inside a value"
	}
	var n uint64
	for _, x := range b[1 : 1+f.length] {
		n = n<<8 | uint64(x)
	}
	if f.per > 0 {
		return 1 + int(f.fixed), uint64(f.per) * n, ""
	}
	return sized(b, 1+int(f.fixed), n)
}

// sized is a value of n bytes after a head of that many bytes.
func sized(b []byte, head int, n uint64) (int, uint64, string) {
	if n > uint64(len(b)-head) {
		return 0, 0, "a length exceeds the bytes that are left"
	}
	return head + int(n), 0, ""
}

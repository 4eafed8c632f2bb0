// Package bounded checks that untrusted bytes are well-formed msgpack before a decoder sees them. A general decoder
// believes the lengths it reads: five hostile bytes can make it allocate gibibytes and a few kibibytes of nesting can
// overflow its stack. The walk here allocates nothing, compares every length with what is left and keeps its own small
// stack (DESIGN 11, SPEC B1).
package bounded

import (
	"errors"
	"fmt"
)

// MaxDepth is the deepest nesting of arrays and maps that Check accepts; a scalar has depth 0.
const MaxDepth = 64

// ErrMalformed says that the bytes are not one well-formed, bounded msgpack value. It is wrapped with the offset of the
// value at fault and what is wrong there.
var ErrMalformed = errors.New("malformed msgpack")

// Foreign stands in for a value that somebody else than the system wrote: it begins no msgpack and no JSON, so no
// decoder takes it for one. The error is then an ErrForeign.
const Foreign = "\xc1"

// ErrForeign is the error of Foreign; it is an ErrMalformed.
var ErrForeign = fmt.Errorf("%w: not written by this system", ErrMalformed)

// Check walks the one msgpack value at the start of b and returns its encoded length in bytes. It allocates nothing
// unless it fails. Bytes after the value are not looked at. Errors wrap ErrMalformed.
func Check(b []byte) (int, error) {
	var open [MaxDepth]uint64 // values still to come in each open container
	depth, at := 0, 0
	if string(b) == Foreign {
		return 0, ErrForeign
	}
	for {
		size, inner, what := token(b[at:])
		if what != "" {
			return 0, malformed(at, what)
		}
		at += size
		if inner > 0 {
			if inner > uint64(len(b)-at) {
				return 0, malformed(at-size, "container announces more values than there are bytes")
			}
			if depth == MaxDepth {
				return 0, malformed(at-size, "nested too deep")
			}
			open[depth] = inner
			depth++
			continue
		}
		for depth > 0 {
			open[depth-1]--
			if open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return at, nil
		}
	}
}

// Exactly checks that b is one well-formed msgpack value and nothing else. Errors wrap ErrMalformed.
func Exactly(b []byte) error {
	n, err := Check(b)
	if err != nil {
		return err
	}
	if n != len(b) {
		return malformed(n, "bytes after the value")
	}
	return nil
}

func malformed(at int, what string) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrMalformed, at, what)
}

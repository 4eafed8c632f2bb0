package dstreams

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// offset is a place in a stream: behind so many entries of its thread, and behind so many bytes of the next one.
type offset struct{ entries, bytes int64 }

// String has digits of a fixed number, so that offsets sort as text.
func (o offset) String() string { return fmt.Sprintf("%016d_%016d", o.entries, o.bytes) }

func (o offset) after(p offset) bool {
	return o.entries > p.entries || o.entries == p.entries && o.bytes > p.bytes
}

// The offsets that every stream knows.
const (
	fromStart = "-1"
	fromNow   = "now"
)

// parseOffset reads an offset that is neither fromNow nor empty.
func parseOffset(s string) (o offset, err error) {
	if s == fromStart {
		return o, nil
	}
	bad := refuse(http.StatusBadRequest, fmt.Sprintf("offset %.50q: use one that this stream gave in Stream-Next-Offset, %s or %s", s,
		fromStart, fromNow))
	if len(s) != 33 || s[16] != '_' {
		return o, bad
	}
	if o.entries, err = digits(s[:16]); err != nil {
		return o, bad
	}
	if o.bytes, err = digits(s[17:]); err != nil {
		return o, bad
	}
	return o, nil
}

// maxNumber is the largest number in a header: what JavaScript counts exactly.
const maxNumber = 1<<53 - 1

// digits reads a number that has nothing but digits.
func digits(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// number reads a number of a header: digits without leading zeros.
func number(name, s string) (int64, error) {
	n, err := digits(s)
	if err != nil || n > maxNumber || strconv.FormatInt(n, 10) != s {
		return 0, refuse(http.StatusBadRequest, fmt.Sprintf("%s %.50q: want a whole number from 0 to %d, in digits", name, s, maxNumber))
	}
	return n, nil
}

// A cursor is the number of an interval of time. Clients that wait at the same place in the same interval ask for the same
// address, so that a cache between asks once for all of them.
const (
	cursorInterval = 20 * time.Second
	maxJitter      = int(time.Hour / cursorInterval)
)

var cursorEpoch = time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)

// nextCursor is the cursor of an answer: that of the time, but always above the one that the client had, so that a cached
// answer never leads to itself.
func nextCursor(had string, now time.Time) string {
	c := int64(now.Sub(cursorEpoch) / cursorInterval)
	if n, err := digits(had); err == nil && n >= c && n < maxNumber {
		c = n + 1 + rand.Int64N(int64(maxJitter))
	}
	return strconv.FormatInt(c, 10)
}

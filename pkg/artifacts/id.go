package artifacts

import (
	"cmp"
	"encoding/base32"
	"strings"
	"time"
)

// ID names an artifact for ever, across sessions: it is the key of its record, and created once (SPEC A1).
type ID string

// IDPrefix begins every ID that Spool makes.
const IDPrefix = "art_"

// crockford is the alphabet of ULIDs.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// NewID makes an ID: art_<UTC yyyymmdd_hhmmss>_<the random 16 characters of a ULID>. Who replays an event passes the
// event's time and entropy derived from its identity, and gets the same ID.
func NewID(at time.Time, entropy [10]byte) ID {
	if y := at.UTC().Year(); y < 0 || y > 9999 { // of an entry that says so
		at = time.UnixMilli(0)
	}
	return ID(IDPrefix + at.UTC().Format("20060102_150405") + "_" + crockford.EncodeToString(entropy[:]))
}

// Seq is an artifact's number in its root session: decimal digits without leading zeros, of any length, so that no file
// name that a session brings along can make the counter wrap round. An artifact that has none, an agent's output, has "".
type Seq string

// Compare orders by value.
func (s Seq) Compare(t Seq) int {
	return cmp.Or(cmp.Compare(len(s), len(t)), strings.Compare(string(s), string(t)))
}

func (s Seq) next() Seq {
	b := []byte(s)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < '9' {
			b[i]++
			return Seq(b)
		}
		b[i] = '0'
	}
	return "1" + Seq(b)
}

// valid tells whether s is spelled as Seq demands.
func (s Seq) valid() bool {
	n, rest := leadingSeq(string(s))
	return s != "" && len(s) <= maxFilename && rest == "" && n == s
}

// leadingSeq cuts the digits that name begins with; "" if there are none.
func leadingSeq(name string) (Seq, string) {
	digits, rest := leadingDigits(name)
	if digits == "" {
		return "", name
	}
	if n := strings.TrimLeft(digits, "0"); n != "" {
		return Seq(n), rest
	}
	return "0", rest
}

func leadingDigits(s string) (digits, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// Counter gives out numbers, each once: it starts after the highest it was shown and is never lowered (SPEC A1). The zero
// value starts at 0. It belongs to one goroutine; a root session has one, which its subagents share.
type Counter struct{ used Seq }

// Resume is the counter whose Last was stored.
func Resume(last Seq) Counter { return Counter{used: last} }

// Last is the highest number that is taken; "" if none is.
func (c *Counter) Last() Seq { return c.used }

// See shows the counter a file that is there: <digits>.<tool>.log counts, whatever else does not.
func (c *Counter) See(name string) {
	n, rest := leadingSeq(name)
	if n != "" && strings.HasPrefix(rest, ".") && strings.HasSuffix(rest[1:], ".log") {
		c.raise(n)
	}
}

// Take gives out the next number.
func (c *Counter) Take() Seq {
	if c.used == "" {
		c.used = "0"
	} else {
		c.used = c.used.next()
	}
	return c.used
}

func (c *Counter) raise(n Seq) {
	if n.Compare(c.used) > 0 {
		c.used = n
	}
}

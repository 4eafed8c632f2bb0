package truncate

import (
	"unicode/utf8"
)

const (
	noticeUnits  = len(Notice) // all ASCII
	quotedNotice = `\n\n[Session persistence truncated large content]`
)

// cutAt returns where in a string body SPEC T1 cuts, and whether it does: after the first MaxUnits-noticeUnits units,
// but not after a high surrogate.
func cutAt(body []byte) (cut int, over bool) {
	i, kept := advance(body, MaxUnits-noticeUnits)
	rest, _ := advance(body[i:], MaxUnits-kept)
	if i+rest == len(body) {
		return 0, false
	}
	if endsInHigh(body[:i]) {
		i -= len(`\ud800`)
	}
	return i, true
}

// advance goes forward in a string body as long as no more than max UTF-16 units have passed, and returns the index it
// reached and the units that passed. An escape is one unit, whatever it denotes, a UTF-8 sequence of four bytes two, any
// other sequence or invalid byte one.
func advance(body []byte, max int) (i, units int) {
	for i < len(body) && units < max {
		c := body[i]
		switch {
		case c == '\\':
			if i+1 < len(body) && body[i+1] == 'u' {
				i += 4
			}
			i = min(i+2, len(body))
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(body[i:])
			if r > 0xFFFF {
				if units+2 > max {
					return i, units
				}
				units++
			}
			i += n
		}
		units++
	}
	return i, units
}

// endsInHigh tells whether the last character of a string body is the escape of a high surrogate, \ud800 to \udbff.
func endsInHigh(body []byte) bool {
	n := len(body) - 6
	if n < 0 || body[n] != '\\' || body[n+1] != 'u' || body[n+2]|0x20 != 'd' {
		return false
	}
	if c := body[n+3] | 0x20; c != '8' && c != '9' && c != 'a' && c != 'b' {
		return false
	}
	slashes := 0
	for n-slashes >= 0 && body[n-slashes] == '\\' {
		slashes++
	}
	return slashes%2 == 1
}

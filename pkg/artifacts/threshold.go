package artifacts

import "unicode/utf8"

// Thresholds say when a result is too large for a message (SPEC A4, U1). The zero value has the defaults.
type Thresholds struct {
	Bytes  int // default 65,536
	Tokens int // estimated, see Tokens; default 16,000
}

const (
	defaultBytes  = 65_536
	defaultTokens = 16_000
)

// Exceeded tells whether a text is over either threshold; exactly at a threshold it is not (SPEC U3).
func (t Thresholds) Exceeded(text []byte) bool {
	if t.Bytes == 0 {
		t.Bytes = defaultBytes
	}
	if t.Tokens == 0 {
		t.Tokens = defaultTokens
	}
	return len(text) > t.Bytes || Tokens(text) > t.Tokens
}

// Tokens estimates how many tokens a text is: a quarter of its code points, at least 1 unless it is empty (SPEC U2).
func Tokens(text []byte) int {
	n := utf8.RuneCount(text)
	if n == 0 {
		return 0
	}
	return max(1, n/4)
}

// Head is the beginning of a text, at most limit bytes; a cut moves back to the boundary of a character (SPEC U2).
func Head(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	for back := range min(utf8.UTFMax, limit+1) {
		if utf8.RuneStart(text[limit-back]) {
			return text[:limit-back]
		}
	}
	return text[:limit] // no UTF-8
}

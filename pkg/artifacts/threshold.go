package artifacts

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Thresholds say when a result is too large for a message (SPEC A4, U1). A zero member has its default.
type Thresholds struct {
	Bytes  int // default 65,536
	Tokens int // estimated, see Tokens; default 16,000
}

const (
	defaultBytes  = 65_536
	defaultTokens = 16_000

	// leastBytes and leastTokens: a reference is not much shorter than a text below them.
	leastBytes  = 1024
	leastTokens = leastBytes / 4
	// mostBytes is below every text that was cut from more than 500,000 units (SPEC T1, U2), so that a result which is over
	// a threshold before the cut is over it afterwards.
	mostBytes = 499_998
)

// Set is the thresholds with their defaults.
func (t Thresholds) Set() Thresholds {
	return Thresholds{Bytes: cmp.Or(t.Bytes, defaultBytes), Tokens: cmp.Or(t.Tokens, defaultTokens)}
}

// Validate says what is wrong with thresholds that somebody chose.
func (t Thresholds) Validate() (err error) {
	t = t.Set()
	if t.Bytes < leastBytes || t.Bytes > mostBytes {
		err = fmt.Errorf("artifact bytes %d: choose %d to %d; a longer text is cut in its entry, and is an artifact always",
			t.Bytes, leastBytes, mostBytes)
	}
	if t.Tokens < leastTokens {
		err = errors.Join(err, fmt.Errorf("artifact tokens %d: choose %d or more", t.Tokens, leastTokens))
	}
	return err
}

// Exceeded tells whether a text is over either threshold; exactly at a threshold it is not (SPEC U3).
func (t Thresholds) Exceeded(text []byte) bool {
	t = t.Set()
	return len(text) > t.Bytes || Tokens(text) > t.Tokens
}

// Least is the length in bytes of the shortest text that can be over either threshold.
func (t Thresholds) Least() int {
	t = t.Set()
	return min(t.Bytes, 4*t.Tokens+3) + 1
}

// String is "<bytes>,<tokens>".
func (t Thresholds) String() string {
	t = t.Set()
	return fmt.Sprintf("%d,%d", t.Bytes, t.Tokens)
}

// ParseThresholds is the inverse of String.
func ParseThresholds(s string) (Thresholds, error) {
	b, k, _ := strings.Cut(s, ",")
	bytes, err1 := strconv.Atoi(b)
	tokens, err2 := strconv.Atoi(k)
	if t := (Thresholds{bytes, tokens}); errors.Join(err1, err2) == nil && t.String() == s {
		return t, nil
	}
	return Thresholds{}, fmt.Errorf("thresholds %q: want <bytes>,<tokens>", s)
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

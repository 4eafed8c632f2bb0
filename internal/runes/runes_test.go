package runes_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/internal/runes"
)

// Whatever the text: cuts are whole characters from its ends, within their limits, and as long as they can be.
func TestCuts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aé漢😀\n\n"))).Draw(r, "text")
		n := rapid.IntRange(-1, 40).Draw(r, "limit")
		head, tail := runes.Head(text, n), runes.Tail(text, n)
		for _, s := range []string{head, tail} {
			if len(s) > max(n, 0) || !utf8.ValidString(s) || len(s) < min(len(text), n)-3 {
				r.Fatalf("%q is cut to %q, limit %d", text, s, n)
			}
		}
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			r.Fatalf("%q is cut to %q and %q", text, head, tail)
		}
	})
}

// A text is never cut inside of a character.
func TestWhole(t *testing.T) {
	text := []byte("aé€😀")
	for n := range len(text) + 1 {
		got := runes.Whole(text[:n])
		want := map[int]int{2: 1, 4: 3, 5: 3, 7: 6, 8: 6, 9: 6}
		w, cut := want[n]
		if !cut {
			w = n
		}
		must.Same(t, got, w, "Whole(%q) = %d, want %d", text[:n])
	}
	if n := runes.Whole([]byte{0xff, 0x80, 0x80, 0x80, 0x80}); n != 5 {
		t.Errorf("of bytes that are no text = %d, want all", n)
	}
}

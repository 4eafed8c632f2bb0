package output_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/truncate/output"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "",
		"plain é漢😀\t\n\u200b\ufeff\ufffd":       "plain é漢😀\t\n\u200b\ufeff\ufffd",
		"a\r\nb\rc\r\r\nd\r":                    "a\nb\nc\n\nd\n",
		"10%\r\x1b[K20%":                        "10%\n20%",
		"\r\x00\n":                              "\n\n",
		"a\x00\b\v\x0e\x1f\x7f\u0085\u009bz":    "az",
		"\x1b[1;31mX\x1b[0m\x1b[?25l\x1b[2K":    "X",
		"\x1b]0;title\arest":                    "rest",
		"\x1b]8;;http://a\x1b\\t\x1b]8;;\x1b\\": "t",
		"\x1bPq\n#0;2\x1b\\z\x1b_x\x1b\\":       "z",
		"\x1b7save\x1b8\x1b(B\x1bc":             "save",
		// Only the escape character goes of what is no sequence.
		"\x1b":                   "",
		"\x1b[":                  "[",
		"\x1b[31":                "[31",
		"\x1b[31é":               "[31é",
		"\x1b[3\x1b[1mx":         "[3x",
		"\x1b]0;ti\ntle":         "]0;ti\ntle",
		"\x1b]0;\xc3\x01\xa9":    "]0;\ufffd\ufffd",
		"\x1bPabc\x1b[1mx":       "Pabcx",
		"\x1bPabc\x1b":           "Pabc",
		"\x1b\x1b\x1b[mx":        "x",
		"\x1b]é\x1b\xa9":         "]é\ufffd",
		"x\xff\xe6\xbcy\xf0\x9f": "x\ufffd\ufffdy\ufffd",
		"caf\xe9\n":              "caf\ufffd\n",
		// Lone surrogates as WTF-8 spells them, and a pair of them.
		"a\xed\xa0\xbdb\xed\xb8\x80c": "abc",
		"a\xed\xa0\xbd\xed\xb8\x80c":  "a😀c",
		"\xed\xa0\xbd\xed\xa0\xbd":    "",
		"\xed\xa0\xbd\xed\xb8":        "\ufffd\ufffd",
		"\xed":                        "\ufffd",
		"\xed\xa0x":                   "\ufffd\ufffdx",
	} {
		must.Same(t, string(output.Sanitize([]byte(in))), want, "Sanitize(%q) = %q, want %q", in)
		must.Same(t, inPieces([]byte(in), func(int) int { return 1 }), want, "Sanitizer of %q byte by byte = %q, want %q", in)
	}
}

func TestSanitizeDropsCR(t *testing.T) {
	s := output.Sanitizer{DropCR: true}
	must.Same(t, string(s.Flush(s.Append(nil, []byte("a\rb\r\nc\r")))), "ab\nc", "Sanitizer = %q, want %q")
}

// A string sequence that never ends does not swallow what follows, and is not held for ever.
func TestSanitizeEndless(t *testing.T) {
	text := strings.Repeat("line\n", 40_000)
	var s output.Sanitizer
	if got := string(s.Append(nil, []byte("\x1bP"+text))); got != "P"+text {
		t.Errorf("%d bytes of %d came through", len(got), len(text))
	}
}

// inPieces sanitizes b in chunks of the given lengths.
func inPieces(b []byte, length func(rest int) int) string {
	var s output.Sanitizer
	var out []byte
	for len(b) > 0 {
		n := length(len(b))
		chunk := bytes.Clone(b[:n])
		out = s.Append(out, chunk)
		for i := range chunk { // which is the caller's again
			chunk[i] = 'X'
		}
		b = b[n:]
	}
	return string(s.Flush(out))
}

// streams draws bytes that lean towards what the Sanitizer looks for.
var streams = rapid.Custom(func(t *rapid.T) []byte {
	piece := rapid.SampledFrom([]string{"a", "é", "漢", "😀", "\n", "\r", "\r\n", "\x1b", "\x1b[", "31", "m", "\x1b]", ";", "\a",
		"\x1b\\", "\x1bP", "\x1b7", "(",
		"\x00", "\x7f", "\xc2", "\x85", "\xff", "\xf0\x9f", "\xed\xa0\xbd", "\xed\xb8\x80", "\xed", "\xa0", "line of text\n"})
	return []byte(strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), ""))
})

func TestSanitizerProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := streams.Draw(r, "text")
		sanitizes(r, text, func(rest int) int { return rapid.IntRange(1, rest).Draw(r, "length") })
	})
}

// sanitizes checks what holds for any stream: its chunks do not matter, the result is clean, and sanitizing it again
// changes nothing.
func sanitizes(t interface{ Fatalf(string, ...any) }, text []byte, length func(rest int) int) {
	whole := output.Sanitize(text)
	if got := inPieces(text, length); got != string(whole) {
		t.Fatalf("in pieces = %q, want %q", got, whole)
	}
	dirty := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r < 0xA0 }
	if !utf8.Valid(whole) || bytes.ContainsFunc(whole, dirty) {
		t.Fatalf("Sanitize(%q) = %q", text, whole)
	}
	if again := output.Sanitize(whole); !bytes.Equal(again, whole) {
		t.Fatalf("Sanitize(%q) = %q", whole, again)
	}
}

func FuzzSanitizer(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\r\n\x1b]0;t\a\xed\xa0\xbd\xed\xb8\x80"), byte(3))
	f.Fuzz(func(t *testing.T, text []byte, n byte) {
		sanitizes(t, text, func(rest int) int { return min(rest, int(n)%7+1) })
	})
}

func BenchmarkSanitizer(b *testing.B) {
	chunk := []byte(strings.Repeat("\x1b[32mok\x1b[0m  \tspool/internal/x\t0.01s\r\n", 100))
	var s output.Sanitizer
	var out []byte
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		out = s.Append(out[:0], chunk)
	}
}

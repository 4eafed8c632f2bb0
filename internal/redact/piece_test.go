package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// wide are texts with a secret that is longer than a piece of an output, nobody's.
func wide(g *maker) map[string]string {
	key := func(lines int) string {
		return "-----BEGIN RSA PRIV" + "ATE KEY-----\n" + g.lines(lines, 64) + "-----END RSA PRIV" + "ATE KEY-----\n"
	}
	part := func(s string) string { return strings.TrimRight(b64(s), "=") }
	return map[string]string{
		"a key":                key(25),
		"a key of 6 KiB":       key(100),
		"a key with CRLF":      strings.ReplaceAll(key(50), "\n", "\r\n"),
		"a key that is deeper": "key: |\n    " + strings.ReplaceAll(key(25), "\n", "\n    ") + "\n",
		"a key in base64":      "    client-key-data: " + b64(key(50)) + "\n",
		"a token with 6000 bytes": "t " + part(`{"alg":"HS256","typ":"JWT"}`) + "." + part(`{"sub":"`+g.of(alnum, 4400)+`"}`) +
			"." + g.of(words, 43) + "\n",
	}
}

// What is masked in a text as a whole is masked where it comes in pieces that end anywhere, at ends of lines too.
func TestPiecesEndAnywhere(t *testing.T) {
	g := &maker{rand.New(rand.NewPCG(3, 5))}
	ends := map[string]func(rest string) int{
		"anywhere":       func(rest string) int { return min(len(rest), 1+g.IntN(300)) },
		"in long pieces": func(rest string) int { return min(len(rest), 1000+g.IntN(3000)) },
		"with a line":    func(rest string) int { return strings.IndexByte(rest, '\n') + 1 },
		"with three lines": func(rest string) int {
			n := 0
			for range 3 {
				n += strings.IndexByte(rest[n:], '\n') + 1
			}
			return n
		},
	}
	for name, text := range wide(g) {
		text = "üä\n" + text + "end\n"
		whole, n := mask().Blank([]byte(text))
		if n == 0 {
			t.Fatalf("%s: nothing is found", name)
		}
		for at, end := range ends {
			got := inPieces(text, end)
			left := 0
			for i := range min(len(got), len(text)) {
				if whole[i] == '*' && got[i] != '*' && text[i] > ' ' {
					left++
				}
			}
			if left > 0 || len(got) != len(text) {
				t.Errorf("%s, in pieces that end %s: %d bytes are left, of %d: %.200q", name, at, left, len(got), got)
			}
		}
	}
}

// inPieces is what comes of a text in pieces whose length is told of the rest.
func inPieces(text string, length func(rest string) int) string {
	r := mask()
	var out strings.Builder
	var some, context, held []byte
	for len(text) > 0 {
		n := length(text)
		some, context, held, _ = r.Piece(context, held, []byte(text[:n]), false)
		out.Write(some)
		text = text[n:]
	}
	some, _, _, _ = r.Piece(context, held, nil, true)
	out.Write(some)
	return out.String()
}

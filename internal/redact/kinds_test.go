package redact_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"spool/internal/must"
	"strconv"
	"strings"
	"testing"
)

// remains is the longest part of a secret that a text has.
func remains(text, secret string) string {
	longest := ""
	for i := range secret {
		for n := len(longest) + 1; i+n <= len(secret) && strings.Contains(text, secret[i:i+n]); n++ {
			longest = secret[i : i+n]
		}
	}
	return longest
}

// bare is a secret as one line.
func bare(secret string) string { return strings.TrimSpace(secret) }

// harmless is how many bytes of a secret may be left: they may be there by chance, or are the letters with which all of
// a kind begin.
func harmless(secret string) int { return max(5, min(len(secret)/4, 8)) }

func escaped(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// spelled is a string of JSON with every letter of the secret as an escape.
func spelled(text, secret string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		if c == '\n' {
			b.WriteString(`\n`)
			continue
		}
		fmt.Fprintf(&b, `\u%04X`, c)
	}
	return strings.ReplaceAll(escaped(text), strings.Trim(escaped(secret), `"`), b.String())
}

func indent(text, margin string) string { return margin + strings.ReplaceAll(text, "\n", "\n"+margin) }

// forms are the ways in which a text with a secret comes; true: as JSON.
func forms(text, secret string) map[string]struct {
	text string
	json bool
} {
	type form = struct {
		text string
		json bool
	}
	return map[string]form{
		"text":  {text, false},
		"shell": {"$ cat notes\n" + text + "\n$ ls\nREADME.md\n", false},
		"yaml":  {"steps:\n  - run: |\n" + indent(text, "      ") + "\n", false},
		"diff":  {"@@ -1,2 +1,3 @@\n" + indent(text, "+") + "\n-old\n", false},
		"json":  {`{"type":"user","text":` + escaped("before\n"+text+"\nbehind") + `}`, true},
		"json with escapes": {`{"type":"user","text":` + spelled("before\n"+text+"\nbehind", secret) + `}`,
			true},
		"json in json": {`{"text":` + escaped(`{"out":`+escaped("before\n"+text+"\nbehind")+`}`) + `}`,
			true},
		"json with escapes in json": {`{"text":` + escaped(`{"out":`+spelled("before\n"+text+"\nbehind",
			secret)+`}`) + `}`, true},
		"json in json in json": {`{"text":` + escaped(`{"text":`+escaped(`{"out":`+escaped("a\n"+text+"\nb")+`}`)+`}`) + `}`, true},
	}
}

// acrossWords is in the name of kinds that later words make secret. In pieces of an output they are found only when
// these come in the same piece.
const acrossWords = " (before what tells)"

var unescapeHex = regexp.MustCompile(`u00[0-7][0-9A-F]`)

// TestKinds: every kind of secret is found in every form; and its figure.
func TestKinds(t *testing.T) {
	const want = 150
	r, texts, missed := mask(), 0, 0
	for i, k := range kinds {
		g := &maker{rand.New(rand.NewPCG(7, uint64(i)))}
		whole := true
		for _, place := range k.places {
			secret := k.make(g)
			text := fmt.Sprintf(place, secret)
			for name, f := range forms(text, secret) {
				texts++
				got, n := r.Clean([]byte(f.text), f.json)
				plain := string(got)
				if f.json {
					if !json.Valid(got) {
						t.Errorf("%s, %s: no JSON any more: %s", k.name, name, got)
					}
					var v struct{ Text string }
					must.Do(t, json.Unmarshal(got, &v))
					plain = unescapeHex.ReplaceAllStringFunc(strings.ReplaceAll(v.Text, `\`, ""),
						func(escape string) string {
							c, _ := strconv.ParseUint(escape[1:], 16, 8)
							return string(rune(c))
						})
				}
				left := remains(plain, bare(secret))
				if n == 0 || len(left) > harmless(secret) {
					whole = false
					t.Errorf("%s, %s: %q is left, %d found: %.300s", k.name, name, left, n, got)
				}
			}
			clean, _ := r.Clean([]byte(text), false)
			if again, n := r.Clean(clean, false); n > 0 {
				t.Errorf("%s: %d found in what is clean: %.300s", k.name, n, again)
			}
			for _, cut := range []int{1, 3, 7, 16, 64} {
				if strings.HasSuffix(k.name, acrossWords) {
					break
				}
				texts++
				got := pieces(text+"\nend\n", cut)
				if left := remains(got, bare(secret)); len(left) > harmless(secret) || len(got) != len(text)+5 {
					whole = false
					t.Errorf("%s, in pieces of %d: %q is left of %d bytes: %.300s", k.name, cut, left, len(text)+5, got)
				}
			}
		}
		if !whole {
			missed++
		}
	}
	t.Logf("found: %d of %d kinds of secrets, in %d texts", len(kinds)-missed, len(kinds), texts)
	if len(kinds) < want || missed > 0 {
		t.Errorf("%d of %d kinds are found, want all of %d at least", len(kinds)-missed, len(kinds), want)
	}
}

// pieces is what comes of a text in pieces of some bytes.
func pieces(text string, n int) string {
	r := mask()
	var out strings.Builder
	var context, held []byte
	for at := 0; at < len(text); at += n {
		var some []byte
		some, context, held, _ = r.Piece(context, held, []byte(text[at:min(len(text), at+n)]), false)
		out.Write(some)
	}
	some, _, _, _ := r.Piece(context, held, nil, true)
	out.Write(some)
	return out.String()
}

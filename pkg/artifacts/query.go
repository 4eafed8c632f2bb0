package artifacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"spool/internal/jsonscan"
)

// step goes from a value to one of its members: by name, or by index into an array.
type step struct {
	name  string
	index bool // name is digits and stands in brackets without quotes
}

// pathQuery writes the segments of a path as a query: /list/0/special%20key is .list[0]['special key'] (SPEC A9).
func pathQuery(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		digits, rest := leadingDigits(s)
		switch {
		case digits != "" && rest == "":
			b.WriteString("[" + s + "]")
		case s != "" && len(identifier(s)) == len(s):
			b.WriteString("." + s)
		default:
			b.WriteString("['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "']")
		}
	}
	return b.String()
}

// identifier is what s begins with of A-Z a-z 0-9 _ -.
func identifier(s string) string {
	end := 0
	for end < len(s) && (s[end] == '_' || s[end] == '-' || s[end] >= '0' && s[end] <= '9' || s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z') {
		end++
	}
	return s[:end]
}

var unquote = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`)

// parseQuery reads .name, [0], ['any name'] and ["any name"], one after the other; the first dot may be left out, and
// "" and "." are the whole. Errors wrap ErrURL, with texts word for word (SPEC A9).
func parseQuery(query string) ([]step, error) {
	var steps []step
	rest := strings.TrimSpace(query)
	for rest != "" {
		switch rest[0] {
		case '.':
			rest = rest[1:]
		case '[':
			inner, after, closed := strings.Cut(rest[1:], "]")
			inner = strings.TrimSpace(inner)
			if !closed {
				return nil, refuse(ErrURL, "Invalid query: missing ] in %s", query)
			}
			if inner == "" {
				return nil, refuse(ErrURL, "Invalid query: empty [] in %s", query)
			}
			steps = append(steps, bracketed(inner))
			rest = after
		default:
			name := identifier(rest)
			if name == "" {
				_, n := utf8.DecodeRuneInString(rest)
				return nil, refuse(ErrURL, "Invalid query: unexpected token '%s' in %s", rest[:n], query)
			}
			steps = append(steps, step{name: name})
			rest = rest[len(name):]
		}
	}
	return steps, nil
}

// bracketed reads what stands in brackets; what is neither quoted nor digits is a name as it is.
func bracketed(s string) step {
	if q := s[0]; (q == '"' || q == '\'') && s[len(s)-1] == q {
		return step{name: unquote.Replace(s[1:max(1, len(s)-1)])}
	}
	_, rest := leadingDigits(s)
	return step{name: s, index: rest == ""}
}

// extract is the value that the steps lead to in a valid JSON text; nil if there is none. Numbers in brackets go into
// arrays only; names go into objects, and into arrays as "length" or the digits of an index. Only a value's own members
// count.
func extract(raw []byte, steps []step) []byte {
	for _, s := range steps {
		switch jsonscan.KindOf(raw) {
		case jsonscan.KindArray:
			raw = element(raw, s)
		case jsonscan.KindObject:
			if s.index {
				return nil
			}
			raw = jsonscan.Get(raw, s.name)
		default:
			return nil
		}
	}
	return raw
}

func element(array []byte, s step) []byte {
	n, _ := leadingSeq(s.name)
	at, err := strconv.Atoi(string(n))
	if !s.index && s.name != "length" && (err != nil || string(n) != s.name) {
		return nil
	}
	i, found := 0, []byte(nil)
	_ = jsonscan.Array(array, func(v []byte) bool {
		if err == nil && i == at {
			found = v
		}
		i++
		return found == nil
	})
	if s.name == "length" {
		return strconv.AppendInt(nil, int64(i), 10)
	}
	return found
}

// pretty is a JSON value over several lines, indented by two spaces; null for no value. Spelling and order of what is in
// it stay as they are (SPEC T11).
func pretty(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return raw // not JSON after all
	}
	return b.Bytes()
}

// checkJSON says why a text is not JSON. Text that does not even begin like JSON is described in the words that the
// programs which write agent:// addresses know; for all else it is the offset that helps.
func checkJSON(raw []byte) error {
	invalid := jsonscan.Valid(raw)
	if invalid == nil {
		return nil
	}
	const said = "JSON Parse error: "
	text := string(raw[jsonscan.SkipSpace(raw, 0):])
	first, n := utf8.DecodeRuneInString(text)
	word := text[:wordLen(text)]
	switch {
	case text == "":
		return errors.New(said + "Unexpected EOF")
	case word != "" && word != "true" && word != "false" && word != "null":
		return fmt.Errorf(said+"Unexpected identifier %q", word)
	case word == "" && (first >= utf8.RuneSelf || strings.IndexByte("!#%&*+/;<=>?@\\^`|~", text[0]) >= 0):
		return fmt.Errorf(said+"Unrecognized token '%s'", text[:n])
	}
	return invalid
}

// wordLen is the length of the identifier that text begins with.
func wordLen(text string) int {
	n := 0
	for n < len(text) && (text[n] == '_' || text[n] == '$' || text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z' || n > 0 &&
		text[n] >= '0' && text[n] <= '9') {
		n++
	}
	return n
}

package truncate_test

import (
	"strconv"
	"testing"
	"unicode/utf16"

	"spool/internal/jsonscan"
)

// parse decodes a JSON text so that two texts are equal if a JavaScript program could not tell them apart: strings as
// UTF-16 units (lone surrogates kept), numbers as float64, of duplicate keys the last.
func parse(t testing.TB, raw []byte) any {
	t.Helper()
	switch jsonscan.KindOf(raw) {
	case jsonscan.KindObject:
		object := map[string]any{}
		check(t, jsonscan.Object(raw, func(k, v []byte) bool { object[string(k)] = parse(t, v); return true }))
		return object
	case jsonscan.KindArray:
		array := []any{}
		check(t, jsonscan.Array(raw, func(v []byte) bool { array = append(array, parse(t, v)); return true }))
		return array
	case jsonscan.KindString:
		return string(units(t, raw))
	case jsonscan.KindNumber:
		n, _ := strconv.ParseFloat(string(raw), 64)
		return n
	default:
		return "literal " + string(raw)
	}
}

// units is a string token as UTF-16, a rune a unit.
func units(t testing.TB, token []byte) []rune {
	t.Helper()
	var out []rune
	for body := token[1 : len(token)-1]; len(body) > 0; {
		r, n := jsonscan.Rune(body)
		if n == 0 {
			t.Fatalf("string token %.60q is broken", token)
		}
		switch {
		case n == 6 && r == 0xFFFD: // a lone surrogate, moved to where runes are free
			u, _ := strconv.ParseUint(string(body[2:6]), 16, 16)
			out = append(out, 0x100000+rune(u))
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = append(out, 0x100000+high, 0x100000+low)
		default:
			out = append(out, r)
		}
		body = body[n:]
	}
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

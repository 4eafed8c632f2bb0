package main

import (
	"encoding/json"
	"path/filepath"
	"spool/internal/must"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeJSON(t *testing.T) {
	for _, c := range []struct {
		in   string
		want any
	}{
		{`1`, json.Number("1")},
		{`1.0`, json.Number("1")},
		{`1e0`, json.Number("1")},
		{`-0`, json.Number("0")},
		{`1.50`, json.Number("1.5")},
		{`12345678901234567890`, json.Number("12345678901234567000")},
		{`"\ud83d"`, "\xed\xa0\xbd"},
		{`"\ud83d\ude00"`, "😀"},
		{`"\ude00\ud83d"`, "\xed\xb8\x80\xed\xa0\xbd"},
		{`"\ud83d\ud83d\ude00"`, "\xed\xa0\xbd😀"},
		{"\"a\xffb\"", "a\uFFFDb"},
		{"\"\xf0\x9f\x98x\"", "\uFFFDx"},
		{"\"\xed\xa0\xbd\"", "\uFFFD\uFFFD\uFFFD"},
		{`"\"\\\/\b\f\n\r\t\u0041"`, "\"\\/\b\f\n\r\tA"},
		{` { "a" : 1, "a" : [ true , false, null, {} ] } `, map[string]any{"a": []any{true, false, nil, map[string]any{}}}},
	} {
		got, err := decodeJSON([]byte(c.in))
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("decodeJSON(%s) = %#v, %v, want %#v", c.in, got, err, c.want)
		}
		again, err := decodeJSON(encodeJSON(got))
		if err != nil || !cmp.Equal(again, got) {
			t.Errorf("decodeJSON(encodeJSON(%s)) = %#v, %v", c.in, again, err)
		}
	}
	for _, bad := range []string{``, `{`, `[1,]`, `01`, `"\x"`, `{} x`} {
		if got, err := decodeJSON([]byte(bad)); err == nil {
			t.Errorf("decodeJSON(%q) = %v, want an error", bad, got)
		}
	}
}

// TestExpand makes the inputs of the persist group from their recipes and compares them with the inputs as given.
func TestExpand(t *testing.T) {
	specs, err := filepath.Glob(filepath.Join(golden, "persist", "*", "input.spec.json"))
	if err != nil || len(specs) == 0 {
		t.Fatalf("found %d recipes, %v", len(specs), err)
	}
	for _, name := range specs {
		spec := must.Get(readJSON(name))(t)
		want := must.Get(readJSON(filepath.Join(filepath.Dir(name), "input.json")))(t)
		got, err := expand(spec)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("expand(%s) is not the input: %v", name, err)
		}
	}
}

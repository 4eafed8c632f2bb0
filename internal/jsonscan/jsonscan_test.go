package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

func TestValid(t *testing.T) {
	good := []string{
		`null`, ` true `, "\t\r\n false\n", `0`, `-0`, `10`, `-1.5e+10`, `1E400`, `0.0001`, `""`, `"a"`, `{}`, `[]`, `[ ]`, `{ }`,
		`{"a":1,"a":2}`, ` { "a" : [ 1 , { "b" : null } ] } `, `"\ud83d"`, `"\"\\\/\b\f\n\r\t\u00aF"`, "\"\xff\xfe\"", "\"\x7f\"",
		strings.Repeat("[", 256) + strings.Repeat("]", 256), `[[],[[]],{"a":{}}]`,
	}
	for _, s := range good {
		must.Is(t, jsonscan.Valid([]byte(s)), nil, "Valid(%.40q)", s)
	}
	bad := []string{
		``, ` `, `nul`, `nulll`, `truex`, `01`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `--1`, `0x1`, `NaN`, `"`, `"a`, `"\`, `"\x"`,
		`"\u12"`, `"\u12g4"`,
		"\"\n\"", "\"\x00\"", "\"abcdefghij\x1fk\"", `{`, `}`, `[`, `]`, `[}`, `{]`, `[1}`, `{"a":1]`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`,
		`{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `1 2`, `{} x`, "\ufeff{}", `'a'`, `[1]]`, `{"a":1}}`,
	}
	for _, s := range bad {
		must.Is(t, jsonscan.Valid([]byte(s)), jsonscan.ErrSyntax, "Valid(%q)", s)
	}
	for _, deep := range []string{strings.Repeat("[", 257) + strings.Repeat("]", 257), strings.Repeat(`{"a":`, 257) + "1" +
		strings.Repeat("}", 257)} {
		must.Is(t, jsonscan.Valid([]byte(deep)), jsonscan.ErrDepth, "Valid(257 levels)")
	}
	if err := jsonscan.Valid([]byte(`{"a":x}`)); err == nil || !strings.Contains(err.Error(), "byte 5") {
		t.Errorf("Valid = %v, want the offset 5", err)
	}
}

func TestObjectAndArray(t *testing.T) {
	var got []string
	err := jsonscan.Object([]byte(` { "a" : 1.0 , "\u0062\n" : [ "}" , 2 ] , "a":{"x":"]"},"":null } `), func(k, v []byte) bool {
		got = append(got, fmt.Sprintf("%s=%s", k, v))
		return true
	})
	want := []string{`a=1.0`, "b\n=[ \"}\" , 2 ]", `a={"x":"]"}`, `=null`}
	if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("Object = %q, %v, want %q", got, err, want)
	}
	got = nil
	err = jsonscan.Array([]byte(` [ 1 ,"a,]", [ ] ,{"b":[1]}, -1e5 ] `), func(v []byte) bool {
		got = append(got, string(v))
		return true
	})
	want = []string{`1`, `"a,]"`, `[ ]`, `{"b":[1]}`, `-1e5`}
	if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("Array = %q, %v, want %q", got, err, want)
	}
	calls := 0
	if err := jsonscan.Array([]byte(`[1,2,3]`), func([]byte) bool { calls++; return calls < 2 }); err != nil || calls != 2 {
		t.Errorf("Array stopped after %d calls, %v, want 2, nil", calls, err)
	}
	for _, s := range []string{``, `1`, `[]`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1]`, `{} {}`, `{a:1}`} {
		must.Is(t, jsonscan.Object([]byte(s), func(_, _ []byte) bool { return true }), jsonscan.ErrSyntax, "Object(%q)", s)
	}
	for _, s := range []string{``, `1`, `{}`, `[1`, `[1,`, `[1}`, `[] []`, `[,]`} {
		must.Is(t, jsonscan.Array([]byte(s), func([]byte) bool { return true }), jsonscan.ErrSyntax, "Array(%q)", s)
	}
}

func TestGet(t *testing.T) {
	raw := []byte(`{"a":{"b":1},"k\u0065y":" x ","a":{"c":[1]},"n":null}`)
	for _, c := range []struct{ path, want string }{{"a/b", ""}, {"a/c", "[1]"}, {"key", `" x "`}, {"n", "null"}, {"n/x", ""},
		{"zz", ""}, {"a/c/d", ""}} {
		must.Same(t, string(jsonscan.Get(raw, strings.Split(c.path, "/")...)), c.want, "Get(%s) = %q, want %q", c.path)
	}
	if got := jsonscan.Get(raw); len(got) != len(raw) {
		t.Errorf("Get() = %q, want the whole text", got)
	}
	if jsonscan.Get(raw, "zz") != nil {
		t.Error("Get(zz) is not nil")
	}
}

func TestScalars(t *testing.T) {
	kinds := map[string]jsonscan.Kind{
		"null": jsonscan.KindNull, " true": jsonscan.KindBool, "false": jsonscan.KindBool, "-1": jsonscan.KindNumber, "0": jsonscan.KindNumber,
		`"x"`: jsonscan.KindString, "{}": jsonscan.KindObject, "\n[1]": jsonscan.KindArray, "": jsonscan.KindInvalid, "x": jsonscan.KindInvalid,
	}
	for s, want := range kinds {
		must.Same(t, jsonscan.KindOf([]byte(s)), want, "KindOf(%q) = %v, want %v", s)
	}
	ints := map[string]any{
		"5": int64(5), " -7 ": int64(-7), "5.0": int64(5), "1e3": int64(1000), "-0": int64(0), "9223372036854775807": int64(1<<63 - 1),
		"9223372036854775808": nil, "1.5": nil, `"5"`: nil, "null": nil, "": nil, "1e40": nil, "1e400": nil,
	}
	for s, want := range ints {
		got, ok := jsonscan.Int([]byte(s))
		if ok != (want != nil) || ok && got != want {
			t.Errorf("Int(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for s, want := range map[string][2]bool{"true": {true, true}, " false ": {false, true}, "1": {}, "": {}, `"true"`: {}} {
		if v, ok := jsonscan.Bool([]byte(s)); v != want[0] || ok != want[1] {
			t.Errorf("Bool(%q) = %v, %v, want %v", s, v, ok, want)
		}
	}
}

// agentEntry is about 2 KB, shaped like a tool call with its result.
var agentEntry = []byte(`{"type":"message","id":"a1b2c3d4","parentId":"00ff00ff","timestamp":"2026-05-20T10:00:00.000Z","message":{"role":"assistant",` +
	`"content":[{"type":"text","text":"` + strings.Repeat("I looked at the parser and found the prefix handling. ", 12) + `"},` +
	`{"type":"toolCall","id":"call_1","name":"bash","arguments":{"command":"go test ./...","timeout":120,"background":false}},` +
	`{"type":"text","text":"` + strings.Repeat(`ok  \tspool/internal/x\t0.01s\n`, 25) + `"}],` +
	`"usage":{"input":1200,"output":322,"cacheRead":9600,"cost":{"input":0.0031,"output":0.0042,"total":0.0073}},"stopReason":"toolUse","ts":1763700000123}}`)

func BenchmarkValid(b *testing.B) {
	b.SetBytes(int64(len(agentEntry)))
	for b.Loop() {
		must.Do(b, jsonscan.Valid(agentEntry))
	}
}

func BenchmarkGet(b *testing.B) {
	b.SetBytes(int64(len(agentEntry)))
	for b.Loop() {
		if jsonscan.Get(agentEntry, "message", "stopReason") == nil {
			b.Fatal("absent")
		}
	}
}

func BenchmarkStdlibValid(b *testing.B) {
	b.SetBytes(int64(len(agentEntry)))
	for b.Loop() {
		if !json.Valid(agentEntry) {
			b.Fatal("not valid")
		}
	}
}

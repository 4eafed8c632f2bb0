package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		ok        bool
	}{
		{`""`, "", true}, {` "abc" `, "abc", true}, {`"a\"\\\/\b\f\n\r\tz"`, "a\"\\/\b\f\n\r\tz", true}, {`"\u0041\u4e2d"`, "A中", true},
		{`"\ud83c\udf4a!"`, "🍊!", true}, {`"\ud83c"`, "\uFFFD", true}, {`"\udf4a\ud83c"`, "\uFFFD\uFFFD", true},
		{`"\ud83c\u0041"`, "\uFFFDA", true},
		{"\"a\xff\xfe\"", "a\uFFFD\uFFFD", true}, {"\"\xff\\n\"", "\uFFFD\n", true}, {`1`, "", false}, {`"a`, "", false},
		{`"a"b`, "", false}, {``, "", false}, {`"\q"`, "", false},
	} {
		if got, ok := jsonscan.Text([]byte(c.raw)); got != c.want || ok != c.ok {
			t.Errorf("Text(%q) = %q, %v, want %q, %v", c.raw, got, ok, c.want, c.ok)
		}
	}
}

func TestPrefixLinesFirstLine(t *testing.T) {
	for _, c := range []struct {
		raw  string
		n    int
		want string
		more bool
	}{{`"abc"`, 2, "ab", true}, {`"abc"`, 3, "abc", false}, {`"\ud83c\udf4a\nx"`, 2, "🍊\n", true}, {`""`, 0, "", false},
		{`"a"`, 0, "", true}, {`5`, 3, "", false}} {
		if got, more := jsonscan.Prefix([]byte(c.raw), c.n); got != c.want || more != c.more {
			t.Errorf("Prefix(%s, %d) = %q, %v, want %q, %v", c.raw, c.n, got, more, c.want, c.more)
		}
	}
	for raw, want := range map[string]int{`""`: 0, `"a"`: 0, `"a\nb\n"`: 2, `"\\n"`: 0, `"\\\n"`: 1, `"\u000a\u000A\u000b"`: 2,
		`"\\u000a"`: 0, `"\r"`: 0, `1`: 0} {
		must.Same(t, jsonscan.Lines([]byte(raw)), want, "Lines(%s) = %d, want %d", raw)
	}
	for _, c := range []struct {
		raw  string
		max  int
		want string
	}{
		{`"a\nb"`, 100, "a"}, {`"\n\r\n  \t\n  x y  \nz"`, 100, "x y"}, {`""`, 5, ""}, {`" \n "`, 5, ""}, {`"线程存储"`, 7, "线程"},
		{`"abcdef"`, 3, "abc"}, {`"\u00a0\nq"`, 9, "q"}, {`{}`, 3, ""},
	} {
		must.Same(t, jsonscan.FirstLine([]byte(c.raw), c.max), c.want, "FirstLine(%s, %d) = %q, want %q", c.raw, c.max)
	}
}

func TestAppendString(t *testing.T) {
	for _, c := range []struct{ s, want string }{
		{"", `""`}, {"a<b>&\u2028\x7f/", "\"a<b>&\u2028\x7f/\""}, {"\"\\\b\t\n\f\r\x00\x1b", `"\"\\\b\t\n\f\r\u0000\u001b"`},
		{"x\xffy\xe4\xbd", "\"x\uFFFDy\uFFFD\uFFFD\""}, {"线🍊\uFFFD", "\"线🍊\uFFFD\""},
	} {
		must.Same(t, string(jsonscan.AppendString(nil, c.s)), c.want, "AppendString(%q) = %s, want %s", c.s)
	}
}

// FuzzScan holds Valid against encoding/json, and walks every input, JSON or not, with every function.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,"b\n",{"c":null}],"a":-1.5e3}`, `"\ud83c\udf4a"`, `[[[]]]`, "\"\xff\"", `{"a"`, `"\`,
		`"\u12`, ` 1 `, `{"\u0061":{}}`, `[1,`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := jsonscan.Valid(raw)
		if deep := strings.Count(string(raw), "[") + strings.Count(string(raw), "{"); deep <= jsonscan.MaxDepth &&
			(err == nil) != json.Valid(raw) {
			t.Fatalf("Valid(%q) = %v, encoding/json says %v", raw, err, json.Valid(raw))
		}
		walk(t, raw, err == nil, 0)
		text, ok := jsonscan.Text(raw)
		if ok && !utf8.ValidString(text) {
			t.Fatalf("Text(%q) = %q, not UTF-8", raw, text)
		}
		var want string
		if err == nil && jsonscan.KindOf(raw) == jsonscan.KindString && json.Unmarshal(raw, &want) == nil && text != want {
			t.Fatalf("Text(%q) = %q, want %q", raw, text, want)
		}
		if ok {
			if again, _ := jsonscan.Text(jsonscan.AppendString(nil, text)); again != text {
				t.Fatalf("Text(AppendString(%q)) = %q", text, again)
			}
			if got := jsonscan.Lines(raw); got != strings.Count(text, "\n") {
				t.Fatalf("Lines(%q) = %d, want %d", raw, got, strings.Count(text, "\n"))
			}
			if got, more := jsonscan.Prefix(raw, len(text)); got != text || more {
				t.Fatalf("Prefix(%q) = %q, %v, want all of %q", raw, got, more, text)
			}
		}
		jsonscan.Lines(raw)
		jsonscan.Prefix(raw, 3)
		jsonscan.FirstLine(raw, 9)
		jsonscan.Get(raw, "a", "b")
		jsonscan.Int(raw)
		jsonscan.Bool(raw)
	})
}

func walk(t *testing.T, raw []byte, valid bool, depth int) {
	if depth > 20 {
		return
	}
	errObject := jsonscan.Object(raw, func(_, value []byte) bool { walk(t, value, valid, depth+1); return true })
	errArray := jsonscan.Array(raw, func(value []byte) bool { walk(t, value, valid, depth+1); return true })
	if kind := jsonscan.KindOf(raw); valid && ((kind == jsonscan.KindObject) != (errObject == nil) ||
		(kind == jsonscan.KindArray) != (errArray == nil)) {
		t.Fatalf("walking %q: Object %v, Array %v", raw, errObject, errArray)
	}
}

func TestBrokenTextIsReadAsFarAsItGoes(t *testing.T) {
	if got, more := jsonscan.Prefix([]byte(`"ab\x"`), 9); got != "ab" || more {
		t.Errorf("Prefix = %q, %v, want ab, false", got, more)
	}
	must.Same(t, jsonscan.FirstLine([]byte(`"ab\x"`), 9), "ab", "FirstLine = %q, want %q")
	for _, s := range []string{`[`, `["a`, `{"a":[{]`, `:`, ``} {
		must.Same(t, jsonscan.SkipValue([]byte(s), 0), -1, "SkipValue(%q) = %d, want %d", s)
	}
	must.Same(t, jsonscan.SkipString([]byte(`"a\q"`), 0), -1, "SkipString = %d, want %d")
}

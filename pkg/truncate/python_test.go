package truncate_test

import (
	"os"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/truncate"
)

// toolResult is the item shape of items_json_dumps_len.json.
func toolResult(output string) truncate.Parts {
	return truncate.Parts{
		Content:  []byte(`[{"type":"text","text":"x"}]`),
		Metadata: append(jsonscan.AppendString([]byte(`{"type":"tool_result","tool":{"invocation_id":"tu_1","is_error":false,"output":`), output), "}}"...),
	}
}

// measured is the length Item finds, made to measure by a budget that only just fits.
func measured(t *testing.T, item truncate.Parts, want int) int {
	t.Helper()
	r, err := truncate.Item(item, truncate.Budget{Bytes: want})
	check(t, err)
	return r.Len
}

func TestPythonLenSeedVectors(t *testing.T) {
	file, err := os.ReadFile("../../testdata/golden/items_json_dumps_len.json")
	check(t, err)
	large := map[string]truncate.Parts{
		"ascii 349900": toolResult(strings.Repeat("a", 349_900)),
		"cjk 60000 (180 KB of UTF-8 but 360 KB of json.dumps)": toolResult(strings.Repeat("线", 60_000)),
		"newlines 200000 (each 2 bytes escaped)":               toolResult(strings.Repeat("\n", 200_000)),
		"overhead of this tool_result shape with empty output": toolResult(""),
	}
	check(t, jsonscan.Array(jsonscan.Get(file, "rows"), func(row []byte) bool {
		name, _ := jsonscan.Text(jsonscan.Get(row, "name"))
		want, _ := jsonscan.Int(jsonscan.Get(row, "len_json_dumps_default"))
		item := jsonscan.Get(row, "item")
		parts, ok := large[name]
		if !ok {
			parts = truncate.Parts{Content: jsonscan.Get(item, "content"), Metadata: jsonscan.Get(item, "metadata")}
			if got := truncate.PythonLen(item); got != int(want) {
				t.Errorf("%s: PythonLen = %d, want %d", name, got, want)
			}
		}
		if got := measured(t, parts, int(want)); got != int(want) {
			t.Errorf("%s: Len = %d, want %d", name, got, want)
		}
		return true
	}))
	if r, err := truncate.Item(toolResult(strings.Repeat("a", 349_851)), truncate.Budget{}); err != nil ||
		r.Len != 350_000 || r.Fields != nil {
		t.Errorf("Item at the budget: Len %d, cut %q, %v, want 350000 and nothing cut", r.Len, r.Fields, err)
	}
}

// The lengths of python_len.json were printed by Python 3.11: len(json.dumps(json.loads(text))).
func TestPythonLenRandomVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/golden/python_len.json")
	check(t, err)
	check(t, jsonscan.Array(file, func(row []byte) bool {
		text, _ := jsonscan.Text(jsonscan.Get(row, "text"))
		want, _ := jsonscan.Int(jsonscan.Get(row, "len"))
		if got := truncate.PythonLen([]byte(text)); got != int(want) {
			t.Errorf("PythonLen(%s) = %d, want %d", text, got, want)
		}
		return true
	}))
}

func TestPythonLen(t *testing.T) {
	for raw, want := range map[string]int{
		`{}`: 2, `[]`: 2, ` [ 1 , 2 ] `: 6, `{"a":1,"b":[]}`: len(`{"a": 1, "b": []}`), `{"a":1,"\u0061":[1]}`: len(`{"a": [1]}`),
		`-0`: 1, `-0.0`: 4, `1e5`: len("100000.0"), `1E400`: len("Infinity"), `-1e400`: len("-Infinity"), `1e16`: len("1e+16"),
		`0.00001`:  len("1e-05"),
		"\"\x7f\"": 8, `"\/"`: 3, `"\u0041\u0022\u000a\u0000"`: 2 + 1 + 2 + 2 + 6, `"🍊"`: 14, `"\ud83c\udf4a"`: 14, `"\ud83c"`: 8,
		"\"\xff\"": 8, "\"\xff🍊\\n\"": 2 + 6 + 12 + 2,
		`{"\ud83c":1,"\ud83d":2,"\ufffd":3}`: len(`{"\ud83c": 1, "\ud83d": 2, "\ufffd": 3}`), `nul`: -1, ``: -1, `[1,]`: -1,
	} {
		must.Same(t, truncate.PythonLen([]byte(raw)), want, "PythonLen(%q) = %d, want %d", raw)
	}
	var many strings.Builder
	for i := range 40 { // more than a short list of members, each twice
		many.WriteString(`"k` + string(rune('A'+i%20)) + `":` + strings.Repeat("1", 1+i/20) + `,`)
	}
	if got, want := truncate.PythonLen([]byte("{"+many.String()+`"z":0}`)), 2+20*len(`"kA": 11, `)+len(`"z": 0`); got != want {
		t.Errorf("PythonLen of an object with duplicates = %d, want %d", got, want)
	}
}

func BenchmarkPythonLen(b *testing.B) {
	raw := []byte(`{"type":"tool_result","tool":{"output":"` + strings.Repeat(`ok  spool/internal/x 0.01s — 完了\n`, 3_000) + `"}}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		truncate.PythonLen(raw)
	}
}

// An item that is within the budget as Python counts is within a message, whatever zeros its numbers have.
func TestRespellManyNumbers(t *testing.T) {
	raw := []byte("[" + strings.Repeat("1."+strings.Repeat("0", 25)+",", 50_000) + "1]")
	if got, most := len(truncate.Respell(raw)), truncate.PythonLen(raw); got > most {
		t.Errorf("Respell of %d bytes has %d, want at most the %d that were counted", len(raw), got, most)
	}
}

// What is spelled again says the same, in at most the bytes that were counted.
func TestRespell(t *testing.T) {
	for raw, want := range map[string]string{
		`{ "a" : [ 1 , "x" , { } ] , "b":null}`:                 `{"a":[1,"x",{}],"b":null}`,
		`"\u0041\/\u0022\u005c\u000a\u0001\u00e9é\n"`:           `"A/\"\\\n\u0001éé\n"`,
		`"\ud83d\ude00\ud83d\u0041\ude00"`:                      `"😀\ud83dA\ude00"`,
		`{"a":1,"b":2,"\u0061":[3]}`:                            `{"a":[3],"b":2}`,
		`[1.50, 1.` + strings.Repeat("0", 40) + `1, 1e400]`:     `[1.5,1.0,1e400]`,
		`[-0.` + strings.Repeat("0", 40) + `,-0,1E5,1e16]`:      `[-0.0,-0,1E5,1e16]`,
		`1234567.5` + strings.Repeat("0", 40):                   `1234567.5`,
		`"\u0008\u000c\u007f\u2028"`:                            "\"\\b\\f\x7f\u2028\"",
		`{"\ud800":1,"\ud801":2,"` + "\xff" + `":3,"\ufffd":4}`: `{"\ud800":1,"\ud801":2,"` + "\xff" + `":4}`,
	} {
		got := string(truncate.Respell([]byte(raw)))
		if got != want || jsonscan.Valid([]byte(got)) != nil {
			t.Errorf("Respell(%s) = %s, want %s", raw, got, want)
		}
		if n := truncate.PythonLen([]byte(raw)); truncate.PythonLen([]byte(got)) > n {
			t.Errorf("Respell(%s) is counted as %d, before as %d", raw, truncate.PythonLen([]byte(got)), n)
		}
	}
}

func FuzzRespell(f *testing.F) {
	f.Add([]byte(`{"a":["\ud83d\ude00",1.0e5,{"a":1,"a":2}]}`))
	f.Add([]byte(`[-0.00000000000000000000000000000000000,"\u0008\u007f"]`))
	f.Add([]byte(`[100000000000000000000000000000000000.5]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if jsonscan.Valid(raw) != nil {
			return
		}
		got := truncate.Respell(raw)
		if err := jsonscan.Valid(got); err != nil {
			t.Fatalf("Respell(%q) = %q: %v", raw, got, err)
		}
		if again := truncate.Respell(got); string(again) != string(got) {
			t.Fatalf("Respell(%q) = %q, and of that %q", raw, got, again)
		}
		if was, is := truncate.PythonLen(raw), truncate.PythonLen(got); was != is {
			t.Fatalf("Respell(%q) = %q, which Python spells with %d characters, and what it was with %d", raw, got, is, was)
		}
	})
}

package truncate_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"spool/internal/jsonscan"
	"spool/pkg/truncate"
)

// spellings draws a string token: short or just around the limit, plain or full of escapes and odd bytes.
func spellings() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{"a", `\n`, `\\`, `\/`, `\"`, `\u0041`, `\ud83c\udf4a`, `\ud83d`, `\udc00`, "线", "🍊",
		"\xff", "\xed\xa0\x80", "\x7f", "\u2028", `\u0000`})
	return rapid.Custom(func(t *rapid.T) string {
		body := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		switch rapid.IntRange(0, 30).Draw(t, "size") {
		case 0:
			n := rapid.IntRange(499_930, 500_010).Draw(t, "units")
			body = strings.Repeat("x", n) + body + strings.Repeat("y", rapid.IntRange(0, 60).Draw(t, "rest"))
		case 1:
			body += strings.Repeat(piece.Draw(t, "unit"), 250_001)
		}
		return `"` + body + `"`
	})
}

// payloads draws what stands in images: canonical base64 and its corruptions, refs, data URLs.
func payloads() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		b := make([]byte, rapid.IntRange(760, 780).Draw(t, "bytes"))
		b[rapid.IntRange(0, 700).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		text := base64.StdEncoding.EncodeToString(b)
		switch rapid.IntRange(0, 7).Draw(t, "form") {
		case 0:
			text = strings.TrimRight(text, "=")
		case 1:
			text = strings.Replace(text, "A", `\u0041`, 1)
		case 2:
			text += rapid.SampledFrom([]string{"=", "A", "-", `\n`, "é", `\ud83d`}).Draw(t, "junk")
		case 3:
			text = truncate.Ref(b) + rapid.SampledFrom([]string{"", "0"}).Draw(t, "longer")
		case 4:
			text = `data:image\/png;base64,` + text
		case 5:
			text = "data:image/png;base64," + text + rapid.SampledFrom([]string{"", "é", "\xff", `\ud83d`, `\ud83c\udf4a`}).Draw(t, "junk")
		}
		return `"` + text + `"`
	})
}

var names = rapid.SampledFrom([]string{`"a"`, `"content"`, `"content"`, `"image_url"`, `"partialJson"`, `"jsonlEvents"`,
	`"thinkingSignature"`, `"thoughtSignature"`,
	`"lineCount"`, `"type"`, `"data"`, `"partial\u004ason"`, `"text"`, `"1"`, "\"\xff\""})

// values draws a JSON text that leans towards what the rules look for.
func values(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if depth == 0 && kind >= 5 {
			kind %= 5
		}
		switch {
		case kind < 2:
			return spellings().Draw(t, "string")
		case kind == 2:
			return payloads().Draw(t, "payload")
		case kind < 5:
			return rapid.SampledFrom([]string{"1", "3.0", "-0", "1E400", "null", "true", `"image"`, `"thinking"`, "[]", "{ }"}).Draw(t, "scalar")
		case kind == 5:
			members := []string{`"type":"image"`, `"data":` + payloads().Draw(t, "data"), names.Draw(t, "name") + space + ":" +
				values(depth-1).Draw(t, "sibling")}
			return `{` + space + strings.Join(rapid.Permutation(members).Draw(t, "order"), space+","+space) + space + `}`
		case kind < 8:
			var members []string
			for range rapid.IntRange(0, 4).Draw(t, "members") {
				members = append(members, names.Draw(t, "name")+space+":"+space+values(depth-1).Draw(t, "member"))
			}
			return "{" + space + strings.Join(members, space+","+space) + space + "}"
		default:
			return "[" + space + strings.Join(rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "elements"), space+","+space) + space + "]"
		}
	})
}

// Whatever the entry, entry checks: Restore is exact, Text is JSON, a second pass changes nothing.
func TestEntryProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		raw := values(4).Draw(r, "raw")
		opt := rapid.SampledFrom([]truncate.Options{{}, {Signed: truncate.SignedVerbatim}}).Draw(r, "options")
		result, _ := entry(t, []byte(raw), opt)
		if opt.Signed != truncate.SignedVerbatim {
			return
		}
		if result.Cleared != 0 {
			r.Fatalf("%d signatures cleared, want none", result.Cleared)
		}
	})
}

func FuzzEntry(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"image","data":"` + picture + `"}],"image_url":"data:image/png;base64,AA=="}`, `{"a":1,"partialJson":[{}],"b":2}`,
		`{"content":"a\n","lineCount":1,"jsonlEvents":0}`, `{"image_url":"data:image\/x;base64,\ud83d"}`,
		`{"partial\u004ason" : 1 , "x":{}}`, `[`, `"partialJson":`,
	} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, verbatim bool) {
		opt := truncate.Options{}
		if verbatim {
			opt.Signed = truncate.SignedVerbatim
		}
		if jsonscan.Valid(raw) != nil {
			sameError(t, raw, opt)
			return
		}
		entry(t, raw, opt)
	})
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"a":"`+pictureAt+`"}`), 6, 6, byte(0))
	f.Fuzz(func(t *testing.T, text []byte, first, second int, form byte) {
		splices := []truncate.Splice{{Offset: first, Form: truncate.Form(form)}, {Offset: second}}
		_, err := truncate.Restore(text, splices, func(string) ([]byte, error) { return []byte("blob"), nil })
		if err != nil && !errors.Is(err, truncate.ErrBadSplice) {
			t.Fatalf("Restore = %v, want ErrBadSplice or none", err)
		}
	})
}

// FuzzItem runs with small budgets so that every step is reached: the result is JSON and fits, or the error is one of four.
func FuzzItem(f *testing.F) {
	f.Add([]byte(`[{"text":"brief"}]`), []byte(`{"text":"thought","tool":{"input":{"a":[1]},"output":"out"}}`), "线🍊x",
		uint16(900), uint16(9000))
	f.Add([]byte(``), []byte(`null`), "\n", uint16(9000), uint16(100))
	f.Fuzz(func(t *testing.T, content, metadata []byte, unit string, times, bytes uint16) {
		long := jsonscan.AppendString(nil, strings.Repeat(unit, int(times)%1000))
		if jsonscan.KindOf(metadata) == jsonscan.KindObject && jsonscan.Valid(metadata) == nil {
			metadata = []byte(`{"tool":{"output":` + string(long) + `,"input":[` + string(long) + `]},"old":` + string(metadata) + `}`)
		}
		item := truncate.Parts{Content: content, Metadata: metadata}
		r, err := truncate.Item(item, truncate.Budget{Bytes: int(bytes), LocalLog: "s/threads/t/logs/thread.log"})
		if err != nil {
			if !errors.Is(err, truncate.ErrItemTooLarge) && !errors.Is(err, truncate.ErrItemShape) &&
				!errors.Is(err, jsonscan.ErrSyntax) && !errors.Is(err, jsonscan.ErrDepth) {
				t.Fatalf("Item = %v", err)
			}
			return
		}
		if len(r.Fields) == 0 {
			if string(r.Content) != string(content) || string(r.Metadata) != string(metadata) {
				t.Fatalf("Item changed %q, %q without saying so", content, metadata)
			}
			return
		}
		if r.Len > int(bytes) && bytes > 0 || !json.Valid(r.Metadata) || len(r.Content) > 0 && !json.Valid(r.Content) {
			t.Fatalf("Item = %q, %q of %d bytes, budget %d", r.Content, r.Metadata, r.Len, bytes)
		}
		if text, ok := jsonscan.Text(jsonscan.Get(r.Metadata, "tool", "output")); ok && !utf8.ValidString(text) {
			t.Fatalf("tool.output = %q, not UTF-8", text)
		}
		if wasTruncated, _ := jsonscan.Bool(jsonscan.Get(r.Metadata, "truncated")); !wasTruncated {
			t.Fatalf("metadata %q does not record the cut of %q", r.Metadata, r.Fields)
		}
	})
}

// PythonLen reads anything.
func FuzzPythonLen(f *testing.F) {
	f.Add([]byte(`{"a":[1.5e3,"\ud83d\u000a线"],"\u0061":-0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := truncate.PythonLen(raw)
		if valid := jsonscan.Valid(raw) == nil; valid != (n > 0) || n > 6*len(raw) {
			t.Fatalf("PythonLen(%q) = %d, valid JSON: %v", raw, n, valid)
		}
	})
}

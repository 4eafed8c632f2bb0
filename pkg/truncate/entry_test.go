package truncate_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/truncate"
)

const notice = `\n\n[Session persistence truncated large content]`

var (
	picture   = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0, 1, 2, 250, 251}, 200)) // 1,000 bytes, padded
	unpadded  = strings.TrimRight(picture, "=")
	pictureAt = truncate.Ref(bytes.Repeat([]byte{0, 1, 2, 250, 251}, 200))
)

var (
	long  = strings.Repeat("x", 500_001)
	cut   = long[:499_953] + notice
	url   = "data:image/png;base64,AAAA"
	urlAt = truncate.Ref([]byte(url))
)

// entryCases are the smallest texts on which each rule shows. want "" means untouched. full tells that Text lost something.
var entryCases = []struct {
	name, in, want string
	full           bool
}{
	{"T1 at the limit", `{"a":"` + long[:500_000] + `"}`, "", false},
	{"T1 over it", ` { "a" : "` + long + `" } `, ` { "a" : "` + cut + `" } `, true},
	{"T1 in an array and at the top", `["` + long + `",1]`, `["` + cut + `",1]`, true},
	{"T1 alone", `"` + long + `"`, `"` + cut + `"`, true},
	{"T1 keys are not cut", `{"` + long + `":1}`, "", false},
	{"T1 duplicate keys", `{"a":"` + long + `","a":1.0}`, `{"a":"` + cut + `","a":1.0}`, true},
	{"T1 escapes count as one", `"` + strings.Repeat(`\n`, 250_000) + strings.Repeat(`\u00e9`, 250_000) + `"`, "", false},
	{"T1 spelling survives", `"\/\u0041\"` + strings.Repeat(`\\`, 500_000) + `"`, `"\/\u0041\"` +
		strings.Repeat(`\\`, 499_950) + notice + `"`, true},
	{"T1 pair of escapes at the cut", `"` + long[:499_952] + `\ud83c\udf4a` + long[:50] + `"`, `"` + long[:499_952] + notice + `"`, true},
	{"T1 pair before the cut", `"` + long[:499_951] + `\ud83c\udf4a` + long[:50] + `"`, `"` + long[:499_951] + `\ud83c\udf4a` +
		notice + `"`, true},
	{"T1 lone high surrogate at the cut", `"` + long[:499_952] + `\uDBff` + long[:50] + `"`, `"` + long[:499_952] + notice + `"`, true},
	{"T1 lone low surrogate at the cut", `"` + long[:499_952] + `\udc00` + long[:50] + `"`, `"` + long[:499_952] + `\udc00` +
		notice + `"`, true},
	{"T1 backslash before what looks high", `"` + long[:499_947] + `\\ud83c` + long[:50] + `"`, `"` + long[:499_947] +
		`\\ud83c` + notice + `"`, true},
	{"T1 character of two units at the cut", `"` + long[:499_952] + `🍊` + long[:50] + `"`, `"` + long[:499_952] + notice + `"`, true},
	{"T1 lone high surrogate before a character of two units at the cut", `"` + long[:499_951] + `\ud83d🍊` + long[:50] + `"`,
		`"` + long[:499_951] + `\ud83d` + notice + `"`, true},
	{"T1 lone high surrogate before a pair of escapes at the cut", `"` + long[:499_951] + `\ud83d\ud83c\udf4a` + long[:50] +
		`"`, `"` + long[:499_951] + `\ud83d` + notice + `"`, true},
	{"T1 invalid UTF-8 survives", "\"\xff" + long + `"`, "\"\xff" + long[:499_952] + notice + `"`, true},
	{"T2", `{"thinkingSignature":"` + long + `","textSignature":"s","thoughtSignature":"` + long + `"}`,
		`{"thinkingSignature":"","textSignature":"s","thoughtSignature":""}`, true},
	{"T3 first", `{ "partialJson":{"a":[1]} , "b":1 }`, `{ "b":1 }`, true},
	{"T3 last", `{"b":1 , "jsonlEvents":[{}] }`, `{"b":1 }`, true},
	{"T3 only", `{ "jsonlEvents" : null }`, `{  }`, true},
	{"T3 around", `{"partialJson":1,"jsonlEvents":2,"b":3,"partialJson":4,"jsonlEvents":5,"c":6,"partialJson":7}`, `{"b":3,"c":6}`, true},
	{"T3 all", `{"partialJson":1,"jsonlEvents":2}`, `{}`, true},
	{"T3 deep, escaped name", `[{"a":[{"partial\u004ason":1,"z":2}]}]`, `[{"a":[{"z":2}]}]`, true},
	{"T3 name in a longer key", `{"\"partialJson\"":1,"a\\b":2,"jsonlEvents ":3,"partialJson":4}`,
		`{"\"partialJson\"":1,"a\\b":2,"jsonlEvents ":3}`, true},
	{"T3 as value", `{"a":"partialJson","b":["jsonlEvents"]}`, "", false},
	{"T4 before and after content", `{"lineCount": 9,"content":"a\nb","partialJson":1}`, `{"lineCount": 2,"content":"a\nb"}`, true},
	{"T4 same number, other spelling", `{"content":"a\nb","lineCount":2.0,"partialJson":1}`, `{"content":"a\nb","lineCount":2.0}`, true},
	{"T4 last duplicate counts", `{"content":"a","lineCount":7,"partialJson":1,"content":"\n\n","lineCount":8}`,
		`{"content":"a","lineCount":7,"content":"\n\n","lineCount":3}`, true},
	{"T4 notice counts", `{"content":"\n` + long + `","lineCount":2}`, `{"content":"\n` + long[:499_952] + notice + `","lineCount":4}`, true},
	{"T4 endless number", `{"lineCount":1.` + strings.Repeat("0", 90) + `,"content":"a","partialJson":1}`,
		`{"lineCount":1,"content":"a"}`, true},
	{"T4 number out of range", `{"lineCount":1E999,"content":"a","partialJson":1}`, `{"lineCount":1,"content":"a"}`, true},
	{"T4 not a number", `{"content":"a","lineCount":"7","partialJson":1}`, `{"content":"a","lineCount":"7"}`, true},
	{"T4 parents too", `{"content":"a","lineCount":5,"x":{"partialJson":1}}`, `{"content":"a","lineCount":1,"x":{}}`, true},
	{"T5", `{"content":[{"type":"image","data":"` + picture + `"}]}`, `{"content":[{"type":"image","data":"` + pictureAt + `"}]}`, false},
	{"T5 type last, unpadded, nested", `{"content":[[{"data":"` + unpadded + `","x":1.50,"type":"image"}]]}`,
		`{"content":[[{"data":"` + pictureAt + `","x":1.50,"type":"image"}]]}`, false},
	{"T5 escaped names", `{"c\u006fntent":[{"t\u0079pe":"im\u0061ge","d\u0061ta":"` + picture + `"}]}`,
		`{"c\u006fntent":[{"t\u0079pe":"im\u0061ge","d\u0061ta":"` + pictureAt + `"}]}`, false},
	{"T5 spelled with escapes", `{"content":[{"type":"image","data":"\u0041` + unpadded[1:] + `"}]}`,
		`{"content":[{"type":"image","data":"` + pictureAt + `"}]}`, true},
	{"T5 too short", `{"content":[{"type":"image","data":"` + picture[:1020] + `"}]}`, "", false},
	{"T5 siblings left alone", `{"content":[{"type":"image","data":"` + picture + `","alt":"` + long + `","partialJson":1}]}`,
		`{"content":[{"type":"image","data":"` + pictureAt + `","alt":"` + long + `","partialJson":1}]}`, false},
	{"T5 not an element", `{"content":{"type":"image","data":"` + picture + `"}}`, "", false},
	{"T5 other key", `{"images":[{"type":"image","data":"` + picture + `"}]}`, "", false},
	{"T5 type is no image at last", `{"content":[{"type":"image","data":"` + picture + `","type":"text"}]}`, "", false},
	{"T6 any size", `{"image_url":"` + url + `"}`, `{"image_url":"` + urlAt + `"}`, false},
	{"T6 in arrays", `{"image_url":["` + url + `",["` + url + `"]]}`, `{"image_url":["` + urlAt + `",["` + urlAt + `"]]}`, false},
	{"T6 spelled with escapes", `{"image_url":"data:image\/png;base64,AAAA"}`, `{"image_url":"` + urlAt + `"}`, true},
	{"T6 object form", `{"image_url":{"url":"` + url + `"}}`, "", false},
	{"T6 case", `{"image_url":"DATA:image/png;base64,AAAA"}`, "", false},
	{"T6 no base64", `{"image_url":"data:image/svg+xml,<svg/>"}`, "", false},
	{"T6 lone surrogate has no UTF-8", `{"image_url":"` + url + `\ud83d"}`, "", false},
	{"T6 before the length test", `{"image_url":"` + url + long + `"}`, `{"image_url":"` + truncate.Ref([]byte(url+long)) + `"}`, false},
	{"T7 URL-safe", `{"content":[{"type":"image","data":"` + strings.Repeat("-_-_", 300) + `"}]}`, "", false},
	{"T7 trailing bits", `{"content":[{"type":"image","data":"` + picture[:1333] + `B=="}]}`, "", false},
	{"T7 newlines", `{"content":[{"type":"image","data":"` + picture + `\n"}]}`, "", false},
	{"T7 is not cut either", `{"content":[{"type":"image","data":"` + long + `"}]}`, "", false},
	{"T8 prefix is no ref", `{"content":[{"type":"image","data":"blob:sha256:` + long[:2000] + `"}]}`, "", false},
}

func TestEntry(t *testing.T) {
	for _, c := range entryCases {
		t.Run(c.name, func(t *testing.T) {
			r, _ := entry(t, []byte(c.in), truncate.Options{})
			want := cmp.Or(c.want, c.in)
			if string(r.Text) != want {
				t.Errorf("Text = %s\nwant   %s", ends(string(r.Text)), ends(want))
			}
			if (r.Full != nil) != c.full {
				t.Errorf("Full is there: %v, want %v", r.Full != nil, c.full)
			}
		})
	}
}

// ends shortens a text for a failure message.
func ends(s string) string {
	if len(s) <= 400 {
		return s
	}
	return s[:200] + " ... " + s[len(s)-200:]
}

func TestEntryCountsAndSplices(t *testing.T) {
	long := strings.Repeat("y", 500_001)
	raw := []byte(`{"content":[{"type":"image","data":"` + picture + `"},{"type":"image","data":"` + unpadded + `"}],"t":"` + long +
		`","textSignature":"` + long + `","partialJson":0,"jsonlEvents":0,"image_url":"data:image/x;base64,é"}`)
	r, blobs := entry(t, raw, truncate.Options{})
	if r.Truncated != 1 || r.Cleared != 1 || r.Stripped != 2 || r.Externalized != 3 || len(blobs) != 2 {
		t.Errorf("%d truncated, %d cleared, %d stripped, %d externalized, %d blobs, want 1, 1, 2, 3, 2", r.Truncated, r.Cleared,
			r.Stripped, r.Externalized, len(blobs))
	}
	forms := []truncate.Form{truncate.FormBase64, truncate.FormBase64Raw, truncate.FormVerbatim}
	for i, s := range r.Splices {
		if s.Form != forms[i] || !truncate.IsRef(string(r.Full[s.Offset:s.Offset+76])) {
			t.Errorf("splice %d = %+v at %.80q, want form %d at a ref", i, s, r.Full[s.Offset:], forms[i])
		}
	}
	dry, err := truncate.Entry(raw, nil, truncate.Options{})
	if err != nil || !bytes.Equal(dry.Text, r.Text) || !bytes.Equal(dry.Full, r.Full) {
		t.Errorf("Entry without a store = %s, %v, want the same text", ends(string(dry.Text)), err)
	}
	_, err = truncate.Restore(r.Full, r.Splices, store{}.get)
	must.Is(t, err, errNoBlob, "Restore without blobs")
	for _, bad := range [][]truncate.Splice{{{Offset: -1}}, {{Offset: len(r.Full)}}, {{Offset: 0}},
		{r.Splices[1], r.Splices[0]}, {{Offset: r.Splices[0].Offset, Form: 3}}} {
		must.Is(t, must.Err(truncate.Restore(r.Full, bad, blobs.get)), truncate.ErrBadSplice, "Restore with %+v", bad)
	}
}

func TestEntrySignedVerbatim(t *testing.T) {
	long := strings.Repeat("s", 500_001)
	kept := []string{
		`{"type":"thinking","thinking":"` + long + `","thinkingSignature":"` + long + `"}`,
		`{"text":"` + long + `","textSignature":"x","type":"text","partialJson":1}`,
		`{"type":"toolCall","thoughtSignature":"x","arguments":{"content":[{"type":"image","data":"` + picture + `"}],"a":"` + long + `"}}`,
		`{"type":"redactedThinking","data":"` + long + `"}`,
		`{"type":"reasoning","encrypted_content":"` + long + `"}`,
		`{"type":"anthropicServerTool","x":"` + long + `"}`,
		`{"type":"anthropicCompaction","x":"` + long + `"}`,
		`{"thinkingSignature":"` + long + `"}`,
	}
	for _, s := range kept {
		if r, _ := entry(t, []byte(`[`+s+`]`), truncate.Options{Signed: truncate.SignedVerbatim}); string(r.Text) != `[`+s+`]` {
			t.Errorf("Text = %s, want it verbatim", ends(string(r.Text)))
		}
	}
	cut := []string{
		`{"type":"thinking","thinking":"` + long + `","thinkingSignature":""}`,
		`{"type":"text","text":"` + long + `","thinkingSignature":"x"}`,
		`{"type":"reasoning","x":"` + long + `"}`,
	}
	for _, s := range cut {
		if r, _ := entry(t, []byte(s), truncate.Options{Signed: truncate.SignedVerbatim}); r.Truncated != 1 {
			t.Errorf("%d strings cut in %s, want 1", r.Truncated, ends(s))
		}
	}
}

func TestEntryErrors(t *testing.T) {
	for in, want := range map[string]error{
		`{"partialJson":}`: jsonscan.ErrSyntax, `{"partialJson":1`: jsonscan.ErrSyntax,
		strings.Repeat(`{"jsonlEvents":`, 257) + "1" + strings.Repeat("}", 257): jsonscan.ErrDepth,
	} {
		must.Is(t, sameError(t, []byte(in), truncate.Options{}), want, "Entry(%.40q)", in)
	}
	raw := []byte(`{"image_url":"data:image/png;base64,AAAA"}`)
	must.Is(t, must.Err(truncate.Entry(raw, func([]byte) string { return "sha256:1" }, truncate.Options{})), truncate.ErrBadRef,
		"Entry with a bad store")
	deep := strings.Repeat(`[`, 255) + `{"partialJson":1}` + strings.Repeat(`]`, 255)
	if r, _ := entry(t, []byte(deep), truncate.Options{}); r.Stripped != 1 {
		t.Errorf("%d stripped at depth 256, want 1", r.Stripped)
	}
}

// TestSources: the images of Claude Code are blobs by the rule of all others, wherever its lines have them, and only
// where that is asked for.
func TestSources(t *testing.T) {
	long := strings.Repeat("y", 500_001)
	source := func(data string) string {
		return `{"type":"image","source":{"type":"base64","data":"` + data + `","media_type":"image/png"}}`
	}
	file := func(data string) string { return `{"type":"image","file":{"base64":"` + data + `","originalSize":9}}` }
	content := func(block string) string { return `{"content":[` + block + `]}` }
	result := func(block string) string {
		return content(`{"type":"tool_result","content":[` + block + `]}`)
	}
	behind := func(data string) string { return content(`{"source":{"data":"` + data + `"},"type":"image"}`) }
	moved := truncate.Ref(make([]byte, 450_000))
	for name, c := range map[string]struct{ in, want string }{
		"post":               {content(source(picture)), content(source(pictureAt))},
		"tool result":        {result(source(unpadded)), result(source(pictureAt))},
		"file of a result":   {`{"toolUseResult":` + file(picture) + `}`, `{"toolUseResult":` + file(pictureAt) + `}`},
		"blocks of a result": {`{"toolUseResult":[` + source(picture) + `]}`, `{"toolUseResult":[` + source(pictureAt) + `]}`},
		"type behind it":     {behind(picture), behind(pictureAt)},
		"long":               {content(source(strings.Repeat("A", 600_000))), content(source(moved))},
		"too short":          {content(source(picture[:1020])), ""},
		"no base64":          {content(source(long)), ""},
		"no image":           {content(`{"type":"document","source":{"data":"` + picture + `"}}`), ""},
		"file of a text":     {`{"toolUseResult":{"type":"text","file":{"base64":"` + picture + `"}}}`, ""},
		"source deeper":      {content(`{"type":"image","source":{"source":{"data":"` + picture + `"}}}`), ""},
		"source of no block": {`{"source":{"data":"` + picture + `"},"type":"image"}`, ""},
		"another member's":   {content(`{"type":"image","x":{"data":"` + picture + `"}}`), ""},
		"no object":          {content(`{"type":"image","source":[{"data":"` + picture + `"}]}`), ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		r, _ := entry(t, []byte(c.in), truncate.Options{Sources: true})
		if text := string(r.Text); text != want || r.Full != nil {
			t.Errorf("%s: Text = %s\nwant   %s, and nothing lost: %v", name, ends(text), ends(want), r.Full == nil)
		}
		if r, _ := entry(t, []byte(c.in), truncate.Options{}); r.Externalized != 0 {
			t.Errorf("%s: %d values are moved where nobody asked for it", name, r.Externalized)
		}
	}
}

package truncate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/truncate"
)

const logPath = "ses_1/threads/main/logs/thread.log"

var budget = truncate.Budget{LocalLog: logPath}

func at(t testing.TB, r truncate.ItemResult, path ...string) string {
	t.Helper()
	text, ok := jsonscan.Text(jsonscan.Get(r.Metadata, path...))
	if !ok {
		t.Fatalf("metadata %v is no string in %s", path, ends(string(r.Metadata)))
	}
	return text
}

func marker(n int) string { return fmt.Sprintf("…[truncated %d bytes; see %s]…", n, logPath) }

func TestItemBudgetIsStrict(t *testing.T) {
	for _, c := range []struct {
		output string
		cut    bool
	}{
		{strings.Repeat("a", 349_851), false}, {strings.Repeat("a", 349_852), true},
		{strings.Repeat("\n", 174_925), false}, {strings.Repeat("\n", 174_926), true},
		{strings.Repeat("线", 58_308), false}, {strings.Repeat("线", 58_309), true}, // 175 KB of UTF-8
		{strings.Repeat("🍊", 29_154), false}, {strings.Repeat("🍊", 29_155), true},
	} {
		item := toolResult(c.output)
		r, err := truncate.Item(item, budget)
		check(t, err)
		if got := len(r.Fields) > 0; got != c.cut || r.Len > truncate.ItemBudget {
			t.Errorf("%d × %.4q cut: %v, Len %d, want %v", len(c.output), c.output, got, r.Len, c.cut)
		}
		if !c.cut && (&r.Metadata[0] != &item.Metadata[0] || &r.Content[0] != &item.Content[0]) {
			t.Error("an item within the budget was copied")
		}
	}
	item := toolResult(strings.Repeat("a", 349_851))
	item.Extra = truncate.PythonLen([]byte(`{"n":1}`))
	if r, err := truncate.Item(item, budget); err != nil || len(r.Fields) != 1 {
		t.Errorf("Item with one more member: cut %q, %v, want tool.output", r.Fields, err)
	}
}

func TestItemRecordsTheCut(t *testing.T) {
	item := toolResult(strings.Repeat("a", 418_992))
	item.Metadata = []byte(` { "type" : "tool_result", "n":1.50,"tool":` + string(jsonscan.Get(item.Metadata, "tool")) +
		`, "other" : [ 1 ] } `)
	r, err := truncate.Item(item, truncate.Budget{LocalLog: logPath, Node: "sha256:1"})
	check(t, err)
	want := ` { "type" : "tool_result", "n":1.50,"tool":{"invocation_id":"tu_1","is_error":false,"output":"` +
		strings.Repeat("a", 4000) + marker(412_992) +
		strings.Repeat("a", 2000) + `"}, "other" : [ 1 ] ,"truncated":true,"truncated_fields":["tool.output"],"local_log":"` +
		logPath + `","node":"sha256:1"} `
	if string(r.Metadata) != want {
		t.Errorf("metadata = %s\nwant       %s", ends(string(r.Metadata)), ends(want))
	}
	if string(r.Content) != string(item.Content) || !slices.Equal(r.Fields, []string{"tool.output"}) {
		t.Errorf("content %s, fields %q", r.Content, r.Fields)
	}
	if full := truncate.PythonLen([]byte(`{"content":` + string(r.Content) + `,"metadata":` + string(r.Metadata) + `}`)); full != r.Len {
		t.Errorf("Len = %d, want %d", r.Len, full)
	}
}

func TestItemCutsAtCharacters(t *testing.T) {
	for _, unit := range []string{"é", "线", "🍊", "\x01", "x线🍊\n"} {
		for shift := range 4 {
			text := strings.Repeat("-", shift) + strings.Repeat(unit, 400_000/len(unit))
			r, err := truncate.Item(toolResult(text), budget)
			check(t, err)
			got := at(t, r, "tool", "output")
			head, rest, _ := strings.Cut(got, "…[")
			_, tail, _ := strings.Cut(rest, "]…")
			if !utf8.ValidString(got) || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) ||
				len(head) > 4000 || len(head) < 3997 || len(tail) > 2000 || len(tail) < 1997 {
				t.Fatalf("%q shifted by %d: head of %d, tail of %d bytes", unit, shift, len(head), len(tail))
			}
			if got != head+marker(len(text)-len(head)-len(tail))+tail {
				t.Errorf("%q: marker in %q does not count the %d bytes removed", unit, rest[:80], len(text)-len(head)-len(tail))
			}
		}
	}
}

func TestItemFieldOrder(t *testing.T) {
	build := func(output, input, text, brief int) truncate.Parts {
		return truncate.Parts{
			Content: []byte(`[{"type":"text","text":"` + strings.Repeat("b", brief) + `"},{"text":"` + strings.Repeat("z", 7000) + `"}]`),
			Metadata: []byte(`{"text":"` + strings.Repeat("t", text) + `","tool":{"input":"` + strings.Repeat("i", input) + `","output":"` +
				strings.Repeat("o", output) + `"}}`),
		}
	}
	for _, c := range []struct {
		item truncate.Parts
		want string
	}{
		{build(340_000, 10_000, 10_000, 10_000), "tool.output"},
		{build(6_000, 340_000, 10_000, 10_000), "tool.input"},
		{build(10_000, 340_000, 10_000, 10_000), "tool.output tool.input"},
		{build(6_001, 6_001, 340_000, 10_000), "tool.output tool.input text"},
		{build(7_000, 7_000, 7_000, 340_000), "tool.output tool.input text content[0].text"},
		{build(0, 0, 0, 400_000), "content[0].text"},
	} {
		r, err := truncate.Item(c.item, budget)
		check(t, err)
		must.Same(t, strings.Join(r.Fields, " "), c.want, "cut %q, want %q")
		var names []string
		check(t, jsonscan.Array(jsonscan.Get(r.Metadata, "truncated_fields"), func(v []byte) bool {
			name, _ := jsonscan.Text(v)
			names = append(names, name)
			return true
		}))
		must.SameAll(t, names, r.Fields, "truncated_fields = %q, want %q")
	}
}

func TestItemStructuredInput(t *testing.T) {
	input := `{ "cells" : [ "` + strings.Repeat(`a b\n`, 100_000) + `" , 1.50 ] }`
	compact := `{"cells":["` + strings.Repeat(`a b\n`, 100_000) + `",1.50]}`
	r, err := truncate.Item(truncate.Parts{Metadata: []byte(`{"type":"tool_call","tool":{"name":"x","input":` + input + `}}`)}, budget)
	check(t, err)
	if got, want := at(t, r, "tool", "input"), compact[:4000]+marker(len(compact)-6000)+compact[len(compact)-2000:]; got != want {
		t.Errorf("tool.input = %s\nwant %s", ends(got), ends(want))
	}
	r, err = truncate.Item(truncate.Parts{Metadata: []byte(`{"tool":{"output":["` + strings.Repeat(`"," `, 100_000) + `"]}}`)}, budget)
	if err != nil || r.Fields[0] != "tool.output" || jsonscan.KindOf(jsonscan.Get(r.Metadata, "tool", "output")) != jsonscan.KindString {
		t.Errorf("array output: cut %q, %v, want tool.output as a string", r.Fields, err)
	}
}

func TestItemWithoutMetadata(t *testing.T) {
	content := []byte(`[{"type":"text","text":"` + strings.Repeat("u", 400_000) + `"}]`)
	for _, metadata := range []string{"", "null", " null "} {
		r, err := truncate.Item(truncate.Parts{Content: content, Metadata: []byte(metadata)}, budget)
		check(t, err)
		want := `{"truncated":true,"truncated_fields":["content[0].text"],"local_log":"` + logPath + `"}`
		if string(r.Metadata) != want {
			t.Errorf("metadata = %s, want %s", r.Metadata, want)
		}
	}
	must.Is(t, must.Err(truncate.Item(truncate.Parts{Content: content, Metadata: []byte(`[1]`)}, budget)), truncate.ErrItemShape,
		"Item with array metadata")
	if r, err := truncate.Item(truncate.Parts{Content: []byte(`[]`)}, budget); err != nil || r.Metadata != nil {
		t.Errorf("small item: metadata %q, %v, want none", r.Metadata, err)
	}
}

func TestItemAlreadyTruncated(t *testing.T) {
	long := strings.Repeat("o", 400_000)
	for before, want := range map[string]string{
		`["text"]`:              `["text","tool.output"]`,
		`[ "text" , "q" ]`:      `[ "text" , "q" ,"tool.output"]`,
		`["tool.output"]`:       `["tool.output"]`,
		`[]`:                    `["tool.output"]`,
		`null`:                  `["tool.output"]`,
		`"text"`:                `["tool.output"]`,
		`["tool\u002eoutput",]`: "",
	} {
		metadata := `{"truncated":false,"local_log":"old","truncated_fields":` + before + `,"tool":{"output":"` + long + `"}}`
		r, err := truncate.Item(truncate.Parts{Metadata: []byte(metadata)}, budget)
		if want == "" {
			must.Is(t, err, jsonscan.ErrSyntax, "Item of broken JSON")
			continue
		}
		check(t, err)
		if got := string(r.Metadata[:len(r.Metadata)-len(`,"tool":{}}`)]); !strings.HasPrefix(got,
			`{"truncated":true,"local_log":"`+logPath+`","truncated_fields":`+want+`,"tool"`) {
			t.Errorf("metadata = %s, want truncated_fields %s and the rest updated in place", ends(got), want)
		}
	}
}

func TestItemDropsToTheMarker(t *testing.T) {
	ballast := func(n int) string { return `"ballast":"` + strings.Repeat("x", n) + `"` }
	long := strings.Repeat("o", 400_000)
	r, err := truncate.Item(truncate.Parts{Metadata: []byte(`{` + ballast(342_000) + `,"text":"` + long +
		`","tool":{"output":"` + long + `","input":"` + long[:5000] + `"}}`)}, budget)
	check(t, err)
	if at(t, r, "tool", "output") != marker(400_000) || at(t, r, "text") != marker(400_000) || at(t, r, "tool", "input") != long[:5000] {
		t.Errorf("after dropping: %s", ends(string(r.Metadata)))
	}
	if got := strings.Join(r.Fields, " "); got != "tool.output text" {
		t.Errorf("fields = %q, want tool.output text", got)
	}
	r, err = truncate.Item(truncate.Parts{Metadata: []byte(`{` + ballast(346_000) + `,"tool":{"output":"` + long +
		`","input":"` + long[:5000] + `","name":"n"},"text":"short"}`)}, budget)
	check(t, err)
	if at(t, r, "tool", "input") != marker(5000) || at(t, r, "text") != "short" || r.Len > truncate.ItemBudget {
		t.Errorf("a field that was passed over is dropped last: input %q, text %q", at(t, r, "tool", "input"), at(t, r, "text"))
	}
	_, err = truncate.Item(truncate.Parts{Metadata: []byte(`{` + ballast(349_990) + `,"text":"` + long + `"}`)}, budget)
	if !errors.Is(err, truncate.ErrItemTooLarge) || !strings.Contains(err.Error(), "THREAD_ITEM_TOO_LARGE") {
		t.Errorf("Item = %v, want ErrItemTooLarge", err)
	}
	_, err = truncate.Item(truncate.Parts{Content: []byte(`[[` + strings.Repeat("1,", 200_000) + `1]]`)}, budget)
	must.Is(t, err, truncate.ErrItemTooLarge, "Item without any field to cut")
}

func BenchmarkItemSmall(b *testing.B) {
	item := toolResult(strings.Repeat("ok\n", 500))
	for b.Loop() {
		must.Get(truncate.Item(item, budget))(b)
	}
}

func BenchmarkItemCut(b *testing.B) {
	item := toolResult(strings.Repeat("ok\n", 200_000))
	b.SetBytes(int64(len(item.Metadata)))
	for b.Loop() {
		must.Get(truncate.Item(item, budget))(b)
	}
}

// Nothing but a cut may change an item, not even null into an object, which would print shorter.
func TestItemWithNothingToCutIsNotChanged(t *testing.T) {
	r, err := truncate.Item(truncate.Parts{Content: []byte(`0`), Metadata: []byte(`null`)}, truncate.Budget{Bytes: 31})
	if !errors.Is(err, truncate.ErrItemTooLarge) || r.Metadata != nil {
		t.Errorf("Item = %q, %v, want ErrItemTooLarge", r.Metadata, err)
	}
}

// An output of which an artifact has all is cut where the item fits, and once where another field is cut too (SPEC A4).
func TestCutOutput(t *testing.T) {
	output, input := strings.Repeat("o", 70_000), strings.Repeat("i", 400_000)
	for _, metadata := range []string{
		`{"tool":{"output":"` + output + `"}}`,
		`{"tool":{"output":"` + output + `","input":"` + input + `"}}`,
	} {
		got, err := truncate.Item(truncate.Parts{Content: []byte(`[]`), Metadata: []byte(metadata), CutOutput: true},
			truncate.Budget{LocalLog: "L"})
		shown, _ := jsonscan.Text(jsonscan.Get(got.Metadata, "tool", "output"))
		if want := output[:4_000] + "…[truncated 64000 bytes; see L]…" + output[:2_000]; err != nil || shown != want ||
			got.Fields[0] != "tool.output" {
			t.Errorf("output = %d bytes, %v, fields %v; want its ends and what is left out between them", len(shown), err,
				got.Fields)
		}
	}
	short := truncate.Parts{Metadata: []byte(`{"tool":{"output":"` + output[:6_000] + `"}}`), CutOutput: true}
	if got, err := truncate.Item(short, truncate.Budget{}); err != nil || len(got.Fields) > 0 ||
		string(got.Metadata) != string(short.Metadata) {
		t.Errorf("an output that is no longer than its ends = %v, %v", got.Fields, err)
	}
}

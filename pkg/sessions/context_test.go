package sessions

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
)

// contextOf is the context of lines, each after the one before it.
func contextOf(t *testing.T, bodies ...string) Context {
	t.Helper()
	text := header3
	for i, body := range bodies {
		parent := "null"
		if i > 0 {
			parent = fmt.Sprintf(`"%d"`, i-1)
		}
		text += fmt.Sprintf("\n"+`{"id":"%d","parentId":%s,"timestamp":"2026-01-01T00:00:01Z",%s}`, i, parent, body)
	}
	return mustLoad(t, text).Tree().Context(Last)
}

func said(role, text string) string {
	return fmt.Sprintf(`"type":"message","message":{"role":%q,"provider":"p","model":"%s"}`, role, text)
}

func TestContextState(t *testing.T) {
	c := contextOf(t,
		said("assistant", "m1"),
		`"type":"model_change","model":"x/y"`,
		`"type":"model_change","model":"x/z","role":"smol"`,
		`"type":"ttsr_injection","injectedRules":["b","a"]`,
		`"type":"thinking_level_change","thinkingLevel":"high"`,
		`"type":"mode_change","mode":"plan","data":{"f":1}`,
		`"type":"ttsr_injection","injectedRules":["c","b"]`,
		`"type":"service_tier_change","serviceTier":"priority"`,
		`"type":"mcp_tool_selection","selectedToolNames":["t"]`,
		said("assistant", "m2"),
	)
	c.Messages = nil
	want := Context{
		ThinkingLevel: "high", ServiceTier: "priority", Models: map[string]string{"default": "x/y", "smol": "x/z"},
		InjectedRules: []string{"b", "a", "c"}, SelectedTools: []string{"t"}, ToolsSelected: true, Mode: "plan", ModeData: []byte(`{"f":1}`),
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("Context (-want +got):\n%s", diff)
	}
	if c := contextOf(t, said("assistant", "m1"), said("user", ""), said("assistant", "m2")); c.Models["default"] != "p/m2" {
		t.Errorf("default model = %q, want the last answer's p/m2", c.Models["default"])
	}
	if c := contextOf(t, `"type":"model_change","provider":"p","modelId":"old"`); c.Models["default"] != "p/old" {
		t.Errorf("default model = %q, want p/old", c.Models["default"])
	}
}

// SPEC S7: the last compaction's summary, then the kept range without earlier compactions, then the rest.
func TestContextCompaction(t *testing.T) {
	compact := func(summary, kept string) string {
		return fmt.Sprintf(`"type":"compaction","summary":%q,"firstKeptEntryId":%q,"tokensBefore":7`, summary, kept)
	}
	for _, tt := range []struct {
		name   string
		bodies []string
		want   string
	}{
		{"kept", []string{said("user", "a"), said("user", "b"), compact("S", "1"), said("user", "c")}, "S b c"},
		{"kept range holds a compaction", []string{said("user", "a"), compact("S", "0"), said("user", "b"), compact("T", "0"),
			said("user", "c")}, "T a b c"},
		{"unknown", []string{said("user", "a"), compact("S", "9"), said("user", "c")}, "S c"},
		{"itself", []string{said("user", "a"), compact("S", "1"), said("user", "c")}, "S c"},
		{"empty summaries", []string{compact("", ""), `"type":"branch_summary","summary":"","fromId":"root"`,
			`"type":"branch_summary","summary":"B","fromId":"root"`}, " B"},
	} {
		var got []string
		for _, m := range contextOf(t, tt.bodies...).Messages {
			for _, name := range []string{"summary", "model"} {
				if i := strings.Index(string(m), `"`+name+`":"`); i >= 0 {
					text, _, _ := strings.Cut(string(m)[i+len(name)+4:], `"`)
					got = append(got, text)
				}
			}
		}
		must.Same(t, strings.Join(got, " "), tt.want, "%s: messages %q, want %q", tt.name)
	}
}

func TestContextMessages(t *testing.T) {
	c := contextOf(t,
		`"type":"custom_message","customType":"x","content":[{"n":1.0}],"display":false`,
		`"type":"branch_summary","summary":"B","fromId":"root","details":{}`,
		`"type":"custom","data":1`,
		`"type":"future","x":1`,
	)
	want := []string{
		`{"role":"custom","customType":"x","content":[{"n":1.0}],"display":false,"timestamp":1767225601000}`,
		`{"role":"branchSummary","summary":"B","fromId":"root","timestamp":1767225601000}`,
	}
	var got []string
	for _, m := range c.Messages {
		got = append(got, string(m))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Messages (-want +got):\n%s", diff)
	}
}

// A context is read by programs that take JSON for UTF-8 alone (RFC 8259); the entries keep their bytes.
func TestContextIsUTF8(t *testing.T) {
	c := contextOf(t, said("user", "a\xc3"), "\"type\":\"custom_message\",\"customType\":\"\xff\",\"content\":\"\xe2\x82\"")
	if got := c.JSON(); !utf8.Valid(got) || strings.Count(string(got), "\uFFFD") != 3 || !strings.Contains(string(c.Messages[0]), "a\xc3") {
		t.Errorf("JSON = %q", got)
	}
}

func TestUsage(t *testing.T) {
	usage := `{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"premiumRequests":1,"cost":{"total":0.25}}`
	tree := mustLoad(t, header3+"\n"+
		`{"type":"message","id":"a","timestamp":"t","message":{"role":"user","usage":`+usage+"}}\n"+
		`{"type":"message","id":"b","timestamp":"t","message":{"role":"toolResult","toolName":"task","details":{"usage":`+usage+"}}}\n"+
		`{"type":"message","id":"c","timestamp":"t","message":{"role":"toolResult","toolName":"bash","details":{"usage":`+usage+"}}}\n").Tree()
	if tree.Listed() {
		t.Error("Listed before an assistant message")
	}
	must.Same(t, tree.Usage(), (Usage{1, 2, 3, 4, 1, 0.25}), "Usage = %+v, want %+v")
	tree = NewTree(Header{}, append(tree.Entries(),
		ParseEntry([]byte(`{"type":"message","message":{"role":"assistant","usage":`+usage+`}}`)))...)
	if got, want := tree.Usage(), (Usage{2, 4, 6, 8, 2, 0.5}); got != want || !tree.Listed() {
		t.Errorf("Usage = %+v, listed %v, want %+v", got, tree.Listed(), want)
	}
}

func BenchmarkContext(b *testing.B) {
	tree := NewTree(Header{ID: "s1"})
	for i := range 10_000 {
		d := Message([]byte(fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], strings.Repeat("word ", 100))))
		if i == 5000 {
			d = Compaction{Summarized: Summarized{Summary: "S"}, FirstKept: tree.Entries()[4000].ID}.Draft()
		}
		must.Get(tree.Append(d, Stamp{Time: noon}))(b)
	}
	b.ReportAllocs()
	for b.Loop() {
		if c := tree.Context(Last); len(c.Messages) != 6000 {
			b.Fatalf("%d messages", len(c.Messages))
		}
	}
}

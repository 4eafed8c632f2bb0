package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"spool/internal/text"
	"spool/pkg/events"
)

// item is one whose metadata and text are those.
func item(n int, said, metadata string) []byte {
	quoted, _ := json.Marshal(said)
	at := time.Date(2026, 11, 20, 9, 0, n, 0, time.UTC).Format(time.RFC3339)
	return []byte(`{"n":` + string(rune('0'+n)) + `,"session":"s","thread":"main","created_at":"` + at +
		`","content":[{"type":"text","text":` +
		string(quoted) + `}],"metadata":` + metadata + `}`)
}

func all(f Form, items ...[]byte) string {
	out := f.Begin(Head{Thread: events.Thread{Session: "s", Name: "main"}, Title: "An orchard", Facts: []string{"omp"}})
	for _, raw := range items {
		out += f.Item(Read(raw))
	}
	return out + f.End()
}

// long is an output of so many lines.
func long(n int) string { return strings.TrimSuffix(strings.Repeat(`line\n`, n), `\n`) }

var orchard = [][]byte{
	item(1, "What is ripe?\n\n```\npears\n```", `null`),
	item(2, "Bash → ls", `{"type":"tool_call","tool":{"name":"Bash","invocation_id":"a","input":{"command":"ls","timeout":5}}}`),
	item(3, "Edit → /x", `{"type":"tool_call","tool":{"name":"Edit","invocation_id":"b","input":{"file_path":"/x","old_string":"a\nb","new_string":"c"}}}`),
	item(4, "→ …", `{"type":"tool_result","tool":{"invocation_id":"a","output":"`+long(20)+`"}}`),
	item(5, "→ no", `{"type":"tool_result","tool":{"invocation_id":"b","is_error":true,"output":"no"}}`),
	item(6, "Turn complete", `{"type":"turn_end","stats":{"duration_ms":61000,"input_tokens":1234,"output_tokens":5}}`),
}

// TestStreamed: a result of an output is told of by what the tool printed, not by what is left of it.
func TestStreamed(t *testing.T) {
	for meta, want := range map[string]string{
		`{"truncated":true,"total_lines":30001,"exit_code":0}`:            "#1 30,000 lines, cut\n",
		`{"truncated":false,"total_lines":21,"exit_code":7}`:              "#1 exit code 7, 20 lines\n",
		`{"truncated":false,"total_lines":20,"aborted":"its agent died"}`: "#1 20 lines\n",
	} {
		got := all(&Terminal{}, item(1, "→ …", `{"type":"tool_result","tool":{"output":"`+long(20)+`\n"},"output":`+meta+`}`))
		if !strings.Contains(got, want) || strings.Contains(got, "all of it") {
			t.Errorf("a result of %s is shown as %s, want %q", meta, got, want)
		}
	}
}

// TestCutBesideItsArtifact: of a result that was cut the artifact is named that has all, with --full too; of one that was not cut, none.
func TestCutBesideItsArtifact(t *testing.T) {
	for _, cut := range []string{`"truncated":true`, `"output":{"truncated":true,"total_lines":30001}`, `"truncated":false`} {
		for _, full := range []bool{false, true} {
			got := all(&Terminal{Full: full}, item(1, "→ …",
				`{"type":"tool_result","tool":{"output":"`+long(20)+`"},"artifact":{"artifact_id":"art_1"},`+cut+`}`))
			if strings.Contains(got, "    all of it: spool artifact get art_1\n") != strings.Contains(cut, "true") {
				t.Errorf("a result of %s is shown as %s", cut, got)
			}
		}
	}
}

// TestArtifactThatIsNone: whoever published a result names no artifact by what a shell would run.
func TestArtifactThatIsNone(t *testing.T) {
	got := all(&Terminal{}, item(1, "→ …",
		`{"type":"tool_result","tool":{"output":"x"},"artifact":{"artifact_id":"a; rm -r ."},"truncated":true}`))
	if strings.Contains(got, "rm -r") {
		t.Errorf("the result is shown as %s", got)
	}
}

func TestTerminal(t *testing.T) {
	want := `An orchard
s/main · omp

── Fri 20 Nov 2026 ──

User  #1 09:00:01
  What is ripe?

    pears

● Bash  ls  #2 09:00:02
    timeout: 5

● Edit  /x  #3 09:00:03
    - a
    - b
    + c
  └ ✓ #4 of #2 Bash, 2s, 20 lines
    line
    line
    line
    line
    line
    line
    line
    line
    … 12 more lines (--full)
  └ ✗ #5 of #3 Edit, 2s
    no

#6 09:00:06 Turn complete · 1m1s · 1,234 tokens in · 5 tokens out
`
	if d := cmp.Diff(want, all(&Terminal{}, orchard...)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := all(&Terminal{Full: true}, orchard...); strings.Contains(got, "more lines") || strings.Count(got, "    line\n") != 20 {
		t.Errorf("with Full something is folded:\n%s", got)
	}
	narrow := all(&Terminal{Columns: 30}, append(orchard, item(7, strings.Repeat("梨 and apple ", 20), `{"type":"text"}`))...)
	for line := range strings.Lines(narrow) {
		if w := text.Width(strings.TrimSuffix(line, "\n")); w > 30 && !strings.Contains(line, "#") {
			t.Errorf("in 30 columns a line takes %d: %q", w, line)
		}
	}
	coloured := all(&Terminal{Colour: true}, orchard...)
	if sequence.ReplaceAllString(coloured, "") != want {
		t.Errorf("colours change what is said:\n%q", coloured)
	}
	if !strings.Contains(coloured, "\x1b[31m- a\x1b[0m") || !strings.Contains(coloured, "\x1b[32m+ c\x1b[0m") {
		t.Errorf("a difference has no colours:\n%q", coloured)
	}
}

func TestMarkdownAndHTML(t *testing.T) {
	md := all(&Markdown{}, orchard...)
	for _, want := range []string{
		"# An orchard\n\n- s/main\n- omp\n", "## User · #1 2026-11-20 09:00:01\n\nWhat is ripe?", "**Bash** `ls` · #2",
		"… 12 more lines", "Failed · #5",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("Markdown is without %q:\n%s", want, md)
		}
	}
	page := all(&HTML{}, orchard...)
	for _, want := range []string{
		"<!doctype html>", "<title>An orchard</title>", `<article id="2" class="tool_call">`, "<ins>+ c</ins>", "<pre>pears</pre>", "</html>\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("HTML is without %q:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "line\n"); n != 19 {
		t.Errorf("HTML has %d lines of the output, want all but the last: a page folds by itself", n)
	}
}

func TestImages(t *testing.T) {
	i := Read([]byte(`{"n":1,"content":[{"type":"image","data":"blob:sha256:00"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}`))
	if len(i.Images) != 2 || i.Images[0].Source != "blob:sha256:00" || i.Images[1].Source != "data:image/png;base64,AA==" {
		t.Fatalf("images = %+v", i.Images)
	}
	i.Images[0] = Image{Type: "image/png", Size: 2048, Bytes: []byte("x")}
	i.Images[1] = Image{Lost: "it is <gone>"}
	if got := (&Terminal{}).Item(i); !strings.Contains(got, "[image/png, 2.0 KiB]") || !strings.Contains(got, "cannot be read: it is <gone>") {
		t.Errorf("terminal: %s", got)
	}
	page := (&HTML{}).Item(i)
	if !strings.Contains(page, `src="data:image/png;base64,eA=="`) || !strings.Contains(page, "it is &lt;gone&gt;") {
		t.Errorf("page: %s", page)
	}
}

// hostile is what an agent may write anywhere.
const hostile = "\x1b[2J\x1b]0;title\x07\u202e</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u009b31m\x00\r"

// TestHostile: what stands in any member moves no cursor, and is no markup.
func TestHostile(t *testing.T) {
	quoted, _ := json.Marshal(hostile)
	q := string(quoted)
	for _, metadata := range []string{
		"null", `{"type":"text"}`, `{"type":` + q + `}`, `{"type":"thinking","text":` + q + `}`, `{"type":"status","status":` + q + `}`,
		`{"type":"tool_call","tool":{"name":` + q + `,"invocation_id":` + q + `,"input":{"command":` + q + `,` + q + `:` + q + `}}}`,
		`{"type":"tool_call","tool":{"input":{"old_string":` + q + `,"new_string":` + q + `}}}`,
		`{"type":"tool_result","tool":{"is_error":true,"output":` + q + `}}`, `{"type":"tool_result","tool":{"output":{` + q + `:1}}}`,
		`{"type":"pending_prompt","prompt":{"id":` + q + `}}`,
	} {
		raw := []byte(`{"n":1,"session":` + q + `,"thread":` + q + `,"user_id":` + q + `,"content":[{"type":"text","text":` + q +
			`},{"type":"image","data":` +
			q + `}],"metadata":` + metadata + `}`)
		checkForms(t, raw)
	}
}

func checkForms(t *testing.T, raw []byte) {
	t.Helper()
	i := Read(raw)
	for k := range i.Images {
		i.Images[k].Lost = i.Images[k].Source
	}
	head := Head{Thread: i.Thread, Title: i.Text, Facts: []string{i.User}}
	for _, full := range []bool{false, true} {
		for _, f := range []Form{&Terminal{Columns: 40, Full: full}, &Markdown{Full: full}} {
			_, tabs := f.(*Markdown)
			for _, c := range f.Begin(head) + f.Item(i) {
				if unicode.IsControl(c) && c != '\n' && !(tabs && c == '\t') || c >= '\u202a' && c <= '\u202e' {
					t.Fatalf("of %s %T gives %q", raw, f, c)
				}
			}
		}
	}
	page := &HTML{}
	begin := page.Begin(head)
	_, begin, _ = strings.Cut(begin, "</style>")
	out := begin + page.Item(i)
	for _, bad := range []string{"<script", "<img src=x", "</style", "onerror=alert(1)>"} {
		if strings.Contains(strings.ToLower(out), bad) {
			t.Fatalf("of %s a page is given %s:\n%s", raw, bad, out)
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, raw := range orchard {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if json.Valid(raw) {
			checkForms(t, raw)
		}
	})
}

// A result finds its call among a thousand, whatever came between, and an older one stands alone.
func TestCalls(t *testing.T) {
	var c Calls
	call := func(id string) Item {
		return Item{Kind: events.TypeToolCall, Call: id, Tool: "Bash", N: 1, At: time.Unix(10, 0)}
	}
	result := func(id string) Item { return Item{Kind: events.TypeToolResult, Call: id, At: time.Unix(12, 0)} }
	c.Next(call("a"))
	if r, known := c.Next(result("a")); !known || !r.Under || r.Took != 2*time.Second {
		t.Errorf("the result behind its call: %+v, %v", r, known)
	}
	c.Next(Item{Kind: events.TypeText})
	if r, known := c.Next(result("a")); !known || r.Under {
		t.Errorf("a result behind a text: %+v, %v", r, known)
	}
	for n := range mostCalls {
		c.Next(call(strings.Repeat("x", n+1)))
	}
	if _, known := c.Next(result("a")); known || len(c.open) != mostCalls {
		t.Errorf("known %v among %d calls, want forgotten", known, len(c.open))
	}
}

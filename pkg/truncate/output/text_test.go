package output_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/truncate/output"
)

func TestCuts(t *testing.T) {
	text := "first\nsecond\nthird\n"
	for _, c := range []struct {
		cut  output.Cut
		want output.Cut
		note string
	}{
		{output.Head(text, output.Limits{Lines: 4, Bytes: 19}),
			output.Cut{Content: text, TotalLines: 4, TotalBytes: 19, Lines: 4, Bytes: 19}, ""},
		{output.Head(text, output.Limits{Lines: 2, Bytes: 19}),
			output.Cut{Content: "first\nsecond", By: output.ByLines, TotalLines: 4, TotalBytes: 19, Lines: 2, Bytes: 12},
			"\n\n[Showing lines 1-2 of 4. Use :3 to continue]"},
		{output.Head(text, output.Limits{Lines: 9, Bytes: 11}),
			output.Cut{Content: "first", By: output.ByBytes, TotalLines: 4, TotalBytes: 19, Lines: 1, Bytes: 5},
			"\n\n[Showing lines 1-1 of 4. Use :2 to continue]"},
		{output.Head(text, output.Limits{Lines: 9, Bytes: 4}),
			output.Cut{By: output.ByBytes, TotalLines: 4, TotalBytes: 19, FirstLineExceedsLimit: true},
			"\n\n[Showing lines 1-0 of 4. Use :1 to continue]"},
		{output.Head(text, output.Limits{}), output.Cut{By: output.ByLines, TotalLines: 4, TotalBytes: 19},
			"\n\n[Showing lines 1-0 of 4. Use :1 to continue]"},
		{output.Tail(text, output.Limits{Lines: 2, Bytes: 19}),
			output.Cut{Content: "third\n", By: output.ByLines, TotalLines: 4, TotalBytes: 19, Lines: 2, Bytes: 6},
			"\n\n[Showing lines 3-4 of 4. Full output: artifact://7]"},
		{output.Tail(text, output.Limits{Lines: 9, Bytes: 12}),
			output.Cut{Content: "third\n", By: output.ByBytes, TotalLines: 4, TotalBytes: 19, Lines: 2, Bytes: 6},
			"\n\n[Showing lines 3-4 of 4. Full output: artifact://7]"},
		{output.Tail("a\n漢字", output.Limits{Lines: 9, Bytes: 5}),
			output.Cut{Content: "字", By: output.ByBytes, TotalLines: 2, TotalBytes: 8, Lines: 1, Bytes: 3, LastLinePartial: true},
			"\n\n[Showing last 3B of line 2. Full output: artifact://7]"},
		{output.Tail("", output.Limits{Lines: 1}), output.Cut{TotalLines: 1, Lines: 1}, ""},
	} {
		must.Same(t, c.cut, c.want, "cut = %+v, want %+v")
		note := c.cut.HeadNotice()
		if strings.Contains(c.note, "artifact") {
			note = c.cut.TailNotice("7")
		}
		must.Same(t, note, c.note, "notice = %q, want %q")
	}
	if note := output.Tail(text, output.Limits{Lines: 1, Bytes: 19}).TailNotice(""); note != "\n\n[Showing lines 4-4 of 4]" {
		t.Errorf("notice without an artifact = %q", note)
	}
}

// Whatever the text: cuts are whole characters from its ends, within their limits, and as long as they can be.
func TestCutProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aé漢😀\n\n"))).Draw(r, "text")
		n := rapid.IntRange(-1, 40).Draw(r, "limit")
		line, cut := output.Line(text, n)
		kept := len(utf16.Encode([]rune(strings.TrimSuffix(line, "…"))))
		if units := len(utf16.Encode([]rune(text))); cut != (units > max(n, 0)) || cut && kept > max(n, 0) || !cut && line != text {
			r.Fatalf("Line(%q, %d) = %q, %v", text, n, line, cut)
		}
		most := output.Limits{Lines: rapid.IntRange(0, 5).Draw(r, "lines"), Bytes: max(n, 0)}
		for _, c := range []output.Cut{output.Head(text, most), output.Tail(text, most)} {
			if len(c.Content) > max(n, 0) || c.Bytes != len(c.Content) || c.Lines > max(most.Lines, 1) ||
				(c.By == "") != (c.Content == text && c.Lines == c.TotalLines) {
				r.Fatalf("%q is cut to %+v, limits %+v", text, c, most)
			}
		}
	})
}

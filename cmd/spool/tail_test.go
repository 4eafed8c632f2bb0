package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"spool/internal/must"
	"spool/pkg/client"
)

func tailItem(n int64, at int, kind, invocation, text string, failed bool) *client.Item {
	i := &client.Item{N: n, Session: "s", Thread: "main", CreatedAt: fmt.Sprintf("2026-11-20T10:00:%02d.500Z", at),
		Content: []client.Part{{Type: "text", Text: text}}}
	if kind != "" {
		i.Metadata = fmt.Appendf(nil, `{"type":%q,"tool":{"invocation_id":%q,"is_error":%v}}`, kind, invocation, failed)
	}
	i.Raw, _ = json.Marshal(i)
	return i
}

// A result is under its call, says how long it took, and names its call when something came between.
func TestTailFolds(t *testing.T) {
	v := &tailView{width: func() int { return 60 }}
	var got []string
	for _, i := range []*client.Item{
		tailItem(1, 0, "", "", "Plant\x1b[31m a 木", false),
		tailItem(2, 1, "tool_call", "a", "bash → make", false),
		tailItem(3, 3, "tool_result", "a", "→ ok (1 lines)", false),
		tailItem(4, 4, "tool_call", "b", "bash → make test", false),
		tailItem(5, 4, "tool_call", "c", "read → x", false),
		tailItem(6, 9, "tool_result", "b", "→ FAIL (9 lines)", true),
		tailItem(7, 9, "tool_result", "lost", "→ alone (1 lines)", false),
		tailItem(8, 9, "thinking", "", strings.Repeat("木", 100), false),
	} {
		l := v.line(i)
		if w := lipgloss.Width(l); w > 60 {
			t.Errorf("%q has %d columns, want 60 at most", l, w)
		}
		_, l, _ = strings.Cut(l, " ") // the hour is the reader's
		got = append(got, strings.TrimLeft(l, " "))
	}
	for i, want := range []string{
		"s/main 1 message  Plant·[31m a 木", "s/main 2  bash → make", "└ ✓ 2s  ok (1 lines)", "s/main 4  bash → make test", "s/main 5  read → x",
		"└ ✗ 5s  bash → make test  FAIL (9 lines)", "s/main 7 tool_result  → alone (1 lines)",
	} {
		must.Same(t, got[i], want, "line %d = %q, want %q", i)
	}
	made := tailItem(10, 9, "", "", "hello", false)
	made.Session = "019aa0d2-1780-7f03-b6c1-2e94d0a7f358"
	if l := v.line(made); !strings.Contains(l, " 019aa0d2/main 10 ") {
		t.Errorf("line of a made up id = %q, want its beginning", l)
	}
	if l := itemLine(made); !strings.Contains(l, " "+made.Session+"/main 10 ") {
		t.Errorf("line in a pipe = %q, want the whole id", l)
	}
	v.colour = true
	if l := v.line(tailItem(9, 9, "", "", "hello", false)); !strings.Contains(l, "\x1b[") || lipgloss.Width(l) > 60 {
		t.Errorf("with colours: %q", l)
	}
}

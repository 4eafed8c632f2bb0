package main

import (
	"io"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// TestExecCutsLongOutputs: the result of a long output has its beginning and its end, says what is between, and counts no line behind
// the last newline.
func TestExecCutsLongOutputs(t *testing.T) {
	url, cl := whole(t)
	printed := strings.Repeat("a line\n", 15_000)
	if out, code := spool(t, "exec", "--session", "orchard", "--nats", url, "--", "printf", "%s", printed); code != 0 {
		t.Fatalf("exec = %d %.500s", code, out)
	}
	th := events.Thread{Session: "orchard", Name: events.MainThread}
	must.Do(t, cl.Thread(th).Settled(t.Context()))
	head := must.Get(cl.Thread(th).AwaitHead(t.Context()))(t)
	for it := range must.All(t, cl.Thread(th).ItemsFrom(t.Context(), head, 2)) {
		shown, _ := jsonscan.Text(jsonscan.Get(it.Data, "metadata", "tool", "output"))
		begin, end, marked := strings.Cut(shown, "\n[…")
		if !marked || !strings.HasPrefix(begin, printed[:1000]) || !strings.Contains(end, "ln elided…]\n") {
			t.Errorf("it shows %.100q … %.200q, want the beginning, a marker, and the end", begin, end)
		}
		said := string(jsonscan.Get(it.Data, "content"))
		summary, _ := jsonscan.Text(jsonscan.Get(it.Data, "metadata", "artifact", "summary"))
		if !strings.Contains(said, "15000 lines") || !strings.HasPrefix(summary, "15000 lines") {
			t.Errorf("it says %s, its artifact %q; want 15000 lines in both", said, summary)
		}
	}
	res := must.Get(cl.Session("orchard").Resolve(t.Context(), "artifact://0", artifacts.Lines{}))(t)
	must.Same(t, string(must.Get(io.ReadAll(res.Body))(t)), printed, "the artifact is %.100q, want %.100q")
}

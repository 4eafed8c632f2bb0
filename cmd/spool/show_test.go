package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
)

// TestShowNamesCalls: a result whose call is not shown says which it is of.
func TestShowNamesCalls(t *testing.T) {
	url, cl := whole(t)
	publish(t, cl, "orchard", `{"content":[{"type":"text","text":"Look at the plums"}]}`)
	for _, call := range []string{"c1", "c2"} {
		publish(t, cl, "orchard", `{"content":[{"type":"text","text":"bash → ls `+call+
			`"}],"metadata":{"type":"tool_call","tool":{"name":"bash",`+
			`"invocation_id":"`+call+`","input":{"command":"ls `+call+`"}}}}`)
	}
	for _, call := range []string{"c1", "c2"} {
		publish(t, cl, "orchard", `{"content":[{"type":"text","text":"→ diary"}],"metadata":{"type":"tool_result","tool":{`+
			`"invocation_id":"`+call+`","is_error":false,"output":"diary"}}}`)
	}
	for _, form := range [][]string{nil, {"--md"}, {"--html"}} {
		for _, line := range [][]string{{"show", "orchard", "--last", "1"}, {"show", "orchard#5"}} {
			line = append(line, form...)
			var out, said bytes.Buffer
			code := run(append(line, "--nats", url), strings.NewReader(""), &out, &said)
			if code != 0 || !strings.Contains(out.String(), "of #3 bash") || strings.Contains(out.String(), "ls c2") {
				t.Errorf("spool %v = %d %q %q, want the call of the result named, and not shown", line, code, &out, &said)
			}
		}
	}
	var out, said bytes.Buffer
	code := run([]string{"show", "orchard", "--last", "2", "--nats", url}, strings.NewReader(""), &out, &said)
	if code != 0 || !strings.Contains(out.String(), "of #2 bash") || !strings.Contains(out.String(), "of #3 bash") {
		t.Errorf("show --last 2 = %d %q %q, want both calls named", code, &out, &said)
	}
}

// TestShowPictures: a page has pictures, also one of which a blob has the data URL.
func TestShowPictures(t *testing.T) {
	url, cl := whole(t)
	png := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
	publish(t, cl, "orchard", `{"content":[{"type":"image_url","image_url":"data:image/png;base64,`+png+`"}]}`)
	var out, said bytes.Buffer
	must.Same(t, run([]string{"show", "orchard", "--html", "--nats", url}, strings.NewReader(""), &out, &said), 0, "show = %d, want %d")
	if !strings.Contains(out.String(), `<img alt="image/png, 68 B" src="data:image/png;base64,`+png) {
		t.Errorf("show --html = %s %s, want the picture", &out, &said)
	}
}

// TestPageIsBounded: a page has no more bytes than it may have, and says where it ends.
func TestPageIsBounded(t *testing.T) {
	url, cl := whole(t)
	for i := range 40 {
		publish(t, cl, "orchard", fmt.Sprintf(`{"content":[{"type":"text","text":"%02d %s"}]}`, i+1, strings.Repeat("plum ", 200)))
	}
	const most = 20 << 10
	var out, said bytes.Buffer
	must.Same(t, run([]string{"show", "orchard", "--html", "--max-page", "20KiB", "--nats", url}, strings.NewReader(""), &out,
		&said), 0, "show = %d, want %d")
	if n := out.Len(); n > most+1<<10 || n < most/2 {
		t.Errorf("the page has %d bytes, want about %d at most", n, most)
	}
	for _, text := range []string{out.String(), said.String()} {
		if !strings.Contains(text, "ends before item ") || !strings.Contains(text, "of 40") {
			t.Errorf("%.200q does not say where the page ends", text)
		}
	}
	if !strings.HasSuffix(out.String(), "</html>\n") {
		t.Error("the page is torn")
	}
	out.Reset()
	must.Same(t, run([]string{"show", "orchard", "--html", "--nats", url}, strings.NewReader(""), &out, &said), 0, "show = %d, want %d")
	if !strings.Contains(out.String(), "40 plum") || strings.Contains(out.String(), "ends before") {
		t.Error("a page that is small enough is not whole")
	}
}

package client_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Images whose refs came with their entries, as every session file on a disk has them, are in line wherever an entry is
// used, and a missing one is told and stays a ref; an export has what came (SPEC T10, P9).
func TestImagesComeBack(t *testing.T) {
	r := newRig(t)
	png := bytes.Repeat([]byte("\x89PNG"), 500)
	url := "data:image/gif;base64,R0lGODlh"
	ref, urlRef := must.Get(r.PutBlob(t.Context(), png))(t), must.Get(r.PutBlob(t.Context(), []byte(url)))(t)
	gone := casstore.SumBlob([]byte("never stored"))
	image := func(data string) string { return `{"type":"image","data":"` + data + `","mimeType":"image/png"}` }
	lines := []string{
		`{"type":"session","version":3,"id":"s","timestamp":"2026-02-16T10:20:30.000Z","cwd":"/w"}`,
		`{"type":"message","id":"a1","parentId":null,"timestamp":"2026-02-16T10:20:31.000Z",` +
			`"message":{"role":"user","content":[` +
			image(ref.String()) + `,` + image(gone.String()) + `]}}`,
		`{"type":"custom_message","id":"a2","parentId":"a1","timestamp":"2026-02-16T10:20:32.000Z",` +
			`"customType":"x","display":true,"content":[` +
			`{"type":"input_image","image_url":"` + urlRef.String() + `"}]}`,
		`{"type":"message","id":"a3","parentId":"a2","timestamp":"2026-02-16T10:20:33.000Z",` +
			`"message":{"role":"toolResult","toolCallId":"c",` +
			`"content":[{"type":"text","text":"` + strings.Repeat("x", 600_000) + `"},` + image(ref.String()) + `]}}`,
	}
	th := events.Thread{Session: "s", Name: events.MainThread}
	var es []client.Entry
	for _, line := range lines {
		es = append(es, client.Entry{Thread: th, Dialect: "omp", Body: []byte(line)})
	}
	r.publish(t, es...)
	var told []casstore.Ref
	warn := func(m rehydrate.Missing) { told = append(told, m.Ref) }
	got := string(must.Get(r.Thread(th).Context(t.Context(), sessions.Last, warn))(t).JSON())
	b64 := base64.StdEncoding.EncodeToString(png)
	if strings.Count(got, b64) != 2 || strings.Count(got, url) != 1 || strings.Count(got, "blob:sha256:") != 1 ||
		!strings.Contains(got, gone.String()) {
		t.Errorf("context = %.3000s, want two pictures, a URL, and the ref of what is missing", got)
	}
	if len(told) != 1 || told[0] != gone {
		t.Errorf("told %v, want %v", told, gone)
	}
	if _, err := r.Thread(th).Context(t.Context(), sessions.Last, nil); err == nil {
		t.Error("a strict context without a picture: no error")
	}
	for it := range must.All(t, r.Thread(th).ItemsFrom(t.Context(), must.Get(r.Thread(th).Head(t.Context()))(t), 1)) {
		shown := image(ref.String())
		if it.N != 2 && !strings.Contains(string(it.Data), shown) {
			t.Errorf("item %d = %.300s, want the picture in its content", it.N, it.Data)
		}
	}
	log := must.Get(r.Thread(th).Log(t.Context()))(t)
	all := string(must.Get(io.ReadAll(log))(t))
	must.Do(t, log.Close())
	if strings.Count(all, b64) != 2 || strings.Count(all, gone.String()) != 1 {
		t.Errorf("log = %.2000s, want two pictures in line, and the ref of what is missing", all)
	}
	var file strings.Builder
	must.Get(r.Thread(th).Export(t.Context(), &file))(t)
	if want := strings.Join(lines, "\n") + "\n"; file.String() != want {
		t.Errorf("export = %.3000s, want the lines that came", file.String())
	}
}

// A log of a thread has pictures in line (SPEC I5, P9).
func TestImagesOfALog(t *testing.T) {
	r := newRig(t)
	png := bytes.Repeat([]byte("\x89PNG"), 500)
	ref := must.Get(r.PutBlob(t.Context(), png))(t)
	gone := casstore.SumBlob([]byte("never stored"))
	th := events.Thread{Session: "s", Name: events.MainThread}
	r.publish(t, client.Entry{Thread: th, Dialect: "item",
		Body: []byte(`{"content":[{"type":"text","text":"two"},{"type":"image","data":"` +
			ref.String() + `"},{"type":"image","data":"` + gone.String() + `"}]}`)})
	told := 0
	res := must.Get(r.Internal().Warning(func(rehydrate.Missing) { told++ }).EverySession().Resolve(t.Context(),
		"s/threads/main/logs/thread.log", artifacts.Lines{}))(t)
	log := string(must.Get(io.ReadAll(res.Body))(t))
	must.Do(t, res.Body.Close())
	if !strings.Contains(log, `"data":"`+base64.StdEncoding.EncodeToString(png)+`"`) || !strings.Contains(log,
		gone.String()) || told != 1 {
		t.Errorf("log = %.4000s, told %d; want one picture in line, and one ref that was told", log, told)
	}
	head := must.Get(r.Thread(th).Head(t.Context()))(t)
	if full := must.Get(r.Thread(th).FullItem(t.Context(), head, 1))(t); string(full) != strings.TrimSuffix(log, "\n") {
		t.Errorf("whole item = %s, want the line of the log", full)
	}
}

// Images in Claude Code's lines, in a post, in a tool's result and in what the harness keeps of it, are one blob; an
// export has the lines as they came, and a ref that came by itself is held and leads back to the image. Items have the refs,
// and the log has the images in line.
func TestImagesOfClaudeCode(t *testing.T) {
	r := newRig(t)
	png := bytes.Repeat([]byte("\x89PNG"), 500)
	b64 := base64.StdEncoding.EncodeToString(png)
	image := func(data string) string {
		return `{"type":"image","source":{"type":"base64","data":"` + data + `","media_type":"image/png"}}`
	}
	lines := []string{
		`{"type":"user","uuid":"u1","message":{"role":"user","content":[{"type":"text","text":"see"},` +
			image(b64) + `]}}`,
		`{"type":"user","uuid":"u2","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result",` +
			`"content":[` + image(b64) + `]}]},` +
			`"toolUseResult":{"type":"image","file":{"base64":"` + b64 + `","type":"image/png"}}}`,
		`{"type":"user","uuid":"u3","message":{"role":"user","content":[` +
			image(casstore.SumBlob(png).String()) + `]}}`,
	}
	th := thread("s")
	var es []client.Entry
	for _, line := range lines {
		es = append(es, client.Entry{Thread: th, Dialect: "claude", Body: []byte(line)})
	}
	r.publish(t, es...)
	head := must.Get(r.Thread(th).Head(t.Context()))(t)
	stored := must.Get(r.Blob(t.Context(), casstore.SumBlob(png)))(t)
	if !bytes.Equal(stored, png) || head.Externalized != 3 {
		t.Errorf("%d values are moved, and the blob has %d bytes; want 3, %d", head.Externalized, len(stored), len(png))
	}
	for form, want := range map[rehydrate.Form]int{rehydrate.Full: 3, rehydrate.Stored: 0} {
		var out bytes.Buffer
		must.Get(r.Internal().ExportAs(t.Context(), th, form, &out, nil))(t)
		must.Same(t, strings.Count(out.String(), b64), want, "form %d has %d images in line, want %d", form)
		if form == rehydrate.Full && out.String() != strings.Join(lines, "\n")+"\n" {
			t.Errorf("export = %.500s, want the lines as they came", out.String())
		}
	}
	for i, line := range lines {
		stored := strings.ReplaceAll(line, b64, casstore.SumBlob(png).String())
		got := string(must.Get(rehydrate.Resolve(t.Context(), []byte(stored), r.Internal().Source().Blobs, nil))(t))
		if want := strings.ReplaceAll(stored, casstore.SumBlob(png).String(), b64); got != want {
			t.Errorf("line %d is resolved as %.500s", i, got)
		}
	}
	shown := 0
	for it := range must.All(t, r.Thread(th).ItemsFrom(t.Context(), head, 1)) {
		if strings.Contains(string(it.Data), `{"type":"image","data":"`+casstore.SumBlob(png).String()+`","mimeType":"image/png"}`) {
			shown++
		}
	}
	log := must.Get(r.Thread(th).Log(t.Context()))(t)
	all := string(must.Get(io.ReadAll(log))(t))
	must.Do(t, log.Close())
	if inLine := strings.Count(all, b64); shown != 3 || inLine != 3 {
		t.Errorf("%d items have the picture, and the log has it %d times; want 3, 3", shown, inLine)
	}
	must.Do(t, threads.Verify(t.Context(), r.Reader(), head))
}

// Pictures of Codex's messages and results are data URLs, and a blob holds the URL. Items have the refs, and the log has the
// URLs; an export has the lines as they came.
func TestImagesOfCodex(t *testing.T) {
	r := newRig(t)
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("\x89PNG"), 500))
	ref := casstore.SumBlob([]byte(url))
	lines := []string{
		`{"timestamp":"2026-11-20T12:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[` +
			`{"type":"input_text","text":"see"},{"type":"input_image","image_url":"` + url + `","detail":"high"}]}}`,
		`{"timestamp":"2026-11-20T12:00:01.000Z","type":"response_item","payload":{"type":"function_call","name":"view_image",` +
			`"arguments":"{}","call_id":"c1"}}`,
		`{"timestamp":"2026-11-20T12:00:02.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1",` +
			`"output":[{"type":"input_image","image_url":"` + url + `"},{"type":"input_image","image_url":"https://example.com/a.png"}]}}`,
	}
	th := thread("s")
	var es []client.Entry
	for _, line := range lines {
		es = append(es, client.Entry{Thread: th, Dialect: "codex", Body: []byte(line)})
	}
	r.publish(t, es...)
	head := must.Get(r.Thread(th).Head(t.Context()))(t)
	shown := 0
	for it := range must.All(t, r.Thread(th).ItemsFrom(t.Context(), head, 1)) {
		if strings.Contains(string(it.Data), `,{"type":"image_url","image_url":"`+ref.String()+`"}]`) {
			shown++
		}
	}
	log := must.Get(r.Thread(th).Log(t.Context()))(t)
	all := string(must.Get(io.ReadAll(log))(t))
	must.Do(t, log.Close())
	whole := string(must.Get(r.Thread(th).FullItem(t.Context(), head, 1))(t))
	if shown != 2 || strings.Count(all, url) != 2 || !strings.Contains(whole, url) {
		t.Errorf("%d items have the picture, the log %d times, item 1 = %.300s; want 2, 2, and the URL", shown, strings.Count(all, url), whole)
	}
	var out bytes.Buffer
	must.Get(r.Thread(th).Export(t.Context(), &out))(t)
	if out.String() != strings.Join(lines, "\n")+"\n" {
		t.Errorf("export = %.500s, want the lines as they came", out.String())
	}
}

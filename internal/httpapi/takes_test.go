package httpapi_test

import (
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// TestEntriesThatNobodyTakes: what an ended or renamed thread would refuse, and a prompt that nobody could list, is refused at the
// entrance; what an ended thread has comes again and is fine.
func TestEntriesThatNobodyTakes(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	const session, js, lines = "/v1/sessions/s/threads/", "application/json", "application/x-ndjson"
	const entry = `{"content":[{"type":"text","text":"hello"}]}`
	for _, step := range []struct {
		path, kind, body string
		want             int
	}{
		{"a/entries?dialect=item", js, entry, 202},
		{"b/entries?dialect=item", js, entry, 202},
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt_id":"p"}}`, 400},
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt":{"id":"p","kind":"text"}}}`, 202},
		{"asked", "", "", 0}, // until it is
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt":{"id":"p","kind":"text"}}}`, 202},
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt":{"id":"p","kind":"approval"}}}`, 409},
		{"b/end", js, `{"return_code":0}`, 200},
		{"b/entries?dialect=item", js, entry, 409},
		{"b/entries?dialect=claude", js, `{"type":"user"}`, 409},
		{"c/entries?dialect=item", js, entry, 202},
		{"c/rename", js, `{"to":"d"}`, 200},
		{"c/entries?dialect=item", js, entry, 409},
		{"d/entries?dialect=item", js, entry, 202},
	} {
		if step.path == "asked" {
			for status := 0; status != 200 && ctx.Err() == nil; {
				status, _, _ = get(t, url, session+"a/prompts/p")
			}
			continue
		}
		if name, op, _ := strings.Cut(step.path, "/"); op == "end" || op == "rename" { // of what is there
			for status := 0; status != 200 && ctx.Err() == nil; {
				status, _, _ = get(t, url, session+name)
			}
		}
		status, _, text := do(t, url, request{method: "POST", path: session + step.path, kind: step.kind, body: step.body})
		if status != step.want {
			t.Errorf("POST %s %s = %d %s, want %d", step.path, step.body, status, text, step.want)
		}
	}
	status, _, text := do(t, url, request{method: "POST", path: session + "b/entries?dialect=item", kind: lines, body: entry + "\n" + entry})
	if status != 200 || !strings.Contains(text, `"error"`) || strings.Contains(text, `"ok":true`) {
		t.Errorf("lines to an ended thread = %d %s, want a refusal each", status, text)
	}
	if letters := must.Get(cl.DeadLetters(ctx, "s"))(t); len(letters) != 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}

// TestEntriesForALatchedThread: where a head cannot be read, the entry is refused with the reason, and is no dead letter.
func TestEntriesForALatchedThread(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	key := events.HeadKey(events.Thread{Session: "s", Name: "main"})
	must.Get(conn.JetStream().Publish(ctx, events.RecordSubject(key), []byte("no head")))(t)
	status, _, text := do(t, url, request{
		method: "POST", path: "/v1/sessions/s/threads/main/entries?dialect=item", kind: "application/json",
		body: `{"content":[{"type":"text","text":"hello"}]}`,
	})
	if status != 409 || !strings.Contains(text, "thread is latched") || !strings.Contains(text, "s/main") {
		t.Errorf("POST = %d %s, want 409 and why", status, text)
	}
	if letters := must.Get(cl.DeadLetters(ctx, "s"))(t); len(letters) != 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}

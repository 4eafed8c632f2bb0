package httpapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestEntriesThatNobodyTakes: what an ended or renamed thread would refuse, and a prompt that nobody could list, is refused at the
// entrance; what an ended thread has comes again and is fine.
func TestEntriesThatNobodyTakes(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	const session, js, lines = "/v1/sessions/s/threads/", "application/json", "application/x-ndjson"
	const asks = `{"content":[{"type":"text","text":"Well?"}],"metadata":{"type":"pending_prompt","prompt":{"id":"p","kind":"text"}}}`
	const entry = `{"content":[{"type":"text","text":"hello"}]}`
	for _, step := range []struct {
		path, kind, body string
		want             int
	}{
		{"a/entries?dialect=item", js, entry, 202},
		{"b/entries?dialect=item", js, entry, 202},
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt_id":"p"}}`, 400},
		{"a/entries?dialect=item", js, `{"content":[],"metadata":{"type":"pending_prompt","prompt":{"id":"q","kind":"ask_user_question","questions":["Well?"]}}}`, 202},
		{"a/entries?dialect=item", js, asks, 202},
		{"asked", "", "", 0}, // until it is
		{"a/entries?dialect=item", js, asks, 202},
		{"a/entries?dialect=item", js, strings.Replace(asks, `"kind":"text"`, `"kind":"approval"`, 1), 409},
		{"a/fork", js, `{"to":"x","index":0}`, 400},
		{"a/fork", js, `{"to":"x","n":0}`, 400},
		{"a/fork", js, `{"to":"x","n":-1}`, 400},
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
	if letters := must.Get(cl.Session("s").DeadLetters(ctx))(t); len(letters) != 0 {
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
	if letters := must.Get(cl.Session("s").DeadLetters(ctx))(t); len(letters) != 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}

// TestHeadBreaksBesideEntries: an entrance that takes entries without a look finds out that a thread's head cannot be
// read, and refuses what comes behind that.
func TestHeadBreaksBesideEntries(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	entrance := natstest.Dial(t, server)
	srv := httptest.NewServer(httpapi.For(entrance, httpapi.Config{Look: time.Millisecond}))
	t.Cleanup(srv.Close)
	post := func(session string) (int, string) {
		status, _, text := do(t, srv.URL, request{
			method: "POST", path: "/v1/sessions/" + session + "/threads/main/entries?dialect=item", kind: "application/json",
			body: `{"content":[{"type":"text","text":"hello"}]}`,
		})
		return status, text
	}
	sent := func() uint64 { return entrance.JetStream().Conn().Stats().OutMsgs }
	for i, cost := 0, uint64(0); cost != 1; i++ { // until an entry waits for no look
		was := sent()
		if status, text := post(fmt.Sprint("new-", i)); status != 202 || ctx.Err() != nil {
			t.Fatalf("entry = %d %s, want 202, for one message and not %d", status, text, cost)
		}
		cost = sent() - was
	}
	main := events.Thread{Session: "s", Name: "main"}
	if status, text := post("s"); status != 202 {
		t.Fatalf("entry = %d %s, want 202", status, text)
	}
	for cl := client.New(conn); ; {
		if _, err := cl.Thread(main).Head(ctx); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	must.Get(conn.JetStream().Publish(ctx, events.RecordSubject(events.HeadKey(main)), []byte("no head")))(t)
	status, text := 0, ""
	for status != 409 {
		if status, text = post("s"); ctx.Err() != nil {
			t.Fatalf("entry = %d %s, want 409", status, text)
		}
	}
	if !strings.Contains(text, "thread is latched") || !strings.Contains(text, "s/main") {
		t.Errorf("refusal %s, want one that says why", text)
	}
}

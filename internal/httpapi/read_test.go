package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// world is a server with a persister and the HTTP side.
func world(t *testing.T) (context.Context, *client.Client, string) {
	conn := natstest.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(func() { cancel(); srv.Close() })
	return ctx, client.New(conn), srv.URL
}

func get(t *testing.T, url, path string, header ...string) (int, map[string][]string, string) {
	t.Helper()
	q := request{method: "GET", path: path, header: map[string]string{}}
	for i := 0; i < len(header); i += 2 {
		q.header[header[i]] = header[i+1]
	}
	return do(t, url, q)
}

func one(h map[string][]string, name string) string { return strings.Join(h[name], ",") }

// TestCleanupByAge: an age is a time, or how long ago; anything else is refused, and removes nothing.
func TestCleanupByAge(t *testing.T) {
	ctx, c, url := world(t)
	must.Do(t, c.NewSession(ctx, "s", "/w", ""))
	must.Get(c.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("x")))(t)
	for than, want := range map[string]struct {
		status, found int
		says          string
	}{
		`"0s"`: {200, 1, ""}, `"1h"`: {200, 0, ""}, `"2020-01-01T00:00:00Z"`: {200, 0, ""}, `null`: {200, 1, ""},
		`""`: {400, 0, "a duration like 1h"}, `"-1h"`: {400, 0, "a duration like 1h"}, `"1 day"`: {400, 0, "a duration like 1h"},
		`3600`: {400, 0, "older_than"},
	} {
		body := `{"include_all":true,"older_than":` + than + `}`
		status, _, text := do(t, url, request{path: "/v1/sessions/s/artifacts/cleanup", kind: "application/json", body: body})
		if status != want.status || strings.Count(text, `"art_`) != want.found || !strings.Contains(text, want.says) {
			t.Errorf("older than %s = %d %s, want %d, %d artifacts", than, status, text, want.status, want.found)
		}
	}
}

// Artifacts are downloads: whole or in part, with an ETag, and never shown by a browser (DESIGN 11).
func TestReadArtifact(t *testing.T) {
	ctx, cl, url := world(t)
	must.Do(t, cl.NewSession(ctx, "s", "/w", ""))
	text := strings.Repeat("line\n", 300_000)
	r, err := cl.PutArtifact(ctx, client.NewArtifact{Tool: "bash",
		Record: artifacts.Record{Session: "s", MIME: "text/html", Filename: `a "b".html`}}, strings.NewReader(text))
	must.Do(t, err)
	path := "/v1/artifacts/" + string(r.ID)
	status, h, body := get(t, url, path)
	if status != 200 || body != text {
		t.Fatalf("GET = %d, %d bytes", status, len(body))
	}
	if d := one(h, "Content-Disposition"); !strings.HasPrefix(d, "attachment; filename=") ||
		one(h, "X-Content-Type-Options") != "nosniff" || one(h, "Content-Security-Policy") == "" {
		t.Errorf("headers = %v", h)
	}
	etag := one(h, "Etag")
	if status, _, body := get(t, url, path, "Range", "bytes=1000000-1000009"); status != 206 || body != text[1_000_000:1_000_010] {
		t.Errorf("range = %d %q", status, body)
	}
	if status, _, _ := get(t, url, path, "If-None-Match", etag); status != 304 || etag == "" {
		t.Errorf("with its ETag %s = %d, want 304", etag, status)
	}
	for _, of := range []string{"bytes=9000000-", "bites"} {
		status, h, body := get(t, url, path, "Range", of)
		var refusal struct{ Error string }
		err := json.Unmarshal([]byte(body), &refusal)
		if status != 416 || err != nil || !strings.Contains(refusal.Error, of) || one(h, "Content-Type") != "application/json" ||
			one(h, "Content-Disposition") != "" {
			t.Errorf("range %s = %d %v %q, want 416 and why", of, status, h, body)
		}
	}
	if status, _, _ := get(t, url, "/v1/artifacts/art_none"); status != 404 {
		t.Errorf("no such artifact = %d, want 404", status)
	}
	status, _, body = get(t, url, "/v1/sessions/s/artifacts")
	var listed struct {
		ID   string `json:"artifact_id"`
		Size int64
	}
	if err := json.Unmarshal([]byte(body), &listed); status != 200 || err != nil || listed.ID != string(r.ID) ||
		listed.Size != int64(len(text)) {
		t.Errorf("list = %d %s", status, body)
	}

	status, _, body = do(t, url, request{path: "/v1/sessions/s/artifacts?tool=curl&category=debug&summary=what",
		kind: "text/plain", body: "posted"})
	if err := json.Unmarshal([]byte(body), &listed); status != 201 || err != nil || listed.Size != 6 ||
		!strings.Contains(body, `"filename":"1.curl.log"`) {
		t.Errorf("POST = %d %s", status, body)
	}
	if status, _, body := get(t, url, "/v1/artifacts/"+listed.ID); status != 200 || body != "posted" {
		t.Errorf("what was posted = %d %q", status, body)
	}
	if status, _, body := do(t, url, request{path: "/v1/sessions/s/artifacts?category=odd", body: "x"}); status != 400 {
		t.Errorf("POST of an odd category = %d %s, want 400", status, body)
	}

	// What is registered on this machine is not given to others.
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("secret"), 0o600))
	if r, err = cl.RegisterFile(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, file); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/artifacts/" + string(r.ID), "/v1/read?session=s&url=artifact://2"} {
		if status, _, body := get(t, url, path); status != 404 || strings.Contains(body, `"secret"`) {
			t.Errorf("%s of a local file = %d %s", path, status, body)
		}
	}
}

// Addresses resolve with the words that are promised (SPEC A8).
func TestReadAddress(t *testing.T) {
	ctx, cl, url := world(t)
	for _, q := range []struct {
		query, want string
		status      int
	}{
		{"url=artifact://0", "No session - artifacts unavailable", 404},
		{"url=artifact://0&session=s", "No artifacts directory found", 404},
		{"url=artifact://x&session=s", "artifact:// ID must be numeric, got: x", 400},
		{"url=blob:sha256:00", "no blob ref", 400},
		{"url=nonsense", "Invalid URL", 400},
		{"url=artifact://0&session=a.b", "A-Z a-z", 400},
		{"url=artifact://0&offset=x", "whole number", 400},
		{"url=s/threads/none/logs/thread.log", "no such thread", 404},
	} {
		if status, _, body := get(t, url, "/v1/read?"+q.query); status != q.status || !strings.Contains(body, q.want) {
			t.Errorf("%s = %d %s, want %d %s", q.query, status, body, q.status, q.want)
		}
	}
	must.Do(t, cl.NewSession(ctx, "s", "/w", ""))
	must.Get(cl.PutArtifact(ctx, client.NewArtifact{Tool: "t", Record: artifacts.Record{Session: "s"}}, strings.NewReader("a\nb\nc\n")))(t)
	id, err := cl.AgentID(ctx, "s", "", "Review")
	if err != nil || id != "0-Review" {
		t.Fatalf("AgentID = %q, %v", id, err)
	}
	must.Get(cl.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s", Writer: artifacts.FromAgent,
		Agent: id}}, strings.NewReader(`{"findings":["x"]}`)))(t)
	for query, want := range map[string]string{
		"url=artifact://0&session=s":                         "a\nb\nc\n",
		"url=artifact://0&session=s&offset=2&limit=1":        "b\n",
		"url=agent://0-Review/findings/0&session=s":          `"x"`,
		"url=agent://0-Review%3Fq=findings%5B0%5D&session=s": `"x"`,
	} {
		if status, _, body := get(t, url, "/v1/read?"+query); status != 200 || body != want {
			t.Errorf("%s = %d %q, want %q", query, status, body, want)
		}
	}
	if status, _, body := get(t, url, "/v1/read?session=s&url=artifact://7"); status != 404 ||
		!strings.Contains(body, "Artifact 7 not found. Available: 0") {
		t.Errorf("artifact 7 = %d %s", status, body)
	}
}

// The local_log of an item that was cut leads to all of it, under /v1/sessions/ (SPEC I5).
func TestReadLog(t *testing.T) {
	ctx, cl, url := world(t)
	th := events.Thread{Session: "s", Name: "main"}
	long := strings.Repeat("x", 700_000) // over the entry's limit and the item's
	pub := cl.Publisher(client.PublisherConfig{User: "u"})
	for i, text := range []string{"short", long, "last"} {
		body, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}},
			"metadata": map[string]any{"type": "text"}})
		must.Do(t, pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item", Body: body, Time: int64(i + 1)}))
	}
	must.Do(t, cl.Await(ctx, th, pub.Producer(), 0, 3))
	posted, err := faulttest.ItemsOf(ctx, cl, th, 1, 3)
	if err != nil || len(posted) != 3 {
		t.Fatalf("ItemsOf = %d items, %v", len(posted), err)
	}
	var m struct {
		Truncated bool
		Log       string `json:"local_log"`
	}
	if err := json.Unmarshal(posted[1].Metadata, &m); err != nil || !m.Truncated {
		t.Fatalf("metadata = %.300s, %v, want it truncated", posted[1].Metadata, err)
	}
	status, h, body := get(t, url, "/v1/sessions/"+m.Log)
	items := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if status != 200 || len(items) != 3 || one(h, "Content-Type") != client.LogType {
		t.Fatalf("log = %d, %d lines, %v", status, len(items), h)
	}
	for i, want := range []string{"short", long, "last"} {
		var it client.Item
		if err := json.Unmarshal([]byte(items[i]), &it); err != nil || it.N != int64(i+1) || it.Text() != want ||
			it.User != "u" || it.Node != posted[i].Node {
			t.Errorf("item %d = %.200s, %v", i+1, items[i], err)
		}
	}
	if string(posted[0].Raw) != items[0] {
		t.Errorf("an item that was not cut differs:\n%s\n%s", posted[0].Raw, items[0])
	}
	if status, _, body := get(t, url, "/v1/sessions/"+m.Log+"?offset=3&limit=1"); status != 200 || body != items[2]+"\n" {
		t.Errorf("third line = %d %.200s", status, body)
	}
	if status, _, _ := get(t, url, "/v1/sessions/"+m.Log+"?offset=9"); status != 416 {
		t.Errorf("ninth line = %d, want 416", status)
	}
}

// A prompt is listed, answered once, and the second answer is told how (SPEC I8).
func TestReadPrompts(t *testing.T) {
	ctx, cl, url := world(t)
	th := events.Thread{Session: "s", Name: "main"}
	done := make(chan events.Resolution, 1)
	go func() {
		r, err := cl.Ask(ctx, th, events.Prompt{ID: "a/b", Kind: events.PromptApproval, Text: "Deploy?"})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	var list string
	for list == "" && ctx.Err() == nil {
		_, _, list = get(t, url, "/v1/prompts?session=s")
	}
	if !strings.Contains(list, `"id":"a/b"`) || !strings.Contains(list, `"answerable":true`) {
		t.Errorf("prompts = %s", list)
	}
	path := "/v1/sessions/s/threads/main/prompts/a%2Fb"
	post := func(body string) (int, string) {
		status, _, text := do(t, url, request{path: path + "/answer", kind: "application/json", body: body})
		return status, text
	}
	if status, text := post(`{"answer":"perhaps"}`); status != 400 {
		t.Errorf("no verdict = %d %s, want 400", status, text)
	}
	if status, text := post(`{"answer":false,"by":"mira"}`); status != 200 || !strings.Contains(text, `"outcome":"denied","by":"mira"`) {
		t.Errorf("answer = %d %s", status, text)
	}
	if r := <-done; r.Outcome != events.OutcomeDenied || r.By != "mira" {
		t.Errorf("Ask = %+v", r)
	}
	if status, text := post(`{"answer":true,"by":"sam"}`); status != 409 || !strings.Contains(text, `"by":"mira"`) {
		t.Errorf("second answer = %d %s, want 409 and the first", status, text)
	}
	if status, _, text := get(t, url, path); status != 200 || !strings.Contains(text, `"outcome":"denied"`) {
		t.Errorf("prompt = %d %s", status, text)
	}
	if status, _, _ := get(t, url, "/v1/sessions/s/threads/main/prompts/none"); status != 404 {
		t.Errorf("no prompt = %d, want 404", status)
	}
}

// Reading needs the token too.
func TestReadGuarded(t *testing.T) {
	conn := natstest.Conn(t)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{Tokens: access.One("0123456789abcdef")}))
	t.Cleanup(srv.Close)
	for _, path := range []string{"/v1/prompts", "/v1/artifacts/x", "/v1/sessions/s/artifacts", "/v1/read?url=blob:x",
		"/v1/sessions/s/threads/t/logs/thread.log", "/v1/sessions/s/threads/t/prompts/p"} {
		if status, _, _ := get(t, srv.URL, path); status != 401 {
			t.Errorf("%s without a token = %d, want 401", path, status)
		}
		if status, _, _ := get(t, srv.URL, path, "Authorization", "Bearer 0123456789abcdef"); status == 401 {
			t.Errorf("%s with the token = 401", path)
		}
	}
}

// An output that is to be kept has an artifact, however short (SPEC A4).
func TestKeepOutput(t *testing.T) {
	ctx, cl, url := world(t)
	for query, kept := range map[string]bool{"?tool=make": false, "?tool=make&keep=1": true} {
		status, _, body := do(t, url, request{path: "/v1/sessions/s/threads/main/outputs" + query,
			kind: "application/octet-stream", body: "short\n"})
		var out struct {
			ID string `json:"artifact_id"`
		}
		if err := json.Unmarshal([]byte(body), &out); status != 201 || err != nil || (out.ID != "") != kept {
			t.Errorf("POST outputs%s = %d %s, want an artifact: %v", query, status, body, kept)
			continue
		}
		if kept {
			if r, err := cl.Artifact(ctx, artifacts.ID(out.ID)); err != nil || r.Size != int64(len("short\n")) {
				t.Errorf("artifact %s: %d bytes, %v", out.ID, r.Size, err)
			}
		}
	}
}

package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

// Artifacts are downloads under their own name, and what is on this machine is not one (DESIGN 11).
func TestReadArtifact(t *testing.T) {
	ctx, cl, url := world(t)
	must.Do(t, cl.Session("s").New(ctx, "/w", ""))
	text := strings.Repeat("line\n", 300_000)
	r, err := cl.Artifacts().Put(ctx, client.NewArtifact{Tool: "bash",
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
	status, _, body = get(t, url, "/v1/sessions/s/artifacts")
	var listed struct {
		ID   string `json:"artifact_id"`
		Size int64
	}
	if err := json.Unmarshal([]byte(body), &listed); status != 200 || err != nil || listed.ID != string(r.ID) ||
		listed.Size != int64(len(text)) {
		t.Errorf("list = %d %s", status, body)
	}

	if status, _, body := do(t, url, request{path: "/v1/sessions/s/artifacts?agent=a%2Fb", body: "x"}); status != 400 {
		t.Errorf("an artifact of an agent whose id is none = %d %s, want 400", status, body)
	}
	if status, _, body := do(t, url, request{path: "/v1/sessions/s/artifacts?category=odd", body: "x"}); status != 400 {
		t.Errorf("POST of an odd category = %d %s, want 400", status, body)
	}

	// What is registered on this machine is not given to others.
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("secret"), 0o600))
	if r, err = cl.Artifacts().RegisterFile(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s"}}, file); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/artifacts/" + string(r.ID), "/v1/read?session=s&url=artifact://2"} {
		if status, _, body := get(t, url, path); status != 404 || strings.Contains(body, `"secret"`) {
			t.Errorf("%s of a local file = %d %s", path, status, body)
		}
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
		must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item", Body: body, Time: time.UnixMilli(int64(i + 1))}))(t)
	}
	must.Do(t, cl.Thread(th).Await(ctx, pub.Producer(), 0, 3))
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

// A search by type finds what is of it however far back, in answers that look at a part of the thread each.
func TestSearchByType(t *testing.T) {
	ctx, cl, url := world(t)
	pub := cl.Publisher(client.PublisherConfig{})
	const turns, long = 25, 200
	var entries []client.Entry
	item := func(text, metadata string) {
		body := `{"content":[{"type":"text","text":` + string(must.Get(json.Marshal(text))(t)) + `}]` + metadata + `}`
		entries = append(entries, client.Entry{Thread: events.Thread{Session: "s", Name: "main"}, Dialect: "item", Body: []byte(body)})
	}
	for i := range turns {
		item(fmt.Sprintf("\nTurn %d\nand more", i), "")
		for k := range long - 2 {
			item("said", `,"metadata":{"type":"tool_result","tool":{"invocation_id":"c","is_error":`+fmt.Sprint(k == 3)+`,"output":"x"}}`)
		}
		item("Done with it", `,"metadata":{"type":"text"}`)
	}
	for part := range slices.Chunk(entries, 500) {
		must.Do(t, must.Get(pub.Publish(ctx, part...))(t).Applied(ctx))
	}
	const path = "/v1/sessions/s/threads/main/search?"
	for query, want := range map[string]string{
		"type=message&limit=10": "message Turn ", "type=tool_result&detail=error": "tool_result said", "type=text,thinking": "text Done with it",
		"type=text&q=with": "text Done with it",
	} {
		pages, before := 0, ""
		var numbers []int64
		for {
			status, _, text := get(t, url, path+query+before)
			var got struct {
				Matches []struct {
					N             int64
					Type, Snippet string
				}
				Next string
			}
			if err := json.Unmarshal([]byte(text), &got); status != 200 || err != nil {
				t.Fatalf("%s = %d %s", query+before, status, text)
			}
			for _, m := range got.Matches {
				if numbers = append(numbers, m.N); !strings.HasPrefix(m.Type+" "+m.Snippet, want) || strings.Contains(m.Snippet, "more") {
					t.Fatalf("%s = %s %q, want %q", query, m.Type, m.Snippet, want)
				}
			}
			if pages++; got.Next == "" {
				break
			}
			before = "&before=" + got.Next
		}
		if len(numbers) != turns || !slices.IsSortedFunc(numbers, func(a, b int64) int { return int(b - a) }) || pages < 3 {
			t.Errorf("%s = %d in %d pages, want %d, newest first, in several: %v", query, len(numbers), pages, turns, numbers)
		}
	}
	item("Turn complete", `,"metadata":{"type":"turn_end","stats":{"output_tokens":7}}`)
	must.Do(t, must.Get(pub.Publish(ctx, entries[len(entries)-1]))(t).Applied(ctx))
	if _, _, text := get(t, url, path+"type=message,turn_end&limit=1"); !strings.Contains(text, `"stats":{"output_tokens":7}`) {
		t.Errorf("the end of a turn = %s, want what it took", text)
	}
	if status, _, text := get(t, url, path+"detail=error"); status != 400 {
		t.Errorf("a detail of no type = %d %s, want 400", status, text)
	}
}

// A thread is saved as one file, in which what agents wrote is text, and which no browser shows at this origin.
func TestPage(t *testing.T) {
	ctx, cl, url := world(t)
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "first", "<script>alert(1)</script>", "last")
	for as, want := range map[string]string{"html": "&lt;script&gt;alert(1)", "md": "first"} {
		status, h, body := get(t, url, "/v1/sessions/s/threads/main/page?as="+as)
		if status != 200 || !strings.Contains(body, want) || !strings.Contains(body, "last") || !strings.Contains(body, "3 items") ||
			as == "html" && strings.Contains(body, "<script") {
			t.Errorf("as %s = %d %s, want %q", as, status, body, want)
		}
		if d := one(h, "Content-Disposition"); d != "attachment; filename=s-main."+as || one(h, "X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(one(h, "Content-Security-Policy"), "sandbox") {
			t.Errorf("as %s: headers = %v", as, h)
		}
	}
	if status, _, _ := get(t, url, "/v1/sessions/s/threads/main/page?as=pdf"); status != 400 {
		t.Errorf("as pdf = %d, want 400", status)
	}
	if status, _, _ := get(t, url, "/v1/sessions/s/threads/none/page"); status != 404 {
		t.Errorf("of no thread = %d, want 404", status)
	}
}

package httpapi_test

import (
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
)

// TestNewSession: a session begins once, with its directory and the session that it goes on from.
func TestNewSession(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const session, js = "/v1/sessions/s", "application/json"
	for _, step := range []struct {
		path, body string
		want       int
	}{
		{"/v1/sessions/a%20b", `{"cwd":"/w"}`, 400},
		{session, `{"cwd":""}`, 400},
		{session, `{"cwd":"orchard"}`, 400},
		{session, `{"cwd":"/a\nb"}`, 400},
		{"/v1/sessions/s0", `{"cwd":"/w"}`, 201},
		{session, `{"cwd":"/w","parent":"s00"}`, 404},
		{session, `{"cwd":"/w","parent":"s0"}`, 201},
		{session, `{"cwd":"/w"}`, 409},
		{session + "/move", `{"cwd":"../orchard"}`, 400},
		{session + "/move", `{"cwd":"C:\\orchard"}`, 200},
		{session + "/move", `{"cwd":"/w"}`, 200},
	} {
		status, _, text := do(t, url, request{method: "POST", path: step.path, kind: js, body: step.body})
		if status != step.want {
			t.Errorf("POST %s %s = %d %s, want %d", step.path, step.body, status, text, step.want)
		}
	}
	for path, want := range map[string]int{"/v1/history?limit=0": 400, "/v1/history?limit=1001": 400, "/v1/search?limit=0": 400,
		"/v1/search?limit=1001": 400, session + "/artifacts": 200, "/v1/sessions/s00/artifacts": 404} {
		if status, _, text := do(t, url, request{method: "GET", path: path}); status != want {
			t.Errorf("GET %s = %d %s, want %d", path, status, text, want)
		}
	}
	if _, _, text := do(t, url, request{method: "GET", path: session}); !strings.Contains(string(text), `"cwd":"/w"`) {
		t.Errorf("GET %s = %s", session, text)
	}
}

// TestBranchWithSummary: what was learned on the path that is left is in the context of the entry that the leaf moved to.
func TestBranchWithSummary(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const thread, js = "/v1/sessions/s/threads/main", "application/json"
	said := `{"type":"message","id":"aaaaaaa1","message":{"role":"user","content":"begin"}}
{"type":"message","id":"aaaaaaa2","parentId":"aaaaaaa1","message":{"role":"assistant","content":[{"type":"text","text":"astray"}]}}`
	for _, step := range []struct {
		path, kind, body string
		want             int
	}{
		{"/entries?dialect=omp", "application/x-ndjson", said, 200},
		{"/branch", js, `{"entry":"aaaaaaa1","details":{"k":1}}`, 400},
		{"/branch", js, `{"entry":"zzzzzzz1","summary":"It was a dead end."}`, 404},
		{"/branch", js, `{"entry":"aaaaaaa1","summary":"It was a dead end.","details":{"k":1}}`, 200},
	} {
		status, _, text := do(t, url, request{method: "POST", path: thread + step.path, kind: step.kind, body: step.body})
		if status != step.want {
			t.Errorf("POST %s %s = %d %s, want %d", step.path, step.body, status, text, step.want)
		}
	}
	_, _, text := do(t, url, request{method: "GET", path: thread + "/context"})
	if got := string(text); !strings.Contains(got, "dead end") || !strings.Contains(got, "begin") || strings.Contains(got, "astray") {
		t.Errorf("GET %s/context = %s", thread, got)
	}
}

// TestNameSession: an automatic title is refused where the user gave one.
func TestNameSession(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const session, js = "/v1/sessions/s", "application/json"
	for _, step := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/name", `{"title":"Nobody's"}`, 404},
		{"POST", "/threads/main/start", `{"name":"x"}`, 201},
		{"POST", "/name", `{"title":" "}`, 400},
		{"POST", "/name", `{"title":"Made up","auto":true}`, 200},
		{"POST", "/name", `{"title":"Mine"}`, 200},
		{"POST", "/name", `{"title":"Made up again","auto":true}`, 409},
		{"POST", "/move", `{"cwd":""}`, 400},
		{"POST", "/move", `{"cwd":"/there"}`, 200},
	} {
		status, _, text := do(t, url, request{method: step.method, path: session + step.path, kind: js, body: step.body})
		if status != step.want {
			t.Errorf("%s %s = %d %s, want %d", step.path, step.body, status, text, step.want)
		}
	}
	_, _, text := do(t, url, request{method: "GET", path: session})
	if !strings.Contains(string(text), `"title":"Mine"`) || !strings.Contains(string(text), `"cwd":"/there"`) {
		t.Errorf("GET %s = %s", session, text)
	}
}

// TestForce: a thread with a live run is removed by force alone, and force=false is none.
func TestForce(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const thread, js = "/v1/sessions/s/threads/main", "application/json"
	for _, step := range []struct {
		method, query, body string
		want                int
	}{
		{"POST", "/entries?dialect=item", `{"content":[]}`, 202},
		{"POST", "/runs", `{"run":"r","lease_ms":600000}`, 201},
		{"DELETE", "?force=false", "", 409},
		{"DELETE", "?force=0", "", 409},
		{"DELETE", "", "", 409},
		{"DELETE", "?force", "", 200},
	} {
		status, _, text := do(t, url, request{method: step.method, path: thread + step.query, kind: js, body: step.body})
		if status != step.want {
			t.Errorf("%s %s = %d %s, want %d", step.method, step.query, status, text, step.want)
		}
	}
}

// What belongs to a session is refused where there is none of that name, and begins none: a misspelt name is told, and what
// to do.
func TestOfASessionThatIsNotThere(t *testing.T) {
	_, _, cl, url := worldOn(t, httpapi.Config{History: filepath.Join(t.TempDir(), "history.db")})
	for path, body := range map[string]string{
		"artifacts?tool=make": "built", "artifacts/number": `{"tool":"make"}`, "agents": `{"name":"Review"}`,
		"artifacts/register": `{"object":"a/b"}`, "artifacts/cleanup": `{}`,
	} {
		status, _, text := do(t, url, request{path: "/v1/sessions/mispelt/" + path, kind: "application/json", body: body})
		if status != 404 || !strings.Contains(text, "session not found: mispelt") || !strings.Contains(text, "POST /v1/sessions/mispelt") {
			t.Errorf("%s = %d %s, want 404 and what to do", path, status, text)
		}
	}
	if status, _, text := get(t, url, "/v1/sessions/mispelt/threads/main/outputs"); status != 404 || !strings.Contains(text, "mispelt") {
		t.Errorf("the outputs = %d %s, want 404 and the name", status, text)
	}
	for _, path := range []string{"runs", "prompts", "history", "threads"} { // readers may come first
		if status, _, text := get(t, url, "/v1/"+path+"?session=mispelt"); status != 200 {
			t.Errorf("GET %s = %d %s, want 200", path, status, text)
		}
	}
	must.Same(t, len(must.Get(cl.Sessions(t.Context(), ""))(t)), 0, "%d sessions, want %d")
	defer func() { // a thread in which nothing is open is no mistake
		if status, _, text := get(t, url, "/v1/sessions/mispelt/threads/main/outputs"); status != 200 {
			t.Errorf("the outputs = %d %s, want 200", status, text)
		}
	}()
	for _, path := range []string{"", "/artifacts/number"} {
		status, _, text := do(t, url, request{path: "/v1/sessions/mispelt" + path, kind: "application/json", body: `{"cwd":"/w"}`})
		if status != 201 && path == "" || status == 404 {
			t.Errorf("POST …%s = %d %s, want the session to be begun and taken", path, status, text)
		}
	}
	status, _, text := do(t, url, request{path: "/v1/sessions/mispelt/artifacts/register", kind: "application/json", body: `{"object":"a/b"}`})
	if status != 404 || !strings.Contains(text, `no object \"a/b\"`) || strings.Contains(text, "nats") {
		t.Errorf("register = %d %s, want 404 and which object", status, text)
	}
}

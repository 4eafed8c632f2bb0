package httpapi_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// TestLimits: who asks for more than one answer holds, or for nothing, is told so at every list.
func TestLimits(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	say(ctx, t, cl, events.Thread{Session: "items", Name: "main"}, "hello")
	for list, most := range map[string]int{"/v1/history?limit=": 1000, "/v1/search?limit=": 1000, "/v1/sessions?limit=": 1000,
		"/v1/threads?limit=": 1000, "/v1/sessions/items/threads/main/items?limit=": 1000,
		"/v1/sessions/items/threads/main/items?last=": 1000, "/v1/sessions/items/threads/main/search?q=hello&limit=": 500} {
		for n, refused := range map[int]bool{0: true, 1: false, most: false, most + 1: true} {
			path := list + strconv.Itoa(n)
			status, _, text := do(t, url, request{method: "GET", path: path})
			if refused != (status == 400 && strings.Contains(text, fmt.Sprintf("=%d: use 1 to %d", n, most))) {
				t.Errorf("GET %s = %d %s, want that it is refused: %t", path, status, text, refused)
			}
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

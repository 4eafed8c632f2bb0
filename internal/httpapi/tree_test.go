package httpapi_test

import (
	"encoding/json"
	"testing"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/must"
)

// TestTwoWritersOverHTTP: of two who append after one leaf, the second is told whose entry took it, if it may read (SPEC S9).
func TestTwoWritersOverHTTP(t *testing.T) {
	tokens := must.Get(access.Parse("both read,write both-0123456789ab\nblind write blind-0123456789ab\n"))(t)
	_, _, _, url := worldOn(t, httpapi.Config{Tokens: tokens})
	const thread, js = "/v1/sessions/s/threads/main", "application/json"
	var got struct {
		ID    string  `json:"id"`
		Moved bool    `json:"leaf_moved"`
		Taken *string `json:"taken"`
	}
	post := func(token, path, body string, want int) string {
		t.Helper()
		status, _, text := do(t, url, request{method: "POST", path: thread + path, kind: js, body: body,
			header: map[string]string{"Authorization": "Bearer " + token + "-0123456789ab"}})
		if status != want {
			t.Fatalf("POST %s %s = %d %s, want %d", path, body, status, text, want)
		}
		got.ID, got.Moved, got.Taken = "", false, nil
		_ = json.Unmarshal([]byte(text), &got)
		return got.ID
	}
	entry := func(text string) string {
		return `{"entry":{"type":"message","message":{"role":"user","content":"` + text + `"}}`
	}
	first := post("both", "/append", entry("begin")+`}`, 201)
	ours := post("both", "/append", entry("ours")+`,"leaf":"`+first+`"}`, 201)
	post("both", "/append", entry("theirs")+`,"leaf":"`+first+`"}`, 201)
	if !got.Moved || got.Taken == nil || *got.Taken != ours {
		t.Errorf("the second writer is told %+v, want that %s took the leaf", got, ours)
	}
	blind := post("blind", "/append", entry("blind")+`,"leaf":"`+first+`"}`, 201)
	if !got.Moved || got.Taken != nil || blind == "" {
		t.Errorf("who may only write is told %+v, want that the leaf moved and not where to", got)
	}
}

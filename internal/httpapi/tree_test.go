package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/must"
)

// TestTwoWritersOverHTTP: of two who append after one leaf, the second is told whose entry took it, finds both in the tree, and makes a
// session of the path to its own, with the label that stands off that path (SPEC S9, S13).
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
	theirs := post("both", "/append", entry("theirs")+`,"leaf":"`+first+`"}`, 201)
	if !got.Moved || got.Taken == nil || *got.Taken != ours {
		t.Errorf("the second writer is told %+v, want that %s took the leaf", got, ours)
	}
	blind := post("blind", "/append", entry("blind")+`,"leaf":"`+first+`"}`, 201)
	if !got.Moved || got.Taken != nil || blind == "" {
		t.Errorf("who may only write is told %+v, want that the leaf moved and not where to", got)
	}
	post("both", "/append", entry("lost")+`,"leaf":"nobody"}`, 404)
	post("both", "/append", `{"entry":{"type":"session"}}`, 400)
	post("both", "/append", `{}`, 400)
	post("both", "/label", `{"entry":"`+first+`","label":"kept"}`, 200)

	_, _, text := do(t, url, request{method: "GET", path: thread + "/tree",
		header: map[string]string{"Authorization": "Bearer both-0123456789ab"}})
	var tree struct {
		Entries []struct {
			ID, Parent, Label string
			Leaf              bool
		}
	}
	must.Do(t, json.Unmarshal([]byte(text), &tree))
	var shape []string
	for _, e := range tree.Entries {
		line := map[string]string{first: "first", ours: "ours", theirs: "theirs", blind: "blind"}[e.ID]
		if line == "" {
			line = "label"
		}
		line += " under " + map[string]string{"": "none", first: "first", ours: "ours"}[e.Parent]
		if e.Label != "" {
			line += " [" + e.Label + "]"
		}
		if e.Leaf {
			line += " leaf"
		}
		shape = append(shape, line)
	}
	want := "first under none [kept], ours under first, theirs under first, blind under first, label under ours leaf"
	must.Same(t, strings.Join(shape, ", "), want, "tree = %s, want %s")

	post("both", "/fork", `{"to":"copy/main","path":true,"entry":"`+theirs+`","whole":true}`, 400)
	post("both", "/fork", `{"to":"beside","path":true}`, 400)
	post("both", "/fork", `{"to":"copy/main","path":true,"entry":"`+theirs+`"}`, 201)
	_, _, text = do(t, url, request{method: "GET", path: "/v1/sessions/copy/threads/main/tree",
		header: map[string]string{"Authorization": "Bearer both-0123456789ab"}})
	if !strings.Contains(text, `"label":"kept"`) || strings.Contains(text, ours) || !strings.Contains(text, theirs) {
		t.Errorf("tree of the fork = %s, want the path to %s with the label", text, theirs)
	}
}

package sessions_test

import (
	"errors"
	"testing"
	"time"

	"spool/pkg/sessions"
)

// A draft that went through its JSON becomes the same entry as before, but for the order of members.
func TestParseDraft(t *testing.T) {
	at := sessions.Stamp{ID: "e1", Time: time.UnixMilli(1795176000000)}
	for _, tt := range []struct {
		draft sessions.Draft
		want  string
	}{
		{sessions.Message([]byte(`{"role":"user","n":1.50}`)),
			`{"type":"message","id":"e1","parentId":"p","timestamp":"2026-11-20T12:00:00.000Z","message":{"role":"user","n":1.50}}`},
		{sessions.Label("a", ""), `{"type":"label","id":"e1","parentId":"p","timestamp":"2026-11-20T12:00:00.000Z","targetId":"a"}`},
		{sessions.Custom("x", []byte(`[1]`)), `{"type":"custom","id":"e1","parentId":"p","timestamp":"2026-11-20T12:00:00.000Z","customType":"x","data":[1]}`},
		{sessions.BranchSummary("", sessions.Summarized{Summary: "s"}),
			`{"type":"branch_summary","id":"e1","parentId":"p","timestamp":"2026-11-20T12:00:00.000Z","fromId":"root","summary":"s"}`},
	} {
		d, err := sessions.ParseDraft(tt.draft.JSON())
		if err != nil {
			t.Errorf("ParseDraft(%s) = %v", tt.draft.JSON(), err)
			continue
		}
		e, err := d.Entry(at, "p")
		if err != nil || string(e.Raw) != tt.want || d.Target() != tt.draft.Target() || d.Type() != tt.draft.Type() {
			t.Errorf("entry of %s = %s, %v, want %s", tt.draft.JSON(), e.Raw, err, tt.want)
		}
	}
	// Its place is given to it, whatever it says.
	d, err := sessions.ParseDraft([]byte(`{"id":"mine","type":"mode_change","parentId":"x","timestamp":1,"mode":"plan"}`))
	if e, err2 := d.Entry(at, ""); err != nil || err2 != nil ||
		string(e.Raw) != `{"type":"mode_change","id":"e1","parentId":null,"timestamp":"2026-11-20T12:00:00.000Z","mode":"plan"}` {
		t.Errorf("entry = %s, %v, want its own place", e.Raw, errors.Join(err, err2))
	}
	for _, bad := range []string{``, `{`, `[]`, `7`, `{}`, `{"type":7}`, `{"type":"session"}`, `{"type":"title"}`} {
		if d, err := sessions.ParseDraft([]byte(bad)); err == nil {
			t.Errorf("ParseDraft(%s) = %s, want an error", bad, d.JSON())
		}
	}
}

// Placed changes the place and no other byte.
func TestPlaced(t *testing.T) {
	for _, tt := range []struct{ raw, id, parent, want string }{
		{`{"type":"x", "id":"a","parentId":"b" ,"n":1.50}`, "a", "b", `{"type":"x", "id":"a","parentId":"b" ,"n":1.50}`},
		{`{"type":"x", "id":"a","n":1.50}`, "a", "b", `{"type":"x", "id":"a","n":1.50,"parentId":"b"}`},
		{`{"type":"x","id":"a"}`, "a", "", `{"type":"x","id":"a","parentId":null}`},
		{`{"type":"x"}`, "c", "b", `{"type":"x","id":"c","parentId":"b"}`},
	} {
		e := sessions.ParseEntry([]byte(tt.raw)).Placed(tt.id, tt.parent)
		if got := string(e.JSON()); got != tt.want || e.ID != tt.id || e.Parent != tt.parent {
			t.Errorf("Placed(%s) = %s, want %s", tt.raw, got, tt.want)
		}
	}
	if err := sessions.NotFound("x"); !errors.Is(err, sessions.ErrNotFound) || err.Error() != "Entry x not found" {
		t.Errorf("NotFound = %v", err)
	}
}

package omp

import (
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/dialect/entry"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// The ids of a session of version 1 are those that loading its file gives, whatever else stands in it (SPEC S5).
func TestIDsOfVersion1(t *testing.T) {
	lines := []string{
		`{"type":"title","v":1,"title":"T","pad":""}`,
		`{"type":"session","id":"s1","timestamp":"t","cwd":"/"}`,
		`{"type":"message","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"a"}}`,
		`{"type":"message","id":"own","parentId":null,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":[]}}`,
		`{"type":"session","id":"other","version":3}`,
		`{"type":"compaction","timestamp":"2026-01-01T00:00:00Z","summary":"S","firstKeptEntryIndex":1,"tokensBefore":2}`,
		`{"type":"compaction","timestamp":"2026-01-01T00:00:00Z","summary":"S","firstKeptEntryIndex":6,"tokensBefore":2}`,
		`{"type":"label","timestamp":"2026-01-01T00:00:00Z","targetId":"own","label":"L"}`,
	}
	text := ""
	var m entry.Memory
	var got []string
	for _, line := range lines {
		text += line + "\n"
		before := m.Encode()
		e := must.Get(Dialect{}.Read([]byte(line), &m))(t)
		if back, err := entry.DecodeMemory(m.Encode()); err != nil || string(back.Encode()) != string(m.Encode()) {
			t.Fatalf("memory after %s: %v", line, err)
		}
		if e.Type == sessions.TypeHeader || e.Type == sessions.TypeTitleSlot {
			continue
		}
		if e.Place.Kind != entry.Leaf {
			t.Errorf("%s goes to %+v, want the leaf", line, e.Place)
		}
		if !m.Used() {
			t.Errorf("the memory before %s, %x, is not kept", line, before)
		}
		got = append(got, e.ID+" "+e.Kept)
	}
	f := must.Get(sessions.Load([]byte(text)))(t)
	want := []string{}
	for i := range f.Entries {
		kept := ""
		if i == 2 {
			kept = f.Entries[0].ID
		}
		want = append(want, f.Entries[i].ID+" "+kept)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ids and kept entries are %q, want %q", got, want)
	}
}

func TestCurrentVersionHasNoNumbers(t *testing.T) {
	var m entry.Memory
	for _, line := range []string{`{"type":"session","version":3,"id":"s1"}`, `{"type":"message","message":{"role":"user","content":"a"}}`} {
		if e, _ := (Dialect{}).Read([]byte(line), &m); e.Type == sessions.TypeMessage && (e.ID != "" || m.Used()) {
			t.Errorf("%s has the id %q", line, e.ID)
		}
	}
}

// What version 2 of the mapping made of a permission is made again.
func TestPermissionOfVersion2(t *testing.T) {
	const line = `{"type":"custom_message","id":"a","customType":"acp_permission","content":"Permission asked: Edit","display":true,` +
		`"details":{"prompt":{"id":"p","kind":"approval"}}}`
	for version, want := range map[int]string{0: events.TypePendingPrompt, 2: events.TypeStatus} {
		e := must.Get(Dialect{Earlier: version}.Read([]byte(line), nil))(t)
		must.Same(t, e.Items[0].Type, want, "the item is %s, want %s")
	}
}

package project

import (
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/pkg/events"
	"spool/pkg/threads"
)

func resultItem(text string) events.Item {
	return events.ToolResult("tu", false, jsonscan.AppendString(nil, text))
}

// TestResults: over 65,536 bytes or over 16,000 estimated tokens, strictly, and only what is the text of a result that
// refers to no artifact yet (SPEC A4, U3).
func TestResults(t *testing.T) {
	withRef := resultItem(strings.Repeat("x", 70_000))
	withRef.Metadata = append(withRef.Metadata[:len(withRef.Metadata)-1], `,"artifact":{"type":"artifact_ref","artifact_id":"art_1"}}`...)
	object := resultItem("")
	object.Metadata = []byte(`{"type":"tool_result","tool":{"output":{"text":"` + strings.Repeat("x", 70_000) + `"}}}`)
	for _, c := range []struct {
		name string
		item events.Item
		want bool
	}{
		{"16,000 tokens", resultItem(strings.Repeat("x", 64_003)), false},
		{"16,001 tokens", resultItem(strings.Repeat("x", 64_004)), true},
		{"65,536 bytes", resultItem(strings.Repeat("é", 32_768)), false},
		{"65,537 bytes", resultItem(strings.Repeat("é", 32_768) + "x"), true},
		{"escapes that are long only as JSON", resultItem(strings.Repeat("\n", 60_000)), false},
		{"thinking", events.Thinking(jsonscan.AppendString(nil, strings.Repeat("x", 70_000))), false},
		{"a reference that is there", withRef, false},
		{"no text", object, false},
	} {
		if got := Results([]events.Item{c.item}); (len(got) == 1) != c.want {
			t.Errorf("%s: %d large results, want %v", c.name, len(got), c.want)
		}
	}
	many := make([]events.Item, maxResults+3)
	for i := range many {
		many[i] = resultItem(strings.Repeat("x", 70_000))
	}
	if got := Results(many); len(got) != maxResults || got[maxResults-1].Index != maxResults-1 {
		t.Errorf("%d large results of %d, want the first %d", len(got), len(many), maxResults)
	}
}

// TestAttachLeavesItemsAlone: the items of the dialect are not changed, and nothing is attached without the mark.
func TestAttachLeavesItemsAlone(t *testing.T) {
	items := []events.Item{resultItem("small"), resultItem(strings.Repeat("x", 70_000))}
	before := string(items[1].Metadata)
	s := Stamp{Thread: events.Thread{Session: "s", Name: "main"}}
	if got := s.attach(items); jsonscan.Get(got[1].Metadata, "artifact") != nil {
		t.Errorf("attach without Results: %s", got[1].Metadata[len(got[1].Metadata)-100:])
	}
	s.Results = true
	got := s.attach(items)
	if jsonscan.Valid(got[1].Metadata) != nil || jsonscan.Get(got[1].Metadata, "artifact", "artifact_id") == nil || jsonscan.Get(got[0].Metadata, "artifact") != nil {
		t.Errorf("attach = …%s and %s, want a reference in the second alone", got[1].Metadata[len(got[1].Metadata)-200:], got[0].Metadata)
	}
	if string(items[1].Metadata) != before {
		t.Error("attach changed the dialect's item")
	}
	var st threads.State
	st.Entry.Projection = "omp/1"
	if hasResults(st) {
		t.Error("omp/1 has results")
	}
	if MarkResults(&st.Entry, nil) || hasResults(st) {
		t.Errorf("%s after no large result", st.Entry.Projection)
	}
	if !MarkResults(&st.Entry, make([]Result, 1)) || !hasResults(st) {
		t.Errorf("%s has no results", st.Entry.Projection)
	}
}

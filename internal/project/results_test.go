package project

import (
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/pkg/artifacts"
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
		if got := Results([]events.Item{c.item}, artifacts.Thresholds{}); (len(got) == 1) != c.want {
			t.Errorf("%s: %d large results, want %v", c.name, len(got), c.want)
		}
	}
	many := make([]events.Item, maxResults+3)
	for i := range many {
		many[i] = resultItem(strings.Repeat("x", 70_000))
	}
	if got := Results(many, artifacts.Thresholds{}); len(got) != maxResults || got[maxResults-1].Index != maxResults-1 {
		t.Errorf("%d large results of %d, want the first %d", len(got), len(many), maxResults)
	}
}

// TestAttachLeavesItemsAlone: the items of the dialect are not changed, and nothing is attached without the mark.
func TestAttachLeavesItemsAlone(t *testing.T) {
	items := []events.Item{resultItem("small"), resultItem(strings.Repeat("x", 70_000))}
	before := string(items[1].Metadata)
	s := Stamp{Thread: events.Thread{Session: "s", Name: "main"}}
	if got, _ := s.attach(items); jsonscan.Get(got[1].Metadata, "artifact") != nil {
		t.Errorf("attach without Results: %s", got[1].Metadata[len(got[1].Metadata)-100:])
	}
	s.Results = &Limit{}
	got, _ := s.attach(items)
	if jsonscan.Valid(got[1].Metadata) != nil || jsonscan.Get(got[1].Metadata, "artifact", "artifact_id") == nil ||
		jsonscan.Get(got[0].Metadata, "artifact") != nil {
		t.Errorf("attach = …%s and %s, want a reference in the second alone", got[1].Metadata[len(got[1].Metadata)-200:], got[0].Metadata)
	}
	if string(items[1].Metadata) != before {
		t.Error("attach changed the dialect's item")
	}
}

// TestMarkResults: the mark says from what size on, and leads back to it; without a large result there is none. Entries of
// before it was configurable have the mark alone, and of before excerpts another one.
func TestMarkResults(t *testing.T) {
	const said, stored = 1_795_300_000_000, 1_795_400_000_000
	one := make([]Result, 1)
	for _, c := range []struct {
		large []Result
		limit artifacts.Thresholds
		said  int64
		want  string
	}{
		{nil, artifacts.Thresholds{Bytes: 2000}, 0, "omp/1"},
		{one, artifacts.Thresholds{}, said, "omp/1/excerpts"},
		{one, artifacts.Thresholds{Bytes: 65_536, Tokens: 16_000}, said, "omp/1/excerpts"},
		{one, artifacts.Thresholds{Bytes: 2000}, said, "omp/1/excerpts:2000,16000"},
		{one, artifacts.Thresholds{Tokens: 300}, said, "omp/1/excerpts:65536,300"},
		{one, artifacts.Thresholds{}, 0, "omp/1/excerpts@1795400000000"},
		{one, artifacts.Thresholds{Bytes: 2000}, 1, "omp/1/excerpts:2000,16000@1795400000000"},
	} {
		st := threads.Record{Projection: "omp/1"}
		limit := MarkResults(&st, c.large, Limit{Thresholds: c.limit, Stored: stored}, c.said)
		must.Same(t, st.Projection, c.want, "MarkResults(%v) = %s, want %s", c.limit)
		version, read, err := parseProjection(st.Projection)
		if err != nil || version != "omp/1" || (read == nil) != (limit == nil) ||
			read != nil && (read.Set() != c.limit.Set() || read.Stored != limit.Stored) {
			t.Errorf("parseProjection(%s) = %s, %v, %v, want the limit that was marked", st.Projection, version, read, err)
		}
	}
	if _, earlier, err := parseProjection("omp/1/results:2000,300"); err != nil || earlier == nil || !earlier.Whole ||
		earlier.Bytes != 2000 {
		t.Errorf("parseProjection of an earlier version's mark = %v, %v, want whole results over 2000", earlier, err)
	}
	for _, bad := range []string{"omp/1/excerpts:", "omp/1/excerptsandmore", "omp/1/results:", "omp/1/results:1",
		"omp/1/results:01,2", "omp/1/results:0,5", "omp/1/resultsandmore", "omp/1/excerpts@", "omp/1/excerpts@x"} {
		if _, limit, err := parseProjection(bad); err == nil {
			t.Errorf("parseProjection(%s) = %v, want an error", bad, limit)
		}
	}
}

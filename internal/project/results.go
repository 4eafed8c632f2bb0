package project

import (
	"bytes"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/threads"
)

const (
	// maxResults is how many results of one entry become artifacts, so that their records fit into the commit.
	maxResults = 64
	// resultSummary is how much of an item's brief goes into the reference, in bytes.
	resultSummary = 200
	// withResults ends the projection of an entry whose large results are artifacts. The thresholds follow when they are not
	// the default ones: "claude/1/results:32768,8000".
	withResults = "/results"
)

// Result is a tool's result that is too large for a message (SPEC A4).
type Result struct {
	Index   int // of its item in the entry
	Text    string
	Call    string // invocation id
	Summary string
}

// Results are the results over a limit among the items of an entry. One that refers to an artifact already is left alone.
func Results(items []events.Item, limit artifacts.Thresholds) (large []Result) {
	least := limit.Least()
	for i, it := range items {
		if it.Type != events.TypeToolResult || len(it.Metadata) < least || len(large) == maxResults {
			continue
		}
		text, ok := jsonscan.Text(jsonscan.Get(it.Metadata, "tool", "output"))
		if !ok || !limit.Exceeded([]byte(text)) || jsonscan.Get(it.Metadata, "artifact") != nil {
			continue
		}
		call, _ := jsonscan.Text(jsonscan.Get(it.Metadata, "tool", "invocation_id"))
		large = append(large, Result{Index: i, Text: text, Call: call, Summary: brief(it)})
	}
	return large
}

// brief is what a person sees of the item, which does not depend on where a long result was cut.
func brief(it events.Item) (text string) {
	_ = jsonscan.Array(it.Content, func(first []byte) bool { // what is no array has no brief
		text, _ = jsonscan.Text(jsonscan.Get(first, "text"))
		return false
	})
	return string(artifacts.Head([]byte(text), resultSummary))
}

// ResultID names the artifact of a large result: by the state and the session, so that a replay, a reader of the past and a
// fork of the session know it without being told.
func (s Stamp) ResultID(r Result) artifacts.ID {
	return artifacts.ResultID(s.Thread.Session, s.Node.String(), r.Index, s.Time)
}

// attach puts the references of large results into the metadata of their items.
func (s Stamp) attach(items []events.Item) []events.Item {
	if s.Results == nil {
		return items
	}
	items = slices.Clone(items)
	for _, r := range Results(items, *s.Results) {
		it := &items[r.Index]
		ref := artifacts.Ref{ID: s.ResultID(r), Summary: r.Summary, MIME: artifacts.ResultMIME}.JSON()
		open := bytes.TrimSuffix(bytes.TrimRight(it.Metadata, " \t\r\n"), []byte("}"))
		it.Metadata = slices.Concat(open, []byte(`,"artifact":`), ref, []byte("}"))
	}
	return items
}

// MarkResults notes in an entry's record that its results over a limit are artifacts, if there are any, and returns the limit
// for its items: they are made the same again whatever the limit is then.
func MarkResults(r *threads.Record, large []Result, limit artifacts.Thresholds) *artifacts.Thresholds {
	if len(large) == 0 {
		return nil
	}
	r.Projection += withResults
	if limit.Set() != (artifacts.Thresholds{}).Set() {
		r.Projection += ":" + limit.String()
	}
	mark := limit // so that it is in memory of its own only where there are results
	return &mark
}

// parseProjection divides what is recorded of an entry's projection into its version and, when large results are artifacts,
// their limit.
func parseProjection(p string) (version string, limit *artifacts.Thresholds, err error) {
	version, rest, marked := strings.Cut(p, withResults)
	if !marked {
		return p, nil, nil
	}
	limit = new(artifacts.Thresholds)
	if rest != "" {
		*limit, err = artifacts.ParseThresholds(strings.TrimPrefix(rest, ":"))
	}
	return version, limit, err
}

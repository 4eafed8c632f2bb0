package project

import (
	"bytes"
	"slices"
	"strconv"
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
	// withExcerpts ends the projection of an entry whose large results are artifacts, and whose items have head and tail
	// of them. The thresholds follow when they are not the default ones: "claude/1/excerpts:32768,8000". Items with
	// withResults are of an earlier version, and have the results whole. Of an entry without a time it follows when
	// that was stored, in Unix milliseconds: "claude/1/excerpts@1795400000000".
	withExcerpts = "/excerpts"
	withResults  = "/results"
)

// Limit says which results of an entry are artifacts, and what is left of them in its items.
type Limit struct {
	artifacts.Thresholds
	Whole  bool  // all: so it was before there were excerpts
	Stored int64 // Unix milliseconds; the artifacts' ids have it, since the entry says no time that can be; 0: it does
}

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
	at := s.Time
	if s.Results != nil && s.Results.Stored != 0 {
		at = s.Results.Stored
	}
	return artifacts.ResultID(s.Thread.Session, s.Node.String(), r.Index, at)
}

// attach puts the references of large results into the metadata of their items, and gives these results.
func (s Stamp) attach(items []events.Item) (with []events.Item, large []Result) {
	if s.Results == nil {
		return items, nil
	}
	with, large = slices.Clone(items), Results(items, s.Results.Thresholds)
	for _, r := range large {
		it := &with[r.Index]
		ref := artifacts.Ref{ID: s.ResultID(r), Summary: r.Summary, MIME: artifacts.ResultMIME}.JSON()
		open := bytes.TrimSuffix(bytes.TrimRight(it.Metadata, " \t\r\n"), []byte("}"))
		it.Metadata = slices.Concat(open, []byte(`,"artifact":`), ref, []byte("}"))
	}
	return with, large
}

// MarkResults notes in an entry's record that its results over a limit are artifacts, if there are any, and returns the
// limit for its items: they are made the same again whatever the limit is then. Stored counts only if said, the entry's
// time in Unix milliseconds, cannot be (SPEC P5).
func MarkResults(r *threads.Record, large []Result, limit Limit, said int64) *Limit {
	if len(large) == 0 {
		return nil
	}
	r.Projection += withExcerpts
	if limit.Set() != (artifacts.Thresholds{}).Set() {
		r.Projection += ":" + limit.String()
	}
	if events.Believed(said, 0) != 0 {
		limit.Stored = 0
	}
	if limit.Stored != 0 {
		r.Projection += "@" + strconv.FormatInt(limit.Stored, 10)
	}
	return &limit
}

// parseProjection divides what is recorded of an entry's projection into its version and, when large results are artifacts,
// their limit.
func parseProjection(p string) (version string, limit *Limit, err error) {
	version, rest, marked := strings.Cut(p, withExcerpts)
	whole := !marked
	if whole {
		version, rest, marked = strings.Cut(p, withResults)
	}
	if !marked {
		return p, nil, nil
	}
	limit = &Limit{Whole: whole}
	rest, at, dated := strings.Cut(rest, "@")
	if dated {
		if limit.Stored, err = strconv.ParseInt(at, 10, 64); err != nil {
			return version, nil, err
		}
	}
	if rest != "" {
		limit.Thresholds, err = artifacts.ParseThresholds(strings.TrimPrefix(rest, ":"))
	}
	return version, limit, err
}

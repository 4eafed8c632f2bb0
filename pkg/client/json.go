package client

import (
	"encoding/json"
	"time"

	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// ArtifactJSON is an artifact as programs read it (docs/format.md, "Artifacts for programs"). What is empty is left out.
func ArtifactJSON(r artifacts.Record) any {
	return struct {
		ID         string `json:"artifact_id"`
		Session    string `json:"session"`
		Seq        string `json:"seq,omitempty"`
		Filename   string `json:"filename"`
		Size       *int64 `json:"size,omitempty"` // bytes
		MIME       string `json:"mime_type,omitempty"`
		Category   string `json:"category"`
		Summary    string `json:"summary,omitempty"`
		Created    string `json:"created_at"`
		Writer     string `json:"writer"`
		Agent      string `json:"agent,omitempty"`
		Run        string `json:"run,omitempty"`
		Node       string `json:"node,omitempty"`
		ToolCall   string `json:"tool_call,omitempty"`
		ForkedFrom string `json:"forked_from,omitempty"`
		Object     string `json:"object,omitempty"`
	}{
		string(r.ID), r.Session, string(r.Seq), r.Filename, known(r.Size), r.MIME, string(r.Category), r.Summary, events.Stamp(r.Created),
		string(r.Writer), r.Agent, r.Run, r.Node, r.ToolCall, string(r.ForkedFrom), r.Object,
	}
}

func known(size int64) *int64 {
	if size == artifacts.UnknownSize {
		return nil
	}
	return &size
}

// whenever is the time of a record's, which has Unix milliseconds.
func whenever(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// ReportJSON is the report of a cleanup.
func ReportJSON(r artifacts.Report) any {
	type candidate struct {
		ID     string `json:"artifact_id"`
		Reason string `json:"reason"`
		Size   *int64 `json:"size,omitempty"`
	}
	out := struct {
		DryRun     bool           `json:"dry_run"`
		Candidates []candidate    `json:"candidates"`
		Deleted    []artifacts.ID `json:"deleted"`
		Errors     []string       `json:"errors"`
	}{r.DryRun, []candidate{}, append([]artifacts.ID{}, r.Deleted...), []string{}}
	for _, c := range r.Candidates {
		out.Candidates = append(out.Candidates, candidate{string(c.Record.ID), c.Reason, known(c.Record.Size)})
	}
	for _, f := range r.Failures {
		out.Errors = append(out.Errors, f.Err.Error())
	}
	return out
}

// ResolutionJSON is how a prompt was settled.
func ResolutionJSON(r events.Resolution) any {
	return struct {
		Outcome string          `json:"outcome"`
		By      string          `json:"by,omitempty"`
		At      string          `json:"at,omitempty"`
		Answer  json.RawMessage `json:"answer,omitempty"`
	}{r.Outcome, r.By, events.Stamp(r.At), r.Answer}
}

// PromptJSON is a prompt.
func PromptJSON(p Prompt) any {
	out := struct {
		Session    string          `json:"session"`
		Thread     string          `json:"thread"`
		ID         string          `json:"id"`
		Kind       string          `json:"kind"`
		Text       string          `json:"text"`
		Item       int64           `json:"n,omitempty"`
		Asked      string          `json:"asked_at,omitempty"`
		Deadline   string          `json:"deadline,omitempty"`
		Overdue    bool            `json:"overdue"`
		Answerable bool            `json:"answerable"`
		Life       uint64          `json:"life,omitempty"`
		Prompt     json.RawMessage `json:"prompt,omitempty"`
		Resolution any             `json:"resolution,omitempty"`
	}{
		p.Thread.Session, p.Thread.Name, p.ID, p.Kind, p.Text, p.Item, events.StampOf(p.Asked), events.Stamp(p.Deadline),
		p.Overdue(time.Now()), p.Answerable, p.Life, p.Body, nil,
	}
	if p.Resolution.Outcome != "" {
		out.Resolution = ResolutionJSON(p.Resolution)
	}
	return out
}

// TreeEntry is an entry of a tree as programs read it.
type TreeEntry struct {
	ID     string  `json:"id"`
	Parent *string `json:"parent"` // null for a root
	Type   string  `json:"type"`
	Label  string  `json:"label"` // "": it has none
	Leaf   bool    `json:"leaf"`  // the next entry goes after it
	Index  int64   `json:"index"`
	Node   string  `json:"node"`
}

// Listed are the entries in the order in which they came.
func (t *Tree) Listed() []TreeEntry {
	out := make([]TreeEntry, len(t.Entries()))
	for i, e := range t.Entries() {
		place := t.places[e.ID]
		out[i] = TreeEntry{ID: e.ID, Type: e.Type, Label: t.Label(e.ID), Leaf: t.Leaf().ID() == e.ID, Index: place.Index,
			Node: place.At.Ref.String()}
		if e.Parent != "" {
			out[i].Parent = &e.Parent
		}
	}
	return out
}

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/sessions"
	"spool/pkg/truncate"
)

// scenario replays calls as the oracle's harness made them: ids and times come from one counter and one clock that moves
// on a second each time it is read.
type scenario struct {
	name      string
	count     int
	now       time.Time
	tree      *sessions.Tree
	artifacts map[string]string
	counter   artifacts.Counter
	older     []session // left for a fork
	store     *blobStore

	ids       map[string]any // by the names that the calls give them
	log       []any
	snapshots map[string]any

	extracted, forkedArtifacts bool
}

// session is one that the scenario has left.
type session struct {
	tree      *sessions.Tree
	artifacts map[string]string
}

func replay(name string, ops []any) (*scenario, error) {
	r := &scenario{
		name: name, now: time.Date(2026, 5, 20, 10, 0, 0, 0, time.UTC), ids: map[string]any{}, snapshots: map[string]any{},
		artifacts: map[string]string{},
		store:     &blobStore{Memory: casstore.NewMemory(), known: map[string]bool{}},
	}
	r.tree = sessions.NewTree(sessions.Header{Cwd: "<ROOT>/proj"}.Child(r.sessionID(), r.tick()))
	for _, op := range ops {
		result, err := r.call(op)
		entry := map[string]any{"op": field(op, "op"), "leafId": leafID(r.tree)}
		if as := field(op, "as"); as != nil {
			entry["as"] = as
			if id, ok := result.(string); ok && err == nil {
				r.ids[str(as)] = id
			}
		}
		if err != nil {
			entry["error"] = err.Error()
		} else {
			entry["result"] = result
		}
		r.log = append(r.log, entry)
	}
	return r, nil
}

func (r *scenario) tick() time.Time {
	now := r.now
	r.now = now.Add(time.Second)
	return now
}

func (r *scenario) sessionID() string {
	r.count++
	return fmt.Sprintf("019f0000-0000-7000-8000-00005e%06x", r.count)
}

func (r *scenario) stamp() sessions.Stamp {
	r.count++
	return sessions.Stamp{ID: fmt.Sprintf("e%07x", r.count), Time: r.tick()}
}

// id is the entry that an argument names: "$name", or an id as it is.
func (r *scenario) id(arg any) string {
	name, ok := strings.CutPrefix(str(arg), "$")
	if !ok {
		return str(arg)
	}
	return str(r.ids[name])
}

// call does one call and returns what the oracle logs as its result.
func (r *scenario) call(op any) (any, error) {
	arg := func(name string) any { return field(op, name) }
	if d, ok := r.draft(op); ok {
		return r.append(d)
	}
	switch arg("op") {
	case "branch":
		return nil, r.tree.Branch(r.id(arg("to")))
	case "resetLeaf":
		r.tree.ResetLeaf()
		return nil, nil
	case "branchWithSummary":
		to := sessions.Root
		if arg("to") != nil {
			to = sessions.At(r.id(arg("to")))
			if _, err := r.tree.Entry(to.ID()); err != nil {
				return nil, err
			}
		}
		e, err := r.tree.BranchWithSummary(to, summarized(op), r.stamp())
		return e.ID, err
	case "setSessionName":
		h, ok := r.tree.Header().Titled(str(arg("name")), str(arg("source")))
		r.tree.SetHeader(h)
		return ok, nil
	case "snapshot":
		r.snapshots[str(arg("name"))] = r.snapshot()
		return nil, nil
	case "flush": // every entry is durable as soon as it is appended
		return nil, nil
	}
	return r.callSession(op)
}

// callSession does the calls that concern the session as a whole.
func (r *scenario) callSession(op any) (any, error) {
	h := r.tree.Header()
	switch field(op, "op") {
	case "saveArtifact", "allocateArtifactPath":
		seq := r.counter.Take()
		file := artifacts.ToolFile(seq, str(field(op, "tool")))
		if content, ok := field(op, "content").(string); ok {
			r.artifacts[file] = content
			return string(seq), nil
		}
		return map[string]any{"id": string(seq), "file": file}, nil
	case "fork":
		r.leave(r.tree.Fork(h.Child(r.sessionID(), r.tick())))
		r.forkedArtifacts = r.forkedArtifacts || len(r.artifacts) > 0
		return map[string]any{"old": h.FileName(), "new": r.tree.Header().FileName()}, nil
	case "createBranchedSession":
		if _, err := r.tree.Entry(r.id(field(op, "leaf"))); err != nil {
			return nil, err
		}
		child := h.Child(r.sessionID(), r.tick())
		child.Title, child.TitleSource, child.ParentSession = "", "", "<ROOT>/sessions/"+h.FileName()
		branch, err := r.tree.Extract(r.id(field(op, "leaf")), child, r.stamp)
		if err != nil {
			return nil, err
		}
		r.leave(branch)
		r.extracted = true
		return branch.Header().FileName(), nil
	}
	return nil, fmt.Errorf("call %v is not supported", field(op, "op"))
}

// leave goes on with another session, which has the artifacts of this one (SPEC A7).
func (r *scenario) leave(next *sessions.Tree) {
	r.older = append(r.older, session{r.tree, r.artifacts})
	r.tree, r.artifacts = next, maps.Clone(r.artifacts)
}

func (r *scenario) append(d sessions.Draft) (any, error) {
	if err := r.tree.Admits(d); err != nil { // before an id is taken
		return nil, err
	}
	e, err := r.tree.Append(d, r.stamp())
	return e.ID, err
}

// draft is the entry that a call appends.
func (r *scenario) draft(op any) (d sessions.Draft, ok bool) {
	arg := func(name string) any { return field(op, name) }
	raw := func(name string) []byte { return rawOf(op, name) }
	switch arg("op") {
	case "appendMessage":
		d = sessions.Message(raw("message"))
	case "appendThinkingLevelChange":
		d = sessions.ThinkingLevelChange(str(arg("level")))
	case "appendModelChange":
		d = sessions.ModelChange(str(arg("model")), str(arg("role")))
	case "appendServiceTierChange":
		d = sessions.ServiceTierChange(str(arg("serviceTier")))
	case "appendCompaction":
		tokens, _ := jsonscan.Int(raw("tokensBefore"))
		d = sessions.Compaction{
			Summarized: summarized(op), ShortSummary: str(arg("shortSummary")), FirstKept: r.id(arg("firstKept")),
			TokensBefore: tokens, Preserve: raw("preserveData"),
		}.Draft()
	case "appendCustomEntry":
		d = sessions.Custom(str(arg("customType")), raw("data"))
	case "appendCustomMessageEntry":
		display, _ := arg("display").(bool)
		d = sessions.CustomMessage(str(arg("customType")), raw("content"), display, raw("details"), str(arg("attribution")))
	case "appendLabelChange":
		d = sessions.Label(r.id(arg("target")), str(arg("label")))
	case "appendTtsrInjection":
		d = sessions.TTSRInjection(strs(arg("rules")))
	case "appendMCPToolSelection":
		d = sessions.ToolSelection(strs(arg("names")))
	case "appendSessionInit":
		d = sessions.SessionInit(raw("init"))
	case "appendModeChange":
		d = sessions.ModeChange(str(arg("mode")), raw("data"))
	default:
		return d, false
	}
	return d, true
}

func summarized(op any) sessions.Summarized {
	return sessions.Summarized{
		Summary: str(field(op, "summary")), Details: rawOf(op, "details"), FromExtension: rawOf(op, "fromExtension"),
	}
}

// rawOf is the JSON of an argument, nil if it is absent.
func rawOf(op any, name string) []byte {
	v, ok := op.(map[string]any)[name]
	if !ok {
		return nil
	}
	return encodeJSON(v)
}

func strs(v any) []string {
	var all []string
	for _, s := range items(v) {
		all = append(all, str(s))
	}
	return all
}

func (r *scenario) persist(entry []byte) ([]byte, error) {
	res, err := truncate.Entry(entry, r.store.put, truncate.Options{})
	return res.Text, err
}

// snapshot is the oracle's look at the file of the session, which appears when the session is listed (SPEC S8).
func (r *scenario) snapshot() any {
	types := []any{}
	if r.tree.Listed() {
		types = append(types, sessions.TypeHeader)
		for _, e := range r.tree.Entries() {
			types = append(types, e.Type)
		}
	}
	return map[string]any{
		"leafId": leafID(r.tree), "fileExists": r.tree.Listed(), "physicalLines": integer(len(types)), "lineTypes": types,
	}
}

// leafID is the leaf as the oracle shows it: null for none.
func leafID(t *sessions.Tree) any {
	if id := t.Leaf().ID(); id != "" {
		return id
	}
	return nil
}

func lastID(t *sessions.Tree) any {
	if all := t.Entries(); len(all) > 0 {
		return all[len(all)-1].ID
	}
	return nil
}

func entriesOf(t *sessions.Tree) []any {
	entries := []any{}
	for _, e := range t.Entries() {
		entries = append(entries, mustJSON(e.JSON()))
	}
	return entries
}

func nodesOf(nodes []*sessions.Node) []any {
	out := []any{}
	for _, n := range nodes {
		node := map[string]any{"id": n.Entry.ID, "type": n.Entry.Type, "children": nodesOf(n.Children)}
		if n.Label != "" {
			node["label"] = n.Label
		}
		out = append(out, node)
	}
	return out
}

// integer is a number as decodeJSON makes it.
func integer(n int) json.Number { return json.Number(fmt.Sprint(n)) }

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/sessions"
)

// scenario replays calls as the oracle's harness made them: ids and times come from one counter and one clock that moves
// on a second each time it is read.
type scenario struct {
	name  string
	count int
	now   time.Time
	tree  *sessions.Tree // what was read back

	ids       map[string]any    // by the names that the calls give them
	own       map[string]string // ids of the product's entries, by those that the oracle's harness gave
	log       []any
	snapshots map[string]any

	extracted, forkedArtifacts, inMemory bool
}

// firstTime is what the clock of the oracle's harness begins with.
var firstTime = time.Date(2026, 5, 20, 10, 0, 0, 0, time.UTC)

// note logs a call as the oracle does.
func (r *scenario) note(op, result, leaf any, err error) {
	entry := map[string]any{"op": field(op, "op"), "leafId": leaf}
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
	id := str(r.ids[name])
	return cmp.Or(r.own[id], id)
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

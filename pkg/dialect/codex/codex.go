package codex

import (
	"cmp"
	"strconv"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// Dialect is the dialect "codex".
type Dialect struct {
	// Earlier is the version of the mapping, if it is not the newest: in 1 a turn ended only where a line says so, with what was
	// counted before that, 2 had no pictures in items.
	Earlier int
}

// Name is "codex".
func (Dialect) Name() string { return "codex" }

// Version is the version of the mapping.
func (d Dialect) Version() int {
	return cmp.Or(d.Earlier, 3)
}

// types are the envelope types that have a meaning here (SPEC X4).
var types = parts.Names(
	"session_meta", "response_item", "event_msg", "turn_context", "compacted", "token_usage_record", "world_state",
	"inter_agent_communication", "inter_agent_communication_metadata", "retained_context", "security_risk_score",
	"realtime_item", "rollout_reference",
)

// Read takes one line of a rollout. It never fails.
func (d Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m, mapping: d.Version()}
	var typ, timestamp []byte
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "type", To: &typ}, {Key: "timestamp", To: &timestamp}, {Key: "payload", To: &r.raw},
	})
	r.Type, r.Known = types.Of(typ)
	r.Role = entry.RoleSystem
	r.Time = parts.Time(timestamp)
	switch r.Type {
	case "session_meta":
		r.sessionMeta()
	case "turn_context":
		r.Session.Model = parts.Fact(r.get("model"))
		r.Session.Cwd = parts.Fact(r.get("cwd"))
	case "response_item":
		r.responseItem()
	case "event_msg":
		r.event()
	case "compacted":
		r.Compact = parts.Text(r.get("message"))
		r.add(events.Status("compacting_context", "", "Compacting context..."))
	case "token_usage_record":
		if u, ok := usage(r.get("usage")); ok {
			r.m.Activity(r.Time, 0)
			r.m.Usage(entry.Key(r.get("response_id")), u)
			r.works()
		}
	}
	return r.Entry, nil
}

// reader is one line on its way: its payload, raw, and the entry that it becomes.
type reader struct {
	entry.Entry
	m   *entry.Memory
	raw []byte

	mapping int // its version, see Dialect
}

func (r *reader) get(path ...string) []byte { return jsonscan.Get(r.raw, path...) }

func (r *reader) add(it events.Item) { r.Items = append(r.Items, it) }

// pictures are those of content parts.
func (r *reader) pictures(content []byte) [][]byte {
	if r.mapping < 3 {
		return nil
	}
	return parts.Pictures(content, []string{"data"}, []string{"mimeType"}, true)
}

func (r *reader) sessionMeta() {
	var id, cwd, version, git, forked, started, base []byte
	jsonscan.Fields(r.raw, []jsonscan.Field{
		{Key: "id", To: &id}, {Key: "cwd", To: &cwd}, {Key: "cli_version", To: &version}, {Key: "git", To: &git},
		{Key: "forked_from_id", To: &forked}, {Key: "parent_thread_id", To: &started}, {Key: "history_base", To: &base},
	})
	r.ID = parts.ID(id)
	r.Session = entry.Session{ID: r.ID, Harness: "codex", Cwd: parts.Fact(cwd), Version: parts.Fact(version),
		GitBranch: parts.Fact(jsonscan.Get(git, "branch")), Base: parts.ID(jsonscan.Get(base, "thread_id")),
		Parent: cmp.Or(parts.ID(forked), parts.ID(started))}
}

// eventTypes are those of event_msg.
var eventTypes = parts.Names(
	"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted", "thread_rolled_back",
	"thread_settings_applied", "thread_goal_updated", "token_count", "item_completed", "item_started", "user_message",
	"agent_message", "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break",
	"patch_apply_end", "mcp_tool_call_end", "web_search_end", "context_compacted", "view_image_tool_call",
	"image_generation_end", "entered_review_mode", "exited_review_mode", "undo_completed", "thread_name_updated",
)

func (r *reader) event() {
	name, known := eventTypes.Of(r.get("type"))
	r.Type, r.Known = "event_msg."+name, known
	switch name {
	case "task_started", "turn_started":
		r.endBefore()
		r.m.Prompt(r.Time)
		if r.mapping > 1 {
			r.m.Tell()
		}
		r.add(events.Status("task_started", "", "Task started"))
	case "task_complete", "turn_complete":
		r.taskComplete()
	case "turn_aborted":
		reason := parts.Text(r.get("reason"))
		r.add(events.Status("turn_aborted", reason, "Turn aborted"))
		r.endTurn()
	case "thread_rolled_back":
		n := max(parts.Int(r.get("num_turns")), 1)
		r.Place = entry.Place{Kind: entry.UserTurns, N: n}
		detail := strconv.FormatInt(n, 10) + " user turn"
		if n > 1 {
			detail += "s"
		}
		r.add(events.Status(name, detail, "Rolled back "+detail))
	case "thread_settings_applied":
		r.add(events.Status(name, "", "Settings applied"))
	case "thread_goal_updated":
		goal := r.get("goal")
		if jsonscan.KindOf(goal) == jsonscan.KindObject {
			goal = jsonscan.Get(goal, "objective")
		}
		r.add(events.Status(name, parts.Text(goal), "Goal updated"))
	case "thread_name_updated":
		r.Session.Title = parts.Fact(r.get("thread_name"))
	case "token_count":
		r.tokenCount()
	case "item_completed":
		r.completed(r.get("item"))
	case "mcp_tool_call_end", "web_search_end", "patch_apply_end":
		r.legacyEnd(name)
	}
}

func (r *reader) taskComplete() {
	if failure := r.get("error"); failure != nil && jsonscan.KindOf(failure) != jsonscan.KindNull {
		text := failure
		if jsonscan.KindOf(failure) == jsonscan.KindObject {
			if text = jsonscan.Get(failure, "message"); text == nil {
				text = parts.Join(failure)
			}
		}
		r.add(events.Status("error", parts.Text(text), "Error"))
	}
	r.endTurn()
}

func (r *reader) endTurn() {
	stats, ok := r.m.End(r.Time, 0)
	if !ok && r.mapping > 1 {
		stats, ok = r.m.EndLeft()
	}
	if !ok {
		return
	}
	from, to := parts.Tokens(r.get("started_at")), parts.Tokens(r.get("completed_at"))
	if d := parts.Int(r.get("duration_ms")); d > 0 {
		stats.DurationMS = d
	} else if from > 0 && to >= from {
		stats.DurationMS = (to - from) * 1000
	}
	r.add(events.TurnEnd(stats))
}

// endBefore posts the end of what came before a turn, as far as no other line has told of it.
func (r *reader) endBefore() {
	if r.mapping == 1 {
		return
	}
	if stats, ok := r.m.EndLeft(); ok {
		r.add(events.TurnEnd(stats))
	}
}

// works notes that the agent does.
func (r *reader) works() {
	if r.mapping > 1 {
		r.m.Worked(r.Time)
	}
}

func (r *reader) tokenCount() {
	u, ok := usage(r.get("info", "last_token_usage"))
	if ok {
		r.m.Count(parts.Tokens(r.get("info", "total_token_usage", "total_tokens")), u)
		r.works()
	}
}

func usage(raw []byte) (u entry.Usage, ok bool) {
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "input_tokens":
			u.Input = parts.Tokens(value)
		case "cached_input_tokens":
			u.Cached = parts.Tokens(value)
		case "output_tokens":
			u.Output = parts.Tokens(value)
		}
		return true
	})
	return u, raw != nil && err == nil
}

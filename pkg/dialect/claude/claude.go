package claude

import (
	"cmp"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Dialect is the dialect "claude".
type Dialect struct {
	// Earlier is the version of the mapping, if it is not the newest: 1 took no commands for prompts, and no prompt for the end of
	// the turn before it, 2 had no pictures in items.
	Earlier int
}

// Name is "claude".
func (Dialect) Name() string { return "claude" }

// Version is the version of the mapping.
func (d Dialect) Version() int {
	return cmp.Or(d.Earlier, 3)
}

// Read takes one line of a transcript. It never fails.
func (d Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m, mapping: d.Version()}
	r.scan(raw)
	r.Time = parts.Time(r.timestamp)
	r.ID = parts.ID(r.uuid)
	r.Role = entry.RoleSystem
	r.Type, r.Known = types.Of(r.typ)
	switch r.Type {
	case "assistant":
		r.assistant()
	case "user":
		r.user()
	case "system":
		r.system()
	case "attachment":
		r.attachment()
	case "summary", "ai-title":
		r.Session.Title, r.Session.TitleSource = parts.Fact(r.title), sessions.TitleAuto
	case "custom-title":
		r.Session.Title, r.Session.TitleSource = parts.Fact(r.title), sessions.TitleUser
	}
	return r.Entry, nil
}

// reader is one line on its way: the members that matter, raw, and the entry that they become.
type reader struct {
	entry.Entry
	m *entry.Memory

	typ, uuid, timestamp, message, subtype, content []byte
	toolUseResult, attached, title, duration        []byte
	cwd, version, branch, forkedFrom, agentID       []byte
	retryMS, attempt, attempts, failure, compact    []byte

	isMeta, isSidechain, isSummary bool

	mapping int // its version, see Dialect
}

func (r *reader) scan(raw []byte) {
	var meta, sidechain, summary []byte
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "type", To: &r.typ}, {Key: "uuid", To: &r.uuid}, {Key: "timestamp", To: &r.timestamp}, {Key: "message", To: &r.message},
		{Key: "subtype", To: &r.subtype}, {Key: "content", To: &r.content}, {Key: "toolUseResult", To: &r.toolUseResult},
		{Key: "attachment", To: &r.attached}, {Key: "summary", To: &r.title}, {Key: "customTitle", To: &r.title},
		{Key: "aiTitle", To: &r.title}, {Key: "durationMs", To: &r.duration}, {Key: "isMeta", To: &meta},
		{Key: "isSidechain", To: &sidechain}, {Key: "isCompactSummary", To: &summary}, {Key: "cwd", To: &r.cwd},
		{Key: "version", To: &r.version}, {Key: "gitBranch", To: &r.branch}, {Key: "forkedFrom", To: &r.forkedFrom},
		{Key: "agentId", To: &r.agentID}, {Key: "retryInMs", To: &r.retryMS}, {Key: "retryAttempt", To: &r.attempt},
		{Key: "maxRetries", To: &r.attempts}, {Key: "error", To: &r.failure}, {Key: "compactMetadata", To: &r.compact},
	})
	r.isMeta, r.isSidechain, r.isSummary = parts.True(meta), parts.True(sidechain), parts.True(summary)
}

// inline tells whether the line is a helper's, inside the file of the agent that started it.
func (r *reader) inline() bool { return r.isSidechain && parts.Empty(r.agentID) }

func (r *reader) add(it events.Item) { r.Items = append(r.Items, it) }

// pictures are those of content blocks.
func (r *reader) pictures(content []byte) [][]byte {
	if r.mapping < 3 {
		return nil
	}
	return parts.Pictures(content, []string{"source", "data"}, []string{"source", "media_type"}, false)
}

// facts takes what a prompt's line tells of the session.
func (r *reader) facts() {
	r.Session.Harness = "claude"
	r.Session.Cwd = parts.Fact(r.cwd)
	r.Session.Version = parts.Fact(r.version)
	r.Session.GitBranch = parts.Fact(r.branch)
	if r.forkedFrom != nil {
		r.Session.Parent = parts.Fact(jsonscan.Get(r.forkedFrom, "sessionId"))
	}
}

// works notes that the agent does.
func (r *reader) works() {
	if r.mapping > 1 {
		r.m.Worked(r.Time)
	}
}

// endBefore posts the end of a turn of which the next prompt is the only evidence, with the time of the agent's last
// sign.
func (r *reader) endBefore() {
	if r.mapping == 1 {
		return
	}
	if stats, ok := r.m.EndWorked(); ok {
		r.add(events.TurnEnd(stats))
	}
}

// endTurn posts the turn's end unless the turn has ended before. duration, if positive, is better than our own measure.
func (r *reader) endTurn(by uint64, duration int64) {
	stats, ok := r.m.End(r.Time, by)
	if !ok {
		return
	}
	if duration > 0 {
		stats.DurationMS = duration
	}
	r.add(events.TurnEnd(stats))
}

// message is the members of line.message that matter.
type message struct {
	id, model, content, stop, usage []byte
}

func (r *reader) readMessage() (msg message) {
	jsonscan.Fields(r.message, []jsonscan.Field{
		{Key: "id", To: &msg.id}, {Key: "model", To: &msg.model}, {Key: "content", To: &msg.content},
		{Key: "stop_reason", To: &msg.stop}, {Key: "usage", To: &msg.usage},
	})
	return msg
}

func (r *reader) assistant() {
	r.Role = entry.RoleAssistant
	msg := r.readMessage()
	if !parts.Is(msg.model, "<synthetic>") {
		r.Session.Model = parts.Fact(msg.model)
	}
	id := msg.id
	if parts.Empty(id) {
		id = r.uuid
	}
	key := entry.Key(id)
	r.m.Activity(r.Time, key)
	r.works()
	if u, ok := usage(msg.usage); ok {
		r.m.Usage(key, u)
	}
	texts, calls := 0, 0
	if jsonscan.KindOf(msg.content) == jsonscan.KindString {
		texts += r.text(msg.content)
	}
	_ = jsonscan.Array(msg.content, func(raw []byte) bool {
		b := readBlock(raw)
		switch {
		case parts.Is(b.typ, "text"):
			texts += r.text(b.text)
		case parts.Is(b.typ, "thinking"):
			if !parts.Empty(b.thinking) {
				r.add(events.Thinking(b.thinking))
			}
		case parts.Is(b.typ, "tool_use"), parts.Is(b.typ, "server_tool_use"), parts.Is(b.typ, "mcp_tool_use"):
			calls++
			r.call(b)
		case b.isResult():
			r.result(b, parts.Join(b.content))
		}
		return true
	})
	r.Cut = parts.Is(msg.stop, "max_tokens")
	final := parts.Is(msg.stop, "end_turn") || parts.Is(msg.stop, "stop_sequence")
	if final && texts > 0 && calls == 0 && !r.inline() {
		r.endTurn(key, 0)
	}
}

func (r *reader) text(token []byte) int {
	if parts.Empty(token) {
		return 0
	}
	r.add(events.Text(token))
	return 1
}

// usage reads a message's figures (SPEC I2).
func usage(raw []byte) (u entry.Usage, ok bool) {
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "input_tokens", "cache_creation_input_tokens":
			u.Input += parts.Tokens(value)
		case "cache_read_input_tokens":
			u.Cached = parts.Tokens(value)
		case "output_tokens":
			u.Output = parts.Tokens(value)
		}
		return true
	})
	u.Input += u.Cached
	return u, raw != nil && err == nil
}

package omp

import (
	"cmp"
	"strconv"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Dialect is the dialect "omp".
type Dialect struct {
	Earlier int // the version of the mapping, if it is not the newest: 1 had no pictures in items, 2 no prompts
}

// Name is "omp".
func (Dialect) Name() string { return "omp" }

// Version is the version of the mapping.
func (d Dialect) Version() int {
	return cmp.Or(d.Earlier, 3)
}

// types are the line types that have a meaning here (SPEC S2).
var types = parts.Names(
	sessions.TypeHeader, sessions.TypeTitleSlot, sessions.TypeMessage, sessions.TypeThinkingLevelChange,
	sessions.TypeModelChange, sessions.TypeCompaction, sessions.TypeBranchSummary, sessions.TypeCustom,
	sessions.TypeCustomMessage, sessions.TypeLabel, sessions.TypeTTSRInjection, sessions.TypeSessionInit,
	sessions.TypeModeChange, sessions.TypeModelUsage, sessions.TypeServiceTierChange, sessions.TypeTitleChange,
	sessions.TypeCredentialPin, sessions.TypeResetBoundary,
)

// Read takes one line of a session file. It never fails.
func (d Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m == nil {
		m = new(entry.Memory)
	}
	m.Begin()
	r := reader{m: m, raw: raw, mapping: d.Version()}
	r.scan(raw)
	r.Type, r.Known = types.Of(r.typ)
	r.Role = entry.RoleSystem
	r.Time = parts.Time(r.timestamp)
	if r.Type == sessions.TypeHeader || r.Type == sessions.TypeTitleSlot {
		r.header()
		return r.Entry, nil
	}
	r.ID = parts.ID(r.id)
	session, place, numbered := m.Numbered()
	if numbered {
		r.number(session, place)
	} else {
		r.Place = parts.Under(r.parentID, r.m)
	}
	switch r.Type {
	case sessions.TypeMessage:
		r.message()
	case sessions.TypeCompaction:
		r.compaction()
		if numbered {
			r.kept(session, place)
		}
	case sessions.TypeBranchSummary:
		summary := jsonscan.Get(raw, "summary")
		if !parts.Empty(summary) {
			r.add(events.Status("branch_summary", parts.Text(summary), "Branch summary: "+jsonscan.FirstLine(summary, 480)))
		}
	case sessions.TypeCustomMessage:
		r.custom(raw)
	case sessions.TypeModelChange:
		r.modelChange()
	case sessions.TypeModeChange:
		if mode := parts.Text(jsonscan.Get(raw, "mode")); mode != "" {
			r.add(events.Status("mode_change", mode, "Mode: "+mode))
		}
	case sessions.TypeTitleChange:
		r.title()
	}
	return r.Entry, nil
}

// reader is one line on its way: the members that matter, raw, and the entry that they become.
type reader struct {
	entry.Entry
	m *entry.Memory

	raw, typ, id, parentID, timestamp, body []byte
	msg                                     message // what body holds

	mapping int // its version, see Dialect
}

func (r *reader) scan(raw []byte) {
	fields := []jsonscan.Field{
		{Key: "type", To: &r.typ}, {Key: "id", To: &r.id}, {Key: "parentId", To: &r.parentID}, {Key: "timestamp", To: &r.timestamp},
	}
	jsonscan.Members(raw, jsonscan.SkipSpace(raw, 0), func(key []byte, at int) (end int) {
		if string(key) == "message" {
			if r.msg, end = readMessage(raw, at); end >= 0 {
				r.body = raw[at:end]
			}
		} else if end = jsonscan.SkipValue(raw, at); end >= 0 {
			jsonscan.Give(fields, key, raw[at:end])
		}
		return end
	})
}

func (r *reader) add(it events.Item) { r.Items = append(r.Items, it) }

// addShown adds an item with the pictures of its message behind the text.
func (r *reader) addShown(it events.Item) {
	if r.mapping > 1 {
		it = it.With(parts.Pictures(r.msg.content, []string{"data"}, []string{"mimeType"}, false))
	}
	r.add(it)
}

// number gives an entry of version 1 the id of its place, unless it brought one along, and puts it after the line before it
// (SPEC S5). sessions.Migration does the same, and renames an entry whose id another one has.
func (r *reader) number(session string, place int64) {
	if r.ID == "" {
		r.ID = sessions.EntryID(session, int(place), 0)
	}
}

// kept is the first entry that a compaction of version 1 keeps, which it names by its place, as far as one line tells: an
// entry that brought an id along has that. It is a note in the state; what a model is sent goes by sessions.Migration.
func (r *reader) kept(session string, place int64) {
	if n, ok := jsonscan.Int(jsonscan.Get(r.raw, "firstKeptEntryIndex")); ok {
		r.Kept = ""
		if 0 < n && n <= place {
			r.Kept = sessions.EntryID(session, int(n), 0)
		}
	}
}

// title takes the title that a line gives the session, and who gave it.
func (r *reader) title() {
	r.Session.Title = parts.Fact(jsonscan.Get(r.raw, "title"))
	source := jsonscan.Get(r.raw, "titleSource")
	if source == nil { // of a slot and of a title_change
		source = jsonscan.Get(r.raw, "source")
	}
	r.Session.TitleSource = parts.ID(source)
}

// header takes what the first lines of a file tell.
func (r *reader) header() {
	r.title()
	_, _, numbered := r.m.Numbered()
	if r.Type == sessions.TypeTitleSlot {
		return
	}
	h, err := sessions.ParseHeader(r.raw)
	if err != nil {
		return
	}
	r.ID = parts.ID(r.id)
	r.Session.ID, r.Session.Harness = r.ID, "omp"
	r.Session.Cwd = parts.Fact(jsonscan.Get(r.raw, "cwd"))
	r.Session.Parent = parts.Fact(jsonscan.Get(r.raw, "parentSession"))
	r.Session.Version = strconv.FormatInt(h.Version, 10)
	if !numbered && h.Version < 2 && !r.m.HasTree() {
		r.m.Number(r.ID)
	}
}

func (r *reader) modelChange() {
	model := parts.Fact(jsonscan.Get(r.raw, "model"))
	if model == "" {
		model = parts.Fact(jsonscan.Get(r.raw, "modelId"))
		if provider := parts.Fact(jsonscan.Get(r.raw, "provider")); provider != "" && model != "" {
			model = provider + "/" + model
		}
	}
	if model == "" {
		return
	}
	detail := model
	if role := parts.Text(jsonscan.Get(r.raw, "role")); role == "" || role == "default" {
		r.Session.Model = model
	} else {
		detail += " (" + role + ")"
	}
	r.add(events.Status("model_change", detail, "Model: "+detail))
}

func (r *reader) compaction() {
	var summary, short, kept, from, to []byte
	jsonscan.Fields(r.raw, []jsonscan.Field{
		{Key: "summary", To: &summary}, {Key: "shortSummary", To: &short}, {Key: "firstKeptEntryId", To: &kept},
		{Key: "tokensBefore", To: &from}, {Key: "tokensAfter", To: &to},
	})
	r.Compact, r.Session.Summary, r.Kept = parts.Text(summary), parts.Fact(short), parts.ID(kept)
	before, after := parts.Tokens(from), parts.Tokens(to)
	detail := ""
	switch {
	case before > 0 && after > 0:
		detail = "Reducing " + thousands(before) + " → " + thousands(after) + " tokens"
	case before > 0:
		detail = "Reducing " + thousands(before) + " tokens"
	}
	r.add(events.Status("compacting_context", detail, "Compacting context..."))
}

// thousands is a count of tokens as people say it: 38k, or 812.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt((n+500)/1000, 10) + "k"
}

// custom posts what an extension says, if it is meant to be seen.
func (r *reader) custom(raw []byte) {
	var kind, content, details, display []byte
	jsonscan.Fields(raw, []jsonscan.Field{
		{Key: "customType", To: &kind}, {Key: "content", To: &content}, {Key: "details", To: &details}, {Key: "display", To: &display},
	})
	text := parts.Join(content)
	if r.mapping > 2 && parts.Is(kind, "acp_permission") && r.permission(parts.Text(text), details) {
		return
	}
	if parts.True(display) && !parts.Empty(text) {
		extra := []events.Field{}
		if !parts.Empty(kind) {
			extra = append(extra, events.Field{Name: "custom_type", Value: kind})
		}
		r.add(events.Status("custom_message", "", parts.Text(text), extra...))
	}
}

// permission posts what package acp writes of a permission that an agent asks for: a prompt, or how it was settled.
func (r *reader) permission(text string, details []byte) bool {
	asked, settled := jsonscan.Get(details, "prompt"), jsonscan.Get(details, "resolution")
	id, kind := parts.Text(jsonscan.Get(asked, "id")), parts.Text(jsonscan.Get(asked, "kind"))
	switch {
	case id == "" || kind == "":
		return false
	case settled == nil:
		r.add(events.PendingPrompt(id, kind, text, asked))
	default:
		outcome := parts.Text(jsonscan.Get(settled, "outcome"))
		r.add(events.PendingPromptResolved(id, kind, events.Resolution{Outcome: outcome, At: r.Time, Answer: jsonscan.Get(settled, "answer")}))
	}
	return true
}

package project

import (
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Learn takes what an entry says about its session into the session's record (SPEC S10). A subagent says less about the
// session than its main thread: main tells that the entry is of that thread, or that there is no record yet;
// first, that it is the first entry of its thread.
//
// What changes with every entry is not here but in the thread's head (Count), which every commit writes anyway.
func Learn(info *sessions.Info, e *dialect.Entry, main, first bool) {
	copied := !first && info.ID != "" && e.Session.ID != "" && e.Session.ID != info.ID && e.Session.Harness == "codex"
	if !main || copied { // a fork of Codex has the headers of those that it comes from behind its own
		return
	}
	if first { // what an earlier life of the thread said is said no more
		info.Prompt, info.Summary = "", ""
		if !info.Named {
			info.Title, info.TitleSource = "", ""
		}
	}
	news := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	news(&info.Harness, e.Session.Harness)
	if header := e.Type == sessions.TypeHeader; header || first || info.Cwd == "" { // where an agent goes later, its session does not follow
		news(&info.Cwd, e.Session.Cwd)
	}
	older := info.Title != "" && !first && e.Type == sessions.TypeHeader // the title slot before it is newer
	if s := &e.Session; s.Title != "" && !older && info.TakesTitle(s.TitleSource) {
		info.Title, info.TitleSource = s.Title, s.TitleSource
	}
	news(&info.Summary, e.Session.Summary)
	news(&info.Model, e.Session.Model)
	news(&info.Branch, e.Session.GitBranch)
	news(&info.Program, e.Session.Version)
	news(&info.Base, e.Session.Base)
	news(&info.Parent, e.Session.Parent)
	if info.Prompt == "" && e.Role == dialect.RoleUser {
		info.Prompt = prompt(e.Items)
	}
	info.Answered = info.Answered || answers(e)
}

// prompt is the beginning of the first user post among the items.
func prompt(items []events.Item) (text string) {
	for _, it := range items {
		if it.Type != "" {
			continue
		}
		_ = jsonscan.Array(it.Content, func(block []byte) bool {
			text = person(jsonscan.Get(block, "text"))
			return text == ""
		})
		if text != "" {
			break
		}
	}
	return text
}

// person is the beginning of what a person said in a post: behind what the editor says before, such as <ide_opened_file>.
func person(post []byte) string {
	const editor = "<ide_"
	text, _ := jsonscan.Prefix(post, sessions.PromptRunes)
	if !strings.HasPrefix(text, editor) {
		return text
	}
	all, _ := jsonscan.Text(post)
	for strings.HasPrefix(all, editor) {
		name, _, _ := strings.Cut(all[1:], ">")
		_, rest, ended := strings.Cut(all, "</"+name+">")
		if !ended {
			break
		}
		all = strings.TrimSpace(rest)
	}
	text, _ = jsonscan.Prefix(jsonscan.AppendString(nil, all), sessions.PromptRunes)
	return text
}

// answers tells whether an entry is an agent's work (SPEC S8): raw bytes may be, and so is a question, whoever writes it down.
func answers(e *dialect.Entry) bool {
	if slices.ContainsFunc(e.Items, func(it events.Item) bool { return it.Type == events.TypePendingPrompt }) {
		return true
	}
	switch e.Role {
	case dialect.RoleUser, dialect.RoleSystem, "":
		return e.Type == typeRaw
	}
	return true
}

// typeRaw is the type of every entry of the dialect raw.
const typeRaw = "raw"

// Count notes in its thread's head what a listing shows of an entry (SPEC S10). It allocates nothing.
func Count(h *threads.Head, e *dialect.Entry) {
	if says(e.Type, e.Role) {
		h.Messages++
	}
	h.Standing = uint8(standing(sessions.Status(h.Standing), e))
	for i := range e.Items {
		if e.Items[i].Type == events.TypeTurnEnd {
			h.Turns++
			stats := Stats(e.Items[i].Metadata)
			h.TokensIn += stats.InputTokens
			h.TokensCached += stats.InputTokensCached
			h.TokensOut += stats.OutputTokens
		}
	}
}

// OpenTurn is what a thread's agent has taken since the end of its last turn: of one that goes on, or that was cut off.
func OpenTurn(h *threads.Head) events.Stats {
	m, err := dialect.DecodeMemory(h.Memory)
	if err != nil {
		return events.Stats{} // of a later version
	}
	u := m.Untold()
	return events.Stats{InputTokens: u.Input, InputTokensCached: u.Cached, OutputTokens: u.Output}
}

// Stats are the tokens of a turn, by the metadata of its end.
func Stats(metadata []byte) events.Stats {
	stats := jsonscan.Get(metadata, "stats")
	return events.Stats{InputTokens: tokens(stats, "input_tokens"), InputTokensCached: tokens(stats, "input_tokens_cached"),
		OutputTokens: tokens(stats, "output_tokens")}
}

// tokens is a number of tokens that an agent told; what can not be one counts as none.
func tokens(stats []byte, name string) int64 {
	n, _ := jsonscan.Int(jsonscan.Get(stats, name))
	return min(max(n, 0), mostTokens)
}

// mostTokens of a turn are believed.
const mostTokens = 1 << 40

// says tells whether somebody speaks in an entry of that type and role: a user, an agent, a tool, a workflow's role; not a
// program about itself, and not Spool ("__end__", "__fork__").
func says(kind, role string) bool {
	return kind == sessions.TypeMessage || role != "" && role != dialect.RoleSystem && !strings.HasPrefix(role, "__")
}

// standing is where an entry leaves its thread. It reads the items alone, so every dialect has it.
func standing(was sessions.Status, e *dialect.Entry) sessions.Status {
	switch {
	case e.Cut:
		return sessions.StatusInterrupted
	case e.Role == dialect.RoleEnd && failed(e):
		return sessions.StatusError
	case e.Role == dialect.RoleEnd:
		return sessions.StatusComplete
	case e.Role == dialect.RoleUser:
		return sessions.StatusPending
	case e.Role == dialect.RoleTool && len(e.Items) > 0 && e.Items[0].Type == events.TypeToolCall:
		return was // the user ran it beside the agent
	}
	for i := range e.Items {
		switch it := &e.Items[i]; it.Type {
		case events.TypeToolCall, events.TypeToolResult, events.TypeThinking:
			was = sessions.StatusInterrupted
		case events.TypeText:
			was = sessions.StatusComplete
		case events.TypeTurnEnd:
			if was != sessions.StatusAborted && was != sessions.StatusError {
				was = sessions.StatusComplete
			}
		case events.TypeStatus:
			switch string(jsonscan.Get(it.Metadata, "status")) {
			case `"aborted"`, `"interrupted"`, `"turn_aborted"`:
				was = sessions.StatusAborted
			case `"error"`, `"api_error"`:
				was = sessions.StatusError
			}
		}
	}
	return was
}

// failed tells whether the end of a thread has another return code than 0.
func failed(end *dialect.Entry) bool {
	return slices.ContainsFunc(end.Items, func(it events.Item) bool {
		code, _ := jsonscan.Int(jsonscan.Get(it.Metadata, "returnCode"))
		return code != 0
	})
}

package claude

import (
	"cmp"
	"fmt"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// types are the line types that have a meaning here (SPEC X4).
var types = parts.Names(
	"user", "assistant", "system", "attachment", "progress", "summary", "custom-title", "ai-title", "last-prompt", "mode",
	"permission-mode", "agent-name", "agent-setting", "tag", "pr-link", "queue-operation", "file-history-snapshot",
	"file-history-delta", "content-replacement", "bridge-session", "cost-state",
)

// subtypes are those of system lines.
var subtypes = parts.Names(
	"compact_boundary", "turn_duration", "api_error", "local_command", "stop_hook_summary", "informational", "away_summary",
	"bridge_status",
)

func (r *reader) system() {
	subtype := "status"
	if !parts.Empty(r.subtype) {
		subtype, r.Known = subtypes.Of(r.subtype)
		r.Type = "system." + subtype
	}
	switch subtype {
	case "turn_duration":
		r.endTurn(0, parts.Int(r.duration))
	case "compact_boundary":
		r.add(events.Status("compacting_context", r.compactDetail(), "Compacting context..."))
	case "api_error":
		r.add(events.Status("api_error", r.errorDetail(), "API error"))
	case "local_command":
	case "stop_hook_summary":
		if !r.isMeta {
			r.add(events.Status(subtype, "", "Stop hooks ran"))
		}
	default:
		text := parts.Join(r.content)
		if r.isMeta || noise(text) {
			return
		}
		brief := cmp.Or(jsonscan.FirstLine(text, 480), subtype)
		r.add(events.Status(subtype, parts.Text(text), brief))
	}
}

func (r *reader) compactDetail() string {
	detail := parts.Text(jsonscan.Get(r.compact, "trigger"))
	if n := parts.Int(jsonscan.Get(r.compact, "preTokens")); n > 0 {
		if detail != "" {
			detail += ", "
		}
		detail += fmt.Sprintf("%d tokens before", n)
	}
	return detail
}

// errorDetail finds the message in what the API answered, which nests it one to three levels deep.
func (r *reader) errorDetail() string {
	detail := ""
	for at, depth := r.failure, 0; at != nil && depth < 4; depth++ {
		if jsonscan.KindOf(at) == jsonscan.KindString {
			detail = parts.Text(at)
			break
		}
		if text := parts.Text(jsonscan.Get(at, "message")); text != "" {
			detail = text
		}
		at = jsonscan.Get(at, "error")
	}
	if n := parts.Int(r.attempt); n > 0 {
		detail += fmt.Sprintf(" (attempt %d of %d, next in %d ms)", n, parts.Int(r.attempts), parts.Int(r.retryMS))
	}
	return detail
}

// attachment posts a prompt that was queued while the agent worked. It begins no turn.
func (r *reader) attachment() {
	if !parts.Is(jsonscan.Get(r.attached, "type"), "queued_command") {
		return
	}
	said := jsonscan.Get(r.attached, "prompt")
	prompt := parts.Join(said)
	if parts.Empty(prompt) || noise(prompt) || r.isMeta {
		return
	}
	r.Role = entry.RoleUser
	r.add(events.User(prompt).With(r.pictures(said)))
}

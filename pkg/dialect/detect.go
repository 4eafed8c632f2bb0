package dialect

import (
	"bytes"

	"spool/internal/jsonscan"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/sessions"
)

// Detect tells from the first complete lines of a file which harness wrote it; a dozen lines are plenty. Lines that are
// blank or no JSON are passed over (SPEC S6).
//
//	omp     a header {"type":"session","id":…}, also after a title slot (SPEC S1)
//	codex   a session_meta envelope {"timestamp","type","payload"}
//	copilot a session.start {"type","data":{"sessionId":…}}
//	opencode a document {"info":{"id":…},"messages":[…]}
//	gemini  a header {"sessionId","projectHash"}
//	qwen    a line as one of claude, with provenance or with message.parts
//	claude  a line with type and sessionId, or with uuid and parentUuid, or one of the types that have neither
func Detect(lines [][]byte) (name string, ok bool) {
	for _, line := range lines {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
		if len(line) == 0 || jsonscan.Valid(line) != nil {
			continue
		}
		if name := detectLine(line); name != "" {
			return name, true
		}
	}
	return "", false
}

func detectLine(line []byte) string {
	if _, err := sessions.ParseHeader(line); err == nil {
		return "omp"
	}
	var typ, uuid, parent, session, payload, leaf, project, provenance, message, info, messages, data []byte
	jsonscan.Fields(line, []jsonscan.Field{
		{Key: "type", To: &typ}, {Key: "uuid", To: &uuid}, {Key: "parentUuid", To: &parent},
		{Key: "sessionId", To: &session}, {Key: "payload", To: &payload}, {Key: "projectHash", To: &project},
		{Key: "provenance", To: &provenance}, {Key: "message", To: &message}, {Key: "info", To: &info},
		{Key: "messages", To: &messages}, {Key: "data", To: &data}, {Key: "leafUuid", To: &leaf}, {Key: "messageId", To: &leaf},
	})
	switch {
	case parts.Empty(typ) && !parts.Empty(session) && !parts.Empty(project):
		return "gemini"
	case parts.Empty(typ) && jsonscan.KindOf(messages) == jsonscan.KindArray && !parts.Empty(jsonscan.Get(info, "id")):
		return "opencode"
	case parts.Empty(typ):
		return ""
	case parts.Is(typ, "session.start") && !parts.Empty(jsonscan.Get(data, "sessionId")):
		return "copilot"
	case jsonscan.KindOf(payload) == jsonscan.KindObject:
		return "codex"
	case !parts.Empty(session) && (!parts.Empty(provenance) || jsonscan.KindOf(jsonscan.Get(message, "parts")) == jsonscan.KindArray):
		return "qwen"
	case !parts.Empty(session), !parts.Empty(uuid) && parent != nil:
		return "claude"
	case !parts.Empty(leaf) && (parts.Is(typ, "summary") || parts.Is(typ, "file-history-snapshot")):
		return "claude"
	}
	return ""
}

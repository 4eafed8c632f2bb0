package acp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/jsonscan"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// The sides of a conversation, as an entry names them.
const (
	ofEditor = "editor"
	ofAgent  = "agent"
)

// Entries are those of Spool's own sessions (package sessions), so that trees, contexts, items and searches know them. Each has a member
// "acp" beside what that format asks for: the messages that it was made of, [{"from":"editor"|"agent","message":…}], as they came.
//
//	session/prompt                         message of the user
//	agent_message_chunk, …thought_chunk    one message of the assistant for all that follow each other: text, thinking
//	tool_call                              message of the assistant: toolCall
//	tool_call_update, completed or failed  message of the role toolResult
//	plan                                   custom_message, shown
//	session/request_permission, its answer custom_message "acp_permission", shown: a prompt, and how it was settled
//	current_mode_update, a mode set        mode_change
//	session_info_update with a title       title_change
//	answer to session/prompt               the last message of the assistant, with a stopReason
//	all else of a session                  custom: messages that follow each other in one
//
// Of mcpServers, and of the environment of a terminal, names alone are kept: headers and values hold secrets.

// session is one of the editor's, and what of it is not written yet.
type session struct {
	id    string // as the editor has it
	agent string // as the agent has it
	log   string // as Spool has it

	prompts int    // that have no answer yet
	muted   bool   // what the agent says now, the log has: it loads the session
	preface []byte // what a prompt begins with, until the agent has answered one

	piece   string // kind of the message that is being written; "" for none
	of      string // its messageId
	said    []byte // its text so far
	remarks []byte // what it is made of: elements of "acp"
	hold    *time.Timer

	calls   map[string]*call // of this turn
	waiting []prompt         // permissions that the agent waits for
	entries [][]byte         // made, and not given to the log
}

// call is a call of a tool.
type call struct {
	name    string
	content []byte // the newest that was said of its content
	ended   bool
}

// prompt is a permission that is asked.
type prompt struct{ request, id string }

// Kinds of piece.
const (
	pieceText     = "text"
	pieceThinking = "thinking"
	pieceUser     = "user"
	pieceOther    = "other"
)

// mostPiece is how many bytes of messages one entry joins.
const mostPiece = 256 << 10

func remark(from string, m []byte) []byte {
	return slices.Concat([]byte(`{"from":"`+from+`","message":`), m, []byte("}"))
}

// add makes an entry. members begin with a comma.
func (s *session) add(typ string, members []byte, remarks []byte, now time.Time) {
	e := fmt.Appendf(nil, `{"type":%q,"id":%q,"timestamp":%q`, typ, strings.ToLower(ulid.Make().String()), sessions.FormatTime(now))
	e = append(e, members...)
	if len(remarks) > 0 {
		e = slices.Concat(e, []byte(`,"acp":[`), remarks, []byte("]"))
	}
	s.entries = append(s.entries, append(e, '}'))
}

func (s *session) message(members, remarks []byte, now time.Time) {
	s.add(sessions.TypeMessage, slices.Concat([]byte(`,"message":{`), members, []byte("}")), remarks, now)
}

// shown makes an entry that people see and that is no message of either side. members begin with a comma.
func (s *session) shown(kind, text string, members, remarks []byte, now time.Time) {
	s.add(sessions.TypeCustomMessage, slices.Concat([]byte(`,"customType":`), quoted(kind), []byte(`,"content":`), quoted(text),
		[]byte(`,"display":true`), members), remarks, now)
}

// join adds to the piece that is being written, or begins another one.
func (s *session) join(piece, of, text, from string, m []byte, now time.Time) {
	if s.piece != piece || s.of != of || len(s.said)+len(s.remarks) > mostPiece {
		s.close("", "", now)
	}
	s.piece, s.of = piece, of
	s.said = append(s.said, text...)
	if len(s.remarks) > 0 {
		s.remarks = append(s.remarks, ',')
	}
	s.remarks = append(s.remarks, remark(from, m)...)
}

// close writes the piece that is being written. With a stop reason it is the last one of a turn.
func (s *session) close(stop, failure string, now time.Time) {
	piece, said, remarks := s.piece, s.said, s.remarks
	s.piece, s.of, s.said, s.remarks = "", "", nil, nil
	var content []byte
	switch piece {
	case pieceText:
		content = slices.Concat([]byte(`[{"type":"text","text":`), quoted(string(said)), []byte("}]"))
	case pieceThinking:
		content = slices.Concat([]byte(`[{"type":"thinking","thinking":`), quoted(string(said)), []byte("}]"))
	case pieceUser:
		s.message(slices.Concat([]byte(`"role":"user","content":`), quoted(string(said))), remarks, now)
	case pieceOther:
		s.other(remarks, now)
	}
	if piece != pieceText && piece != pieceThinking {
		return
	}
	s.message(slices.Concat([]byte(`"role":"assistant","content":`), content, stopped(stop, failure)), remarks, now)
}

// stopped are the members that say why a turn ended; none if it did not.
func stopped(stop, failure string) (members []byte) {
	if stop != "" {
		members = append(append(members, `,"stopReason":`...), quoted(stop)...)
	}
	if failure != "" {
		members = append(append(members, `,"errorMessage":`...), quoted(failure)...)
	}
	return members
}

func (s *session) other(remarks []byte, now time.Time) {
	s.add(sessions.TypeCustom, []byte(`,"customType":"acp"`), remarks, now)
}

// heard takes what has no meaning of its own in a session.
func (s *session) heard(from string, m message, now time.Time) {
	s.join(pieceOther, "", "", from, withoutValues(m), now)
}

// begin makes the header. made are the messages that the session began with.
func (s *session) begin(cwd string, made []byte, now time.Time) {
	h := sessions.Header{Version: sessions.Version, ID: s.log, Timestamp: sessions.FormatTime(now), Cwd: cwd}
	s.entries = append(s.entries, with(h.JSON(), slices.Concat([]byte("["), made, []byte("]")), "acp"))
}

// prompt takes a session/prompt.
func (s *session) prompt(m message, now time.Time) {
	s.close("", "", now)
	s.prompts++
	clear(s.calls)
	s.message(slices.Concat([]byte(`"role":"user","content":`), blocks(jsonscan.Get(m.params, "prompt"))), remark(ofEditor, m.line), now)
}

// stops are the reasons of the protocol as entries have them.
var stops = map[string]string{
	"end_turn": "stop", "max_tokens": "length", "max_turn_requests": "stop", "cancelled": "aborted", "refusal": "error",
}

// answered takes the answer to a session/prompt.
func (s *session) answered(m message, now time.Time) {
	s.prompts = max(0, s.prompts-1)
	s.giveUp(now)
	reason := text(m.result, "stopReason")
	stop, failure := stops[reason], ""
	switch {
	case m.error != nil:
		stop, failure = "error", text(m.error, "message")
		if failure == "" {
			failure = string(m.error)
		}
	case stop == "":
		stop = "stop"
	case stop == "error":
		failure = "the agent refused to go on"
	}
	s.ended(stop, failure, remark(ofAgent, m.line), now)
}

// ended ends a turn.
func (s *session) ended(stop, failure string, last []byte, now time.Time) {
	if s.piece == pieceText || s.piece == pieceThinking {
		if len(last) > 0 {
			s.remarks = slices.Concat(s.remarks, []byte(","), last)
		}
		s.close(stop, failure, now)
	} else {
		s.close("", "", now)
		s.message(slices.Concat([]byte(`"role":"assistant","content":[]`), stopped(stop, failure)), last, now)
	}
}

// update takes a session/update.
func (s *session) update(m message, now time.Time) {
	u := jsonscan.Get(m.params, "update")
	switch kind := text(u, "sessionUpdate"); kind {
	case "agent_message_chunk":
		s.chunk(pieceText, u, m, now)
	case "agent_thought_chunk":
		s.chunk(pieceThinking, u, m, now)
	case "user_message_chunk":
		if s.prompts > 0 { // the agent repeats what it was asked
			s.heard(ofAgent, m, now)
			return
		}
		s.chunk(pieceUser, u, m, now)
	case "tool_call", "tool_call_update":
		s.tool(u, m, now)
	case "plan":
		s.close("", "", now)
		s.shown("acp_plan", plan(u), nil, remark(ofAgent, m.line), now)
	case "current_mode_update":
		s.mode(text(u, "currentModeId"), remark(ofAgent, m.line), now)
	case "session_info_update":
		title := text(u, "title")
		if title == "" {
			s.heard(ofAgent, m, now)
			return
		}
		s.close("", "", now)
		s.add(sessions.TypeTitleChange, slices.Concat([]byte(`,"title":`), quoted(title), []byte(`,"source":"auto"`)),
			remark(ofAgent, m.line), now)
	default:
		s.heard(ofAgent, m, now)
	}
}

func (s *session) mode(id string, remarks []byte, now time.Time) {
	s.close("", "", now)
	s.add(sessions.TypeModeChange, slices.Concat([]byte(`,"mode":`), quoted(id)), remarks, now)
}

func (s *session) chunk(piece string, u []byte, m message, now time.Time) {
	s.join(piece, text(u, "messageId"), plain(jsonscan.Get(u, "content")), ofAgent, m.line, now)
}

// tool takes what is said of a call.
func (s *session) tool(u []byte, m message, now time.Time) {
	id := text(u, "toolCallId")
	begun := s.calls[id] == nil && s.begins(u, m, now)
	c := s.calls[id]
	if c == nil || c.ended {
		s.heard(ofAgent, m, now)
		return
	}
	if content := jsonscan.Get(u, "content"); jsonscan.KindOf(content) == jsonscan.KindArray && len(content) > len("[]") {
		c.content = content
	}
	remarks, status := remark(ofAgent, m.line), text(u, "status")
	if begun {
		remarks = nil // they are with the call
	}
	switch {
	case status == "completed", status == "failed":
		s.close("", "", now)
		s.message(slices.Concat([]byte(`"role":"toolResult","toolCallId":`), quoted(id), []byte(`,"toolName":`), quoted(c.name),
			[]byte(`,"content":`), results(c.content, jsonscan.Get(u, "rawOutput")),
			[]byte(`,"isError":`), strconv.AppendBool(nil, status == "failed")), remarks, now)
		c.ended, c.content = true, nil
	case !begun:
		s.heard(ofAgent, m, now)
	}
}

// begins makes the entry of a call that is told of for the first time, unless too little is told: then it is not known to be one.
func (s *session) begins(u []byte, m message, now time.Time) bool {
	if text(u, "title") == "" && text(u, "kind") == "" {
		return false
	}
	if s.calls == nil {
		s.calls = map[string]*call{}
	}
	c := &call{name: nameOf(u)}
	s.calls[text(u, "toolCallId")] = c
	s.close("", "", now)
	s.message(slices.Concat([]byte(`"role":"assistant","content":[{"type":"toolCall","id":`), quoted(text(u, "toolCallId")),
		[]byte(`,"name":`), quoted(c.name), []byte(`,"arguments":`), arguments(u), []byte("}]")), remark(ofAgent, m.line), now)
	return true
}

// nameOf is what a tool is called: few agents say a name, and then it is the kind.
func nameOf(u []byte) string {
	for _, key := range []string{"name", "kind"} {
		if name := text(u, key); name != "" {
			return name
		}
	}
	return "tool"
}

// arguments are what a call was made with, and its title, which says it to a person.
func arguments(u []byte) []byte {
	args := jsonscan.Get(u, "rawInput")
	switch {
	case args == nil:
		args = []byte("{}")
	case jsonscan.KindOf(args) != jsonscan.KindObject:
		args = slices.Concat([]byte(`{"input":`), args, []byte("}"))
	}
	if title := jsonscan.Get(u, "title"); title != nil && jsonscan.Get(args, "title") == nil {
		args = with(args, title, "title")
	}
	if at := jsonscan.Get(u, "locations"); at != nil && jsonscan.Get(args, "locations") == nil {
		args = with(args, at, "locations")
	}
	return args
}

// blocks are contents of the protocol as those of a message: texts, pictures, and what links and resources say.
func blocks(content []byte) []byte {
	out := []byte("[")
	_ = jsonscan.Array(content, func(block []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, asBlock(block)...)
		return true
	})
	return append(out, ']')
}

func asBlock(block []byte) []byte {
	if text(block, "type") == "image" && text(block, "data") != "" {
		return slices.Concat([]byte(`{"type":"image","data":`), jsonscan.Get(block, "data"), []byte(`,"mimeType":`),
			quoted(text(block, "mimeType")), []byte("}"))
	}
	return slices.Concat([]byte(`{"type":"text","text":`), quoted(plain(block)), []byte("}"))
}

// plain is a content as text.
func plain(block []byte) string {
	switch kind := text(block, "type"); kind {
	case "text":
		return text(block, "text")
	case "resource_link":
		return "[" + text(block, "name") + "](" + text(block, "uri") + ")"
	case "resource":
		if s := text(block, "resource", "text"); s != "" {
			return text(block, "resource", "uri") + "\n" + s
		}
		return "[" + text(block, "resource", "uri") + "]"
	default:
		return "[" + kind + "]"
	}
}

// results are what a call gave: its content, or else its raw output.
func results(content, raw []byte) []byte {
	out := []byte("[")
	add := func(block []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, block...)
	}
	said := func(s string) { add(slices.Concat([]byte(`{"type":"text","text":`), quoted(s), []byte("}"))) }
	_ = jsonscan.Array(content, func(c []byte) bool {
		switch text(c, "type") {
		case "content":
			add(asBlock(jsonscan.Get(c, "content")))
		case "diff":
			said(text(c, "path") + "\n" + text(c, "newText"))
		default:
			said("[" + text(c, "type") + " " + text(c, "terminalId") + "]")
		}
		return true
	})
	if len(out) == 1 && raw != nil {
		s, ok := jsonscan.Text(raw)
		if !ok {
			s = string(raw)
		}
		said(s)
	}
	return append(out, ']')
}

// plan is a plan as people write one.
func plan(u []byte) string {
	var b strings.Builder
	b.WriteString("Plan")
	_ = jsonscan.Array(jsonscan.Get(u, "entries"), func(e []byte) bool {
		mark := map[string]string{"completed": "x", "in_progress": ">"}[text(e, "status")]
		if mark == "" {
			mark = " "
		}
		fmt.Fprintf(&b, "\n[%s] %s", mark, text(e, "content"))
		return true
	})
	return b.String()
}

// asked takes a session/request_permission.
func (s *session) asked(m message, now time.Time) {
	var names []string
	_ = jsonscan.Array(jsonscan.Get(m.params, "options"), func(o []byte) bool {
		names = append(names, text(o, "name"))
		return true
	})
	u := jsonscan.Get(m.params, "toolCall")
	what := text(u, "title")
	if what == "" {
		what = text(u, "toolCallId")
	}
	remarks := remark(ofAgent, m.line)
	if s.calls[text(u, "toolCallId")] == nil && s.begins(u, m, now) { // some agents tell of a call here first
		remarks = nil
	}
	s.close("", "", now)
	s.allowed(string(m.id), "", "", nil, now) // an agent that asks again under the id does not wait for the other answer
	q := prompt{string(m.id), strings.ToLower(ulid.Make().String())}
	s.waiting = append(s.waiting, q)
	options := jsonscan.Get(m.params, "options")
	if options == nil {
		options = []byte("null")
	}
	s.shown("acp_permission", fmt.Sprintf("Permission asked: %s (%s)", what, strings.Join(names, ", ")),
		slices.Concat(q.open(), []byte(`,"options":`), options, []byte("}}")), remarks, now)
}

// open are the members of an entry about a prompt, up to what stands in its braces beside its id.
func (q prompt) open() []byte {
	return slices.Concat([]byte(`,"details":{"prompt":{"id":`), quoted(q.id), []byte(`,"kind":"approval"`))
}

// answer takes the answer to a request_permission, of which asked is the params.
func (s *session) answer(m message, asked []byte, now time.Time) {
	chosen := text(m.result, "outcome", "optionId")
	kind := ""
	_ = jsonscan.Array(jsonscan.Get(asked, "options"), func(o []byte) bool {
		if chosen == "" || text(o, "optionId") != chosen {
			return true
		}
		chosen, kind = cmp.Or(text(o, "name"), chosen), text(o, "kind")
		return false
	})
	if !s.allowed(string(m.id), chosen, kind, remark(ofEditor, m.line), now) { // its turn is over
		s.heard(ofEditor, m, now)
	}
}

// allowed settles the prompt of a request, if it waits, with the name and kind of the option that was chosen, "" if none was.
func (s *session) allowed(request, chosen, kind string, remarks []byte, now time.Time) bool {
	i := slices.IndexFunc(s.waiting, func(q prompt) bool { return q.request == request })
	if i < 0 {
		return false
	}
	q := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.close("", "", now)
	s.settle(q, chosen, kind, remarks, now)
	return true
}

func (s *session) settle(q prompt, chosen, kind string, remarks []byte, now time.Time) {
	outcome := events.OutcomeDenied
	switch {
	case strings.HasPrefix(kind, "allow"):
		outcome = events.OutcomeApproved
	case chosen != "" && !strings.HasPrefix(kind, "reject"): // nobody says which
		outcome = events.OutcomeAnswered
	}
	chosen = cmp.Or(chosen, "none was given")
	s.shown("acp_permission", "Permission: "+chosen, slices.Concat(q.open(), []byte(`},"resolution":{"outcome":"`+outcome+`","answer":`),
		quoted(chosen), []byte("}}")), remarks, now)
}

// giveUp settles what nobody waits for any more.
func (s *session) giveUp(now time.Time) {
	if len(s.waiting) > 0 {
		s.close("", "", now)
	}
	for _, q := range s.waiting {
		s.settle(q, "", "", nil, now)
	}
	s.waiting = nil
}

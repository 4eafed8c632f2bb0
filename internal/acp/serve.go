package acp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// A session that is loaded or resumed is the agent's own, if it offers that and knows the session. Else it is served from the log: load
// repeats the conversation to the editor; then the agent is asked for a new session, whose id the editor never sees, and the first prompt
// there begins with what was said, as text. So it can go on in an agent that has not its history, as far as text tells it.

// serveWithin is how long the log, and the agent, may take for a session.
const serveWithin = time.Minute

// mostPreface is how much of what was said the agent is told, in bytes; the newest of it.
const mostPreface = 96 << 10

// Codes of errors.
const (
	codeNotFound = -32002
	codeInternal = -32603
)

// logName is what Spool calls a session of the editor. Bytes that no name has are _ and two hexadecimal digits, so that it leads back.
func (p *Proxy) logName(id string) string {
	b := []byte(p.prefix())
	for i := range len(id) {
		if c := id[i]; c != '_' && events.CheckToken("", id[i:i+1]) == nil {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "_%02x", c)
		}
	}
	if len(b) > events.MaxToken { // the list leaves it out
		sum := sha256.Sum256([]byte(id))
		return p.prefix() + "_sha256" + hex.EncodeToString(sum[:16])
	}
	return string(b)
}

// editorID is the id whose logName a name is.
func (p *Proxy) editorID(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, p.prefix())
	var id []byte
	for i := 0; i < len(rest); i++ {
		if rest[i] != '_' {
			id = append(id, rest[i])
			continue
		}
		if i+2 >= len(rest) {
			return "", false
		}
		c, err := strconv.ParseUint(rest[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		id, i = append(id, byte(c)), i+2
	}
	return string(id), ok && len(id) > 0
}

// serves answers a request of the editor itself, if the agent cannot.
func (p *Proxy) serves(m message) bool {
	if !p.serving || p.offers[m.method] {
		return false
	}
	switch m.method {
	case "session/load", "session/resume":
		if m.session() == "" {
			return false
		}
		go p.serve(request{m, p.session(m.session())}, nil)
	case "session/list":
		go p.list(m, nil, nil)
	default:
		return false
	}
	return true
}

// loads notes that the agent is asked for a session of its own: what it repeats of it, the log has already, unless it is known to have
// nothing of the session.
func (p *Proxy) loads(s *session, m message) {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	err := p.cfg.Log.Lines(ctx, s.log, func([]byte) error { return errStop })
	if err == nil || errors.Is(err, errStop) {
		left, err := p.cfg.Log.Waiting(ctx, s.log)
		p.settleLeft(s, left, err)
	}
	s.muted = !errors.Is(err, ErrNoSession)
	if !s.muted {
		p.begin(s, m, message{line: []byte("null")})
	}
}

// settleLeft settles the permissions that waited when a recorder was killed: the session is loaded, and goes on without.
func (p *Proxy) settleLeft(s *session, left []string, err error) {
	if err != nil {
		p.warn(fmt.Errorf("permissions of session %s may wait for ever: %w", s.log, err))
	}
	p.record(s, func(s *session) {
		for _, id := range left {
			if !slices.ContainsFunc(s.waiting, func(q prompt) bool { return q.id == id }) {
				s.settle(prompt{id: id}, "", "", nil, time.Now())
			}
		}
	})
}

var errStop = errors.New("enough")

// loaded takes the agent's answer to a load or resume.
func (p *Proxy) loaded(asked request, m message, line []byte) []byte {
	s := asked.session
	had := s.muted
	s.muted = false
	if m.error != nil && had && p.serving {
		go p.serve(asked, line)
		return nil
	}
	p.record(s, func(s *session) {
		s.close("", "", time.Now())
		s.heard(ofAgent, m, time.Now())
	})
	return line
}

// serve gives a session from the log, and has it go on in a new one of the agent. refused is what the agent answered, if it was asked.
func (p *Proxy) serve(asked request, refused []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), serveWithin)
	defer cancel()
	said := transcript{}
	err := p.cfg.Log.Lines(ctx, asked.session.log, func(line []byte) error {
		said.add(line)
		if asked.method != "session/load" {
			return nil
		}
		for _, update := range replayed(asked.session.id, line) {
			if err := p.editor.line(update); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrNoSession) && refused != nil:
		_ = p.editor.line(refused)
		return
	case errors.Is(err, ErrNoSession):
		p.refuse(asked.message, codeNotFound, "neither the agent nor Spool has the session "+asked.session.id)
		return
	case err != nil:
		p.refuse(asked.message, codeInternal, "the session is not read from Spool: "+err.Error())
		return
	}
	left, err := p.cfg.Log.Waiting(ctx, asked.session.log)
	p.mu.Lock()
	p.settleLeft(asked.session, left, err)
	p.mu.Unlock()
	m, err := p.ask(ctx, "session/new", without(asked.params, "sessionId"), asked.session)
	switch {
	case err != nil:
		p.refuse(asked.message, codeInternal, "the agent began no session to go on in: "+err.Error())
	case m.error != nil:
		_ = p.editor.line(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), asked.id, []byte(`,"error":`), m.error, []byte("}")))
	default:
		p.mu.Lock()
		asked.session.preface = said.preface()
		p.mu.Unlock()
		p.answer(asked.message, without(m.result, "sessionId"))
	}
}

// goesOn notes the session of the agent in which one of the editor goes on.
func (p *Proxy) goesOn(s *session, m message) {
	id := text(m.result, "sessionId")
	delete(p.other, s.agent)
	s.agent = id
	if id != s.id {
		p.other[id] = s
	}
	p.record(s, func(s *session) { s.heard(ofAgent, m, time.Now()) })
}

// ask has the agent answer a request of ours.
func (p *Proxy) ask(ctx context.Context, method string, params []byte, s *session) (message, error) {
	to := make(chan message, 1)
	p.mu.Lock()
	p.owned++
	id := quoted("spool-" + strconv.Itoa(p.owned))
	p.own[string(id)] = to
	p.asked[string(id)] = request{session: s}
	p.mu.Unlock()
	if err := p.agent.line(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"method":`), quoted(method), []byte(`,"params":`),
		params, []byte("}"))); err != nil {
		return message{}, err
	}
	select {
	case m := <-to:
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

func (p *Proxy) answer(asked message, result []byte) {
	_ = p.editor.line(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), asked.id, []byte(`,"result":`), result, []byte("}")))
}

func (p *Proxy) refuse(asked message, code int, why string) {
	_ = p.editor.line(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), asked.id,
		fmt.Appendf(nil, `,"error":{"code":%d,"message":%s}}`, code, quoted(why))))
}

// addListed adds the log's sessions to the last page of the agent's own, and leaves out those that the editor has under another id.
func (p *Proxy) addListed(asked, m message) []byte {
	if text(asked.params, "cursor") == "" {
		clear(p.listed)
	}
	rows, hidden := []byte("["), false
	_ = jsonscan.Array(jsonscan.Get(m.result, "sessions"), func(one []byte) bool {
		id := text(one, "sessionId")
		p.listed[id] = true
		if p.other[id] != nil {
			hidden = true
			return true
		}
		if len(rows) > 1 {
			rows = append(rows, ',')
		}
		rows = append(rows, one...)
		return true
	})
	line := m.line
	if hidden {
		line = with(line, append(rows, ']'), "result", "sessions")
	}
	if text(m.result, "nextCursor") != "" {
		return line
	}
	go p.list(asked, maps.Clone(p.listed), line)
	return nil
}

// list answers session/list from the log, behind what the agent answered, if it did. known are sessions that are not listed.
func (p *Proxy) list(asked message, known map[string]bool, answered []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), durableWithin)
	defer cancel()
	p.mu.Lock()
	prefix := p.prefix()
	p.mu.Unlock()
	all, err := p.cfg.Log.Sessions(ctx, prefix)
	if err != nil && answered == nil {
		p.refuse(asked, codeInternal, "sessions are not read from Spool: "+err.Error())
		return
	}
	cwd := text(asked.params, "cwd")
	var rows []byte
	for _, r := range all {
		id, ok := p.editorID(r.Name)
		if !ok || known[id] || r.Cwd == "" || cwd != "" && r.Cwd != cwd {
			continue
		}
		if len(rows) > 0 {
			rows = append(rows, ',')
		}
		rows = slices.Concat(rows, []byte(`{"sessionId":`), quoted(id), []byte(`,"cwd":`), quoted(r.Cwd), []byte(`,"title":`), quoted(r.Title),
			[]byte(`,"updatedAt":`), quoted(sessions.FormatTime(r.Updated)), []byte("}"))
	}
	if answered == nil {
		p.answer(asked, slices.Concat([]byte(`{"sessions":[`), rows, []byte("]}")))
		return
	}
	if at, end, ok := find(answered, 0, "result", "sessions"); ok && len(rows) > 0 && answered[at] == '[' {
		had := bytes.TrimSpace(answered[at+1 : end-1])
		if len(had) > 0 {
			had = append(had[:len(had):len(had)], ',')
		}
		answered = slices.Concat(answered[:at+1], had, rows, answered[end-1:])
	}
	_ = p.editor.line(answered)
}

// without is an object without a member.
func without(object []byte, name string) []byte {
	out := []byte("{")
	_ = jsonscan.Object(object, func(key, value []byte) bool {
		if string(key) != name {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = slices.Concat(out, quoted(string(key)), []byte(":"), value)
		}
		return true
	})
	return append(out, '}')
}

// prefaced is a session/prompt whose prompt begins with a text.
func prefaced(line, preface []byte) []byte {
	at, end, ok := find(line, 0, "params", "prompt")
	if !ok || line[at] != '[' {
		return line
	}
	rest := bytes.TrimSpace(line[at+1 : end])
	comma := ","
	if rest[0] == ']' {
		comma = ""
	}
	return slices.Concat(line[:at], []byte(`[{"type":"text","text":`), quoted(string(preface)), []byte("}"+comma), rest, line[end:])
}

// ofTheState are updates that tell how a session of the agent is, not what was said: those of another one are none of its own.
var ofTheState = map[string]bool{
	"available_commands_update": true, "current_mode_update": true, "config_option_update": true, "usage_update": true,
}

// replayed are the updates with which an editor is told what an entry holds.
func replayed(session string, entry []byte) (updates [][]byte) {
	send := func(update []byte) {
		updates = append(updates, slices.Concat([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), quoted(session),
			[]byte(`,"update":`), update, []byte("}}")))
	}
	update := func(kind string, content []byte) {
		send(slices.Concat([]byte(`{"sessionUpdate":"`+kind+`","content":`), content, []byte("}")))
	}
	typ, acp := text(entry, "type"), jsonscan.Get(entry, "acp")
	if acp == nil && typ == sessions.TypeMessage { // somebody else wrote it
		for _, block := range contents(jsonscan.Get(entry, "message", "content")) {
			switch text(entry, "message", "role") + text(block, "type") {
			case "usertext", "userimage":
				update("user_message_chunk", block)
			case "assistanttext":
				update("agent_message_chunk", block)
			}
		}
	}
	_ = jsonscan.Array(acp, func(one []byte) bool {
		m := jsonscan.Get(one, "message")
		switch kind := text(m, "params", "update", "sessionUpdate"); {
		case text(m, "method") == "session/prompt":
			_ = jsonscan.Array(jsonscan.Get(m, "params", "prompt"), func(block []byte) bool {
				update("user_message_chunk", block)
				return true
			})
		case text(m, "method") == "session/request_permission" && typ == sessions.TypeMessage: // it told of its call first
			send(with(jsonscan.Get(m, "params", "toolCall"), []byte(`"tool_call"`), "sessionUpdate"))
		case text(m, "method") != "session/update" || ofTheState[kind], kind == "user_message_chunk" && typ == sessions.TypeCustom:
		default:
			updates = append(updates, with(m, quoted(session), "params", "sessionId"))
		}
		return true
	})
	return updates
}

// contents are the blocks of a message.
func contents(content []byte) (blocks [][]byte) {
	if s, ok := jsonscan.Text(content); ok {
		return [][]byte{slices.Concat([]byte(`{"type":"text","text":`), quoted(s), []byte("}"))}
	}
	_ = jsonscan.Array(content, func(block []byte) bool {
		blocks = append(blocks, block)
		return true
	})
	return blocks
}

// transcript is what was said, as text, the newest of it.
type transcript struct{ text []byte }

// mostResult is how much of what a tool gave stands in a transcript, in bytes.
const mostResult = 2 << 10

func (t *transcript) add(entry []byte) {
	if text(entry, "type") != sessions.TypeMessage {
		return
	}
	role := text(entry, "message", "role")
	for _, block := range contents(jsonscan.Get(entry, "message", "content")) {
		switch kind := text(block, "type"); {
		case kind == "toolCall":
			t.say("Tool call", text(block, "name")+" "+string(jsonscan.Get(block, "arguments")), mostResult)
		case kind != "text":
		case role == "user":
			t.say("User", text(block, "text"), mostPreface)
		case role == "assistant":
			t.say("Agent", text(block, "text"), mostPreface)
		case role == "toolResult":
			t.say("Tool result", text(block, "text"), mostResult)
		}
	}
}

func (t *transcript) say(who, what string, most int) {
	if what == "" {
		return
	}
	if len(what) > most {
		what = strings.ToValidUTF8(what[:most], "") + " …"
	}
	t.text = append(t.text, who+": "+what+"\n\n"...)
	if len(t.text) > 2*mostPreface {
		t.text = slices.Clone(t.text[len(t.text)-mostPreface:])
	}
}

// preface is what the agent is told; nil if nothing was said.
func (t *transcript) preface() []byte {
	said := t.text
	if len(said) == 0 {
		return nil
	}
	if len(said) > mostPreface {
		said = append([]byte("…"), bytes.ToValidUTF8(said[len(said)-mostPreface:], nil)...)
	}
	return slices.Concat([]byte("This conversation goes on from an earlier session, which you do not remember. "+
		"It was recorded; this is what was said and done:\n\n<conversation>\n"), said, []byte("</conversation>\n\nThe user goes on:\n"))
}

package acp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// holdFor is how long what an agent streams may be in memory alone.
const holdFor = 5 * time.Second

// lookWithin is how long the log may take to say whether it has a session.
const lookWithin = 2 * time.Second

// durableWithin is how long a message waits for what must be durable before it.
const durableWithin = 10 * time.Second

// Log is where sessions are kept.
type Log interface {
	// Publish takes an entry; it returns before that is durable. Entries of a session are in the order of the calls.
	Publish(ctx context.Context, session string, entry []byte) error
	// Flush returns when all that was taken is durable: on a server, or on this machine's disk.
	Flush(ctx context.Context) error
	// Sessions lists the sessions whose names begin so, the newest first.
	Sessions(ctx context.Context, prefix string) ([]Recorded, error)
	// Lines gives the entries of a session, in order. ErrNoSession: there is none.
	Lines(ctx context.Context, session string, take func(line []byte) error) error
	// Waiting gives the ids of the prompts of a session that nobody settled.
	Waiting(ctx context.Context, session string) ([]string, error)
}

// ErrNoSession: the log has no session of that name.
var ErrNoSession = errors.New("no such session in the log")

// Recorded is a session that the log has.
type Recorded struct {
	Name, Cwd, Title string
	Updated          time.Time
}

// Config says what a Proxy stands between. All but Warn must be given.
type Config struct {
	Log     Log
	Command string                             // what the agent is called if it does not say so itself
	Name    string                             // what it is called whatever it says; "": what it says
	Editor  io.Writer                          // what the editor reads
	Agent   io.WriteCloser                     // what the agent reads
	Warn    func(format string, values ...any) // told of what is not recorded
}

// Proxy is a conversation. FromEditor, End and FromAgent are called by one goroutine each.
type Proxy struct {
	cfg             Config
	editor, agent   output
	asking, telling lines // what the editor, and the agent, writes

	mu      sync.Mutex
	name    string              // of the agent, as sessions have it
	begun   []byte              // what the agent answered to initialize
	offers  map[string]bool     // methods that the agent itself has
	serving bool                // sessions are served from the log
	all     map[string]*session // by the editor's id
	other   map[string]*session // by the agent's id, of those for which that is another one
	asked   map[string]request  // of the editor, without an answer, by the raw text of the id
	wanted  map[string]request  // of the agent
	own     map[string]chan message
	owned   int
	listed  map[string]bool // sessions of the agent's own list so far
	warned  string
}

// request waits for its answer.
type request struct {
	message
	session *session
}

// output is written to a line at a time.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.w.Write(b)
	return err
}

// line writes a line; nil is none.
func (o *output) line(b []byte) error {
	if b == nil {
		return nil
	}
	return o.write(append(b[:len(b):len(b)], '\n'))
}

// New makes a proxy.
func New(cfg Config) *Proxy {
	p := &Proxy{
		cfg: cfg, editor: output{w: cfg.Editor}, agent: output{w: cfg.Agent}, name: cfg.Command, offers: map[string]bool{},
		all: map[string]*session{}, other: map[string]*session{}, asked: map[string]request{}, wanted: map[string]request{},
		own: map[string]chan message{}, listed: map[string]bool{},
	}
	if cfg.Name != "" {
		p.name = cfg.Name
	}
	p.asking = lines{take: p.fromEditor, pass: p.agent.write, unread: func(why string) { p.unread(ofEditor, why) }}
	p.telling = lines{take: p.fromAgent, pass: p.editor.write, unread: func(why string) { p.unread(ofAgent, why) }}
	return p
}

// unread tells of a line that passes without being recorded.
func (p *Proxy) unread(from, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warn(fmt.Errorf("a line of the %s %s", from, why))
}

// FromEditor copies what the editor writes to the agent, until it ends.
func (p *Proxy) FromEditor(r io.Reader) error {
	_, err := io.Copy(&p.asking, r)
	return errors.Join(err, p.asking.end(), p.cfg.Agent.Close())
}

// Write takes what the agent writes.
func (p *Proxy) Write(b []byte) (int, error) { return p.telling.Write(b) }

// End writes what is not written when the agent has ended, with a reason for turns that have no end.
func (p *Proxy) End(failure string) error {
	err := p.telling.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		s.giveUp(time.Now())
		if s.prompts > 0 {
			s.ended("error", failure, nil, time.Now())
		}
		s.close("", "", time.Now())
		p.publish(s)
	}
	p.durable()
	return err
}

// noMessage is why nothing is read of what is no JSON, nested too deep, or several messages at once, which the protocol has not.
const noMessage = "that is no message"

func (p *Proxy) fromEditor(line []byte) error {
	if m, ok := parse(line); ok {
		line = p.editorSaid(m, line)
	} else if len(bytes.TrimSpace(line)) > 0 {
		p.unread(ofEditor, noMessage)
	}
	return p.agent.line(line)
}

func (p *Proxy) fromAgent(line []byte) error {
	if m, ok := parse(line); ok {
		line = p.agentSaid(m, line)
	} else if len(bytes.TrimSpace(line)) > 0 {
		p.unread(ofAgent, noMessage)
	}
	return p.editor.line(line)
}

// editorSaid takes a message of the editor, and gives the line that the agent is to read; nil for none. Nothing is written to either side
// before it returns: who does not read would stop the other one, too.
func (p *Proxy) editorSaid(m message, line []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.isAnswer() {
		if asked, ok := p.wanted[string(m.id)]; ok {
			delete(p.wanted, string(m.id))
			p.record(asked.session, func(s *session) {
				if asked.method == "session/request_permission" {
					s.answer(m, asked.params, time.Now())
				} else {
					s.heard(ofEditor, m, time.Now())
				}
			})
		}
		return line
	}
	if m.isRequest() && p.serves(m) {
		return nil
	}
	s := p.of(m)
	if m.isRequest() {
		p.asked[string(m.id)] = request{m, s}
	}
	if s == nil {
		return line
	}
	switch m.method {
	case "session/prompt":
		p.record(s, func(s *session) { s.prompt(m, time.Now()) })
		p.durable()
		if s.preface != nil {
			line = prefaced(line, s.preface)
		}
	case "session/load", "session/resume": // the agent has it
		p.loads(s, m)
	default:
		p.record(s, func(s *session) { s.heard(ofEditor, m, time.Now()) })
	}
	if s.agent != s.id {
		m.line = line
		line = m.withSession(s.agent)
	}
	return line
}

// agentSaid is editorSaid for the other direction.
func (p *Proxy) agentSaid(m message, line []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.isAnswer() {
		return p.answered(m, line)
	}
	s := p.of(m)
	if s == nil {
		return line
	}
	if s.agent != s.id {
		line = m.withSession(s.id)
		m, _ = parse(line) // one value changed for another
	}
	if m.isRequest() {
		p.wanted[string(m.id)] = request{m, s}
	}
	p.record(s, func(s *session) {
		switch {
		case m.method == "session/update":
			s.update(m, time.Now())
		case m.method == "session/request_permission" && m.isRequest():
			s.asked(m, time.Now())
		default:
			s.heard(ofAgent, m, time.Now())
		}
	})
	return line
}

// answered takes an answer of the agent.
func (p *Proxy) answered(m message, line []byte) []byte {
	if to, ok := p.own[string(m.id)]; ok {
		delete(p.own, string(m.id))
		if s := p.asked[string(m.id)].session; s != nil && m.error == nil {
			p.goesOn(s, m)
		}
		delete(p.asked, string(m.id))
		to <- m // there is room
		return nil
	}
	asked, ok := p.asked[string(m.id)]
	if !ok {
		return line
	}
	delete(p.asked, string(m.id))
	switch asked.method {
	case "initialize":
		return p.initialized(m, line)
	case "session/list":
		if m.error == nil && p.serving {
			return p.addListed(asked.message, m)
		}
	case "session/prompt":
		if m.error == nil && asked.session != nil {
			asked.session.preface = nil // the agent knows now
		}
		p.record(asked.session, func(s *session) { s.answered(m, time.Now()) })
		p.durable()
	case "session/load", "session/resume":
		return p.loaded(asked, m, line)
	default:
		if id := text(m.result, "sessionId"); id != "" { // session/new, and what is like it
			p.begin(p.session(id), asked.message, m)
			break
		}
		p.record(asked.session, func(s *session) {
			if asked.method == "session/set_mode" && m.error == nil {
				s.mode(text(asked.params, "modeId"), remark(ofAgent, m.line), time.Now())
			} else {
				s.heard(ofAgent, m, time.Now())
			}
		})
	}
	return line
}

// of is the session that a message is of; nil for none.
func (p *Proxy) of(m message) *session {
	id := m.session()
	if id == "" {
		return nil
	}
	if s := p.other[id]; s != nil {
		return s
	}
	return p.session(id)
}

func (p *Proxy) session(id string) *session {
	s := p.all[id]
	if s == nil {
		s = &session{id: id, agent: id, log: p.logName(id)}
		p.all[id] = s
	}
	return s
}

// begin writes the header of a session.
func (p *Proxy) begin(s *session, asked, m message) {
	made := slices.Concat(remark(ofEditor, withoutValues(asked)), []byte(","), remark(ofAgent, m.line))
	if p.begun != nil {
		made = slices.Concat(remark(ofAgent, p.begun), []byte(","), made)
	}
	p.record(s, func(s *session) { s.begin(text(asked.params, "cwd"), made, time.Now()) })
}

// record makes entries of a session, and gives them to the log.
func (p *Proxy) record(s *session, take func(*session)) {
	if s == nil || s.muted {
		return
	}
	take(s)
	p.publish(s)
	switch {
	case s.piece == "" && s.hold != nil:
		s.hold.Stop()
		s.hold = nil
	case s.piece != "" && s.hold == nil:
		s.hold = time.AfterFunc(holdFor, func() { p.held(s) })
	}
}

// held writes what has been in memory for long enough.
func (p *Proxy) held(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.hold = nil
	s.close("", "", time.Now())
	p.publish(s)
}

func (p *Proxy) publish(s *session) {
	if len(s.entries) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), durableWithin)
	defer cancel()
	for _, e := range s.entries {
		if err := p.cfg.Log.Publish(ctx, s.log, e); err != nil {
			p.warn(fmt.Errorf("session %s: %w", s.log, err))
			break
		}
	}
	s.entries = nil
}

// durable waits until the log has all that it was given.
func (p *Proxy) durable() {
	ctx, cancel := context.WithTimeout(context.Background(), durableWithin)
	defer cancel()
	if err := p.cfg.Log.Flush(ctx); err != nil {
		p.warn(err)
	}
}

// warn tells once of each thing that goes wrong.
func (p *Proxy) warn(err error) {
	if s := err.Error(); s != p.warned && p.cfg.Warn != nil {
		p.warned = s
		p.cfg.Warn("not recorded: %v", err)
	}
}

// prefix is what the names of an agent's sessions begin with.
func (p *Proxy) prefix() string {
	name := events.Token(p.name)
	return "acp-" + strings.ReplaceAll(name[:min(len(name), 40)], "-", "_") + "-"
}

// initialized takes the agent's answer to initialize, and says in it what the log adds.
func (p *Proxy) initialized(m message, line []byte) []byte {
	if m.error != nil {
		return line
	}
	p.begun = m.line
	if name := text(m.result, "agentInfo", "name"); name != "" && p.cfg.Name == "" {
		p.name = name
	}
	caps := jsonscan.Get(m.result, "agentCapabilities")
	load, _ := jsonscan.Bool(jsonscan.Get(caps, "loadSession"))
	p.offers["session/load"] = load
	for _, name := range []string{"list", "resume"} {
		p.offers["session/"+name] = jsonscan.KindOf(jsonscan.Get(caps, "sessionCapabilities", name)) == jsonscan.KindObject
	}
	if version, _ := jsonscan.Int(jsonscan.Get(m.result, "protocolVersion")); version != 1 {
		return line
	}
	p.serving = true
	for _, path := range [][]string{{"result", "agentCapabilities"}, {"result", "agentCapabilities", "sessionCapabilities"}} {
		if jsonscan.KindOf(jsonscan.Get(line, path...)) != jsonscan.KindObject {
			line = with(line, []byte("{}"), path...)
		}
	}
	if !load {
		line = with(line, []byte("true"), "result", "agentCapabilities", "loadSession")
	}
	for _, name := range []string{"list", "resume"} {
		if !p.offers["session/"+name] {
			line = with(line, []byte("{}"), "result", "agentCapabilities", "sessionCapabilities", name)
		}
	}
	return line
}

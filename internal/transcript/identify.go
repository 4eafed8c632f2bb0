package transcript

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Identity is what a file says it is.
type Identity struct {
	Dialect string        // of its lines, and the name of its harness
	Thread  events.Thread // where it goes, if it is the first source that does
	Agent   string        // of a subagent's file beside its session's: what the harness calls it; else empty
}

// ompDialect is the dialect of oh-my-pi.
const ompDialect = "omp"

// ErrNotTranscript is wrapped by the refusal of a file that no harness wrote.
var ErrNotTranscript = errors.New("not a transcript")

// ErrEmpty says that a file has no complete line yet.
var ErrEmpty = errors.New("no complete line")

// How far into a file its harness and session are looked for. Agents write both near the beginning.
const (
	lookRecords = 256
	lookBytes   = 32 << 20
)

// Identify reads the beginning of a file. force names the dialect when it is known; empty: it is detected.
func Identify(s Source, force string) (Identity, error) {
	if _, ok := dialect.Lookup(force); force != "" && !ok {
		return Identity{}, fmt.Errorf("unknown dialect %q: use one of %v", force, dialect.Names())
	}
	in, done, err := s.open(nil)
	if err != nil {
		return Identity{}, err
	}
	defer done()
	l := look{dialect: force, path: s.Path, subagent: inSubagents(s.Path)}
	l.named = l.subagent || strings.HasPrefix(path.Base(s.Path), "agent-")
	begun := true // what there is of a first line may become one
	for n := 0; n < lookRecords && in.at < lookBytes && !l.complete(); n++ {
		r, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Identity{}, fmt.Errorf("%s: %w", s.Path, err)
		}
		if r.giant != nil && !r.torn {
			if r.body, err = s.cut(r.giant, r.start); err != nil {
				return Identity{}, err
			}
		}
		if r.torn {
			begun = r.giant != nil || force != "" || bytes.HasPrefix(trim(r.body), []byte("{"))
			break
		}
		l.see(r)
	}
	switch {
	case l.header != nil && l.first != nil && (l.dialect == "omp" || l.dialect == "" && l.like):
		return Identity{}, fmt.Errorf("%s: %w", s.Path, l.header)
	case l.first == nil && begun:
		return Identity{}, ErrEmpty
	case l.dialect == "":
		return Identity{}, fmt.Errorf("%w: %s: no line of its first %d is one of Claude Code (sessionId, or uuid and parentUuid), "+
			"Codex (timestamp, type and payload), GitHub Copilot CLI (a session.start), Gemini CLI (sessionId and projectHash), Qwen Code (sessionId and message.parts), "+
			"opencode (its export: info and messages) or oh-my-pi (a session header); if you know what it is, name it with --dialect %s",
			ErrNotTranscript, s.Path, l.seen, strings.Join(dialect.Names(), "|"))
	}
	id := l.identity()
	if id.Dialect == ompDialect {
		l.nested(s, &id)
	}
	return id, nil
}

// Named is the session and thread that lines of a harness say they are of; false where they do not.
func Named(dialect string, lines ...[]byte) (events.Thread, bool) {
	l := look{dialect: dialect, named: true}
	for _, text := range lines {
		l.see(record{body: text, json: true})
	}
	return l.identity().Thread, l.session != ""
}

// nested tells whether a file lies in the folder of another session's artifacts, beside the file of that: then it is of one
// of its subagents (seed 000).
func (l *look) nested(s Source, id *Identity) {
	for _, e := range endings {
		parent := Source{FS: s.FS, Path: path.Dir(s.Path) + e}
		if info, err := fs.Stat(s.FS, parent.Path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if of, err := Identify(parent, ""); err == nil && of.Dialect == id.Dialect {
			id.Agent = stem(s.Path)
			id.Thread = events.Thread{Session: of.Thread.Session, Name: token(id.Agent)}
			return
		}
	}
}

// trim takes off what may stand around the JSON of a line (SPEC S6).
func trim(line []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))) }

// look is what is known of a file so far.
type look struct {
	path     string
	dialect  string
	session  string // as the file spells it
	agent    string // id of a subagent
	side     bool   // a line says that it belongs to a subagent
	subagent bool   // the folder says so
	named    bool   // the folder or the name says so
	first    []byte
	early    [][]byte // lines that came before the dialect was known
	seen     int

	begun  bool  // the first object behind a title slot was seen
	header error // why that is no header of oh-my-pi
	like   bool  // it could be one, or an entry
}

// complete tells whether the rest of the file can add nothing.
func (l *look) complete() bool {
	switch l.dialect {
	case "":
		return false
	case "claude", "qwen":
		return l.session != "" && l.first != nil && (l.agent != "" || !l.named)
	case "codex", "copilot", "gemini", "omp", "opencode":
		return l.session != "" && l.first != nil
	}
	return l.first != nil
}

func (l *look) see(r record) {
	text := trim(r.body)
	if r.part {
		return
	}
	l.seen++
	if len(text) == 0 {
		return
	}
	if bytes.IndexByte(text, '\n') >= 0 { // a pretty-printed object
		var one bytes.Buffer
		if json.Compact(&one, text) == nil {
			text = one.Bytes()
		}
	}
	slot := titleSlot(text)
	if l.first == nil && !slot {
		l.first = text
	}
	if r.json && !slot && !l.begun {
		l.begin(text, r.line)
	}
	if l.dialect == "" {
		l.early = append(l.early, text)
		name, ok := dialect.Detect([][]byte{text})
		if !ok {
			return
		}
		l.dialect = name
		for _, early := range l.early {
			l.read(early)
		}
		l.early = nil
		return
	}
	l.read(text)
}

// begin holds the first object against the rule that a session of oh-my-pi begins with its header (SPEC S6).
func (l *look) begin(text []byte, line int) {
	l.begun = true
	if _, err := sessions.ParseHeader(text); err != nil {
		l.header = fmt.Errorf("line %d: %w", line, err)
	}
	typ := member(text, "type")
	placed := jsonscan.Get(text, "parentId") != nil && member(text, "id") != "" && member(text, "timestamp") != ""
	l.like = typ == sessions.TypeHeader || typ != "" && placed
}

// titleSlot tells whether a line is the one that oh-my-pi rewrites in place (SPEC S1): it says nothing about the source.
func titleSlot(text []byte) bool {
	if jsonscan.Valid(text) != nil {
		return false
	}
	return member(text, "type") == sessions.TypeTitleSlot && jsonscan.Get(text, "pad") != nil
}

// read takes from a line what names the session and the thread.
func (l *look) read(text []byte) {
	if jsonscan.Valid(text) != nil || l.session != "" && !l.named {
		return
	}
	switch l.dialect {
	case "claude", "qwen":
		l.session = cmp.Or(l.session, member(text, "sessionId"))
		l.agent = cmp.Or(l.agent, member(text, "agentId"))
		l.side = l.side || l.agent != "" || string(jsonscan.Get(text, "isSidechain")) == "true"
	case "gemini":
		l.session = cmp.Or(l.session, member(text, "sessionId"))
		l.side = l.side || member(text, "kind") == "subagent"
	case "copilot":
		l.session = cmp.Or(l.session, member(text, "data", "sessionId"))
	case "opencode":
		l.session = member(text, "info", "id")
	case "codex":
		if l.session == "" && member(text, "type") == "session_meta" {
			l.session = member(text, "payload", "id")
		}
	case "omp":
		if h, err := sessions.ParseHeader(text); err == nil && l.session == "" {
			l.session = h.ID
		}
	}
}

func member(text []byte, keys ...string) string {
	s, _ := jsonscan.Text(jsonscan.Get(text, keys...))
	return s
}

// identity decides. A file without an id is called after its harness, its name and its first line.
func (l *look) identity() Identity {
	id := Identity{Dialect: l.dialect, Thread: events.Thread{Session: cmp.Or(l.filed(), l.session), Name: events.MainThread}}
	switch dir := path.Dir(l.path); {
	case (l.dialect == "claude" || l.dialect == "qwen") && l.named && (l.subagent || l.side):
		id.Thread.Name = "agent-" + cmp.Or(l.agent, strings.TrimPrefix(stem(l.path), "agent-"))
	case l.dialect == "gemini" && l.side && path.Base(path.Dir(dir)) == "chats": // in the folder of its session
		id.Thread = events.Thread{Session: path.Base(dir), Name: "agent-" + l.session}
	}
	if id.Thread.Session == "" {
		id.Thread.Session = l.unnamed()
	}
	id.Thread.Session, id.Thread.Name = token(id.Thread.Session), token(id.Thread.Name)
	return id
}

// filed is the session by which Claude Code names a file, or the folder of its subagents; "" where it does not. It
// counts before what the lines say: those of a session that goes on from another one begin with lines of that.
func (l *look) filed() string {
	if l.dialect != "claude" {
		return ""
	}
	base := stem(l.path)
	if l.subagent {
		dir := path.Dir(l.path)
		for path.Base(dir) != subagents {
			dir = path.Dir(dir)
		}
		base = path.Base(path.Dir(dir))
	}
	if !isUUID(base) {
		return ""
	}
	return base
}

// unnamed makes a name for a session without an id.
func (l *look) unnamed() string {
	return limit(l.dialect+"-"+events.Token(stem(l.path)), 1+shortHex) + "-" + short(l.first)
}

// subagents is the folder in which Claude Code and Qwen Code keep the transcripts of a session's subagents, at any depth.
const subagents = "subagents"

func inSubagents(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), subagents)
}

// token is a name that may stand in a subject (events.CheckToken). One that may not is made such, with a hash of what it
// was, so that two of them stay two.
func token(s string) string {
	if events.CheckToken("", s) == nil {
		return s
	}
	return limit(events.Token(s), 1+shortHex) + "-" + short([]byte(s))
}

const shortHex = 8

// short stands for a text in a name.
func short(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:shortHex/2])
}

// limit leaves room for a suffix.
func limit(s string, suffix int) string { return s[:min(len(s), events.MaxToken-suffix)] }

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

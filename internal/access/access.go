// Package access says who may do what over HTTP: tokens, what each of them is for, and for which sessions.
//
// A process serves one tenant, the NATS account that it is connected to; no token reaches beyond it (DESIGN 11).
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"spool/internal/reload"
)

// Scope is what a request needs.
type Scope uint8

// The scopes. Admin has the others in it. Write has no read in it: an agent that only reports needs none; nor answer: no
// agent approves what it asked.
const (
	Read   Scope = 1 << iota // see sessions, threads, artifacts, prompts
	Write                    // append, fork, end
	Admin                    // delete
	Answer                   // settle prompts: who asks is seldom who may approve

	None Scope = 0
)

func (s Scope) String() string {
	switch {
	case s&Admin != 0:
		return "admin"
	case s&Answer != 0:
		return "answer"
	case s&Write != 0:
		return "write"
	case s&Read != 0:
		return "read"
	}
	return "none"
}

// parseScope reads a scope with all that is in it.
func parseScope(name string) (Scope, bool) {
	switch name {
	case "read":
		return Read, true
	case "write":
		return Write, true
	case "admin":
		return Admin | Read | Write | Answer, true
	case "answer":
		return Answer, true
	}
	return None, false
}

// Grant is what a token gives to whoever has it. The zero value gives nothing.
type Grant struct {
	Name     string // for logs
	User     string // who publishes with it, whatever a request claims; "": who the request says
	Scopes   Scope
	Sessions []string // beginnings of the sessions' names; none: all sessions
}

// All is the grant of who needs no token, and of a token that stands alone in its file.
func All() Grant { return Grant{Name: "all", Scopes: Read | Write | Answer | Admin} }

// Session reports whether the grant is good for a session.
func (g Grant) Session(session string) bool {
	return len(g.Sessions) == 0 || slices.ContainsFunc(g.Sessions, func(prefix string) bool { return strings.HasPrefix(session, prefix) })
}

// Everything reports whether the grant is good for all sessions.
func (g Grant) Everything() bool { return len(g.Sessions) == 0 }

type key struct{}

// With puts a grant into the context of a request that was let in.
func With(ctx context.Context, g Grant) context.Context { return context.WithValue(ctx, key{}, g) }

// From is the grant of a request; the zero Grant when nobody let it in.
func From(ctx context.Context) Grant {
	g, _ := ctx.Value(key{}).(Grant)
	return g
}

func (g Grant) equal(other Grant) bool {
	return g.Name == other.Name && g.Scopes == other.Scopes && slices.Equal(g.Sessions, other.Sessions)
}

// Tokens are the tokens that are taken. nil: none is needed.
type Tokens struct {
	file *reload.Files // nil: they stay as they are

	mu    sync.Mutex
	list  []token // never empty, once there were some
	using map[*use]struct{}
}

type token struct {
	sum   [sha256.Size]byte
	grant Grant
}

// use is a request that a token let in.
type use struct {
	token
	end context.CancelCauseFunc
}

// ErrRevoked is why the context of a request ended whose token is not taken any more, or gives something else.
var ErrRevoked = errors.New("the token of the request was changed or is not taken any more")

// Required reports whether requests need a token.
func (t *Tokens) Required() bool { return t != nil }

// Several reports whether there is more than one token.
func (t *Tokens) Several() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.list) > 1
}

// Admit is what a token gives; ok is false for one that is not taken. The context that it returns is one of ctx, which
// has to end with the request; it knows the grant, and ends when the token no longer gives it. How long it takes tells
// nothing about the tokens.
func (t *Tokens) Admit(ctx context.Context, text string) (_ context.Context, g Grant, ok bool) {
	sum := sha256.Sum256([]byte(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	if g, ok = t.grant(sum); !ok {
		return ctx, g, false
	}
	ctx, end := context.WithCancelCause(With(ctx, g))
	u := &use{token{sum, g}, end}
	if t.using == nil {
		t.using = map[*use]struct{}{}
	}
	t.using[u] = struct{}{}
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.using, u)
	})
	return ctx, g, true
}

func (t *Tokens) grant(sum [sha256.Size]byte) (g Grant, ok bool) {
	for i := range t.list {
		if subtle.ConstantTimeCompare(sum[:], t.list[i].sum[:]) == 1 {
			g, ok = t.list[i].grant, true
		}
	}
	return g, ok
}

// replace puts other tokens in the place of these, and ends the requests that they do not let in as these did.
func (t *Tokens) replace(with *Tokens) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = with.list
	for u := range t.using {
		if g, ok := t.grant(u.sum); !ok || !g.equal(u.grant) {
			u.end(ErrRevoked)
		}
	}
}

// One is a single token that gives everything.
func One(text string) *Tokens { return &Tokens{list: []token{{sha256.Sum256([]byte(text)), All()}}} }

// minToken is the shortest token that is taken, in bytes.
const minToken = 16

// ReadFile reads a token file: one word, a token that gives everything, or a line for each token:
//
//	NAME SCOPES TOKEN [session=PREFIX]…
//
// SCOPES are read, write, answer, admin, joined by commas. Empty lines, and lines that begin with #, do not count. Lines end with
// a newline, the last one too: a line that is cut may give more than the whole one.
func ReadFile(file string) (*Tokens, error) {
	t, running := &Tokens{}, false
	t.file = &reload.Files{Paths: []string{file}, Take: func(contents [][]byte) error {
		text := string(contents[0])
		if whole := strings.HasSuffix(text, "\n"); !whole && (running || strings.ContainsAny(text, " \t\n")) {
			return fmt.Errorf("token file %s: its last line has no newline: it may be cut", file)
		}
		with, err := Parse(text)
		if err != nil {
			return fmt.Errorf("token file %s: %w", file, err)
		}
		t.replace(with)
		return nil
	}}
	if err := t.file.Open(); err != nil {
		return nil, err
	}
	running = true
	return t, nil
}

// Follow takes the file anew when it changes (internal/reload), until ctx ends. A file that is missing or no good leaves
// the tokens as they are.
func (t *Tokens) Follow(ctx context.Context, log *slog.Logger) {
	if t != nil && t.file != nil {
		t.file.Follow(ctx, log)
	}
}

// Parse reads what a token file holds. No error shows a token.
func Parse(text string) (*Tokens, error) {
	if words := strings.Fields(text); len(words) == 1 && !strings.HasPrefix(words[0], "#") {
		if err := checkToken(words[0]); err != nil {
			return nil, err
		}
		return One(words[0]), nil
	}
	t, names, errs := &Tokens{}, map[string]bool{}, []error(nil)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseLine(line)
		switch {
		case err != nil:
		case names[one.grant.Name]:
			err = fmt.Errorf("the name %s is there twice", one.grant.Name)
		case t.has(one.sum):
			err = fmt.Errorf("%s has the token of another line", one.grant.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", i+1, err))
			continue
		}
		names[one.grant.Name] = true
		t.list = append(t.list, one)
	}
	if len(t.list) == 0 && errs == nil {
		errs = append(errs, errors.New("it holds no token; make one with: openssl rand -hex 32"))
	}
	return t, errors.Join(errs...)
}

func (t *Tokens) has(sum [sha256.Size]byte) bool {
	return slices.ContainsFunc(t.list, func(other token) bool { return other.sum == sum })
}

// maxSessions is how many bytes the beginnings of sessions have at most: they are stamped on what is stored
// (events.Scope).
const maxSessions = 500

func parseLine(line string) (t token, err error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return t, errors.New("want NAME SCOPES TOKEN [session=PREFIX]…")
	}
	t.grant.Name, t.grant.User = words[0], words[0]
	for _, name := range strings.Split(words[1], ",") {
		scope, ok := parseScope(name)
		if !ok {
			return t, fmt.Errorf("%s: %q is no scope; use read, write, answer, admin, joined by commas", t.grant.Name, name)
		}
		t.grant.Scopes |= scope
	}
	if err := checkToken(words[2]); err != nil {
		return t, fmt.Errorf("%s: %w", t.grant.Name, err)
	}
	t.sum = sha256.Sum256([]byte(words[2]))
	for _, word := range words[3:] {
		prefix, ok := strings.CutPrefix(word, "session=")
		if !ok || prefix == "" {
			return t, fmt.Errorf("%s: %q: behind the token stands session=PREFIX, or nothing", t.grant.Name, word)
		}
		t.grant.Sessions = append(t.grant.Sessions, prefix)
	}
	if n := len(strings.Join(t.grant.Sessions, "+,")); n > maxSessions {
		return t, fmt.Errorf("%s: beginnings of sessions of %d bytes together; use at most %d, or more tokens",
			t.grant.Name, n, maxSessions)
	}
	return t, nil
}

func checkToken(text string) error {
	if len(text) < minToken {
		return fmt.Errorf("a token has at least %d characters; make one with: openssl rand -hex 32", minToken)
	}
	return nil
}

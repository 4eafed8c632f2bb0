package events

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"spool/internal/family"
)

// Scope says which sessions the publisher of an event may name, its own included, as whoever let him in knows: the NATS
// account that he publishes from, or the HTTP side for his token. It is no part of the envelope. It stands behind the
// kind in the subject, where no publisher of an account of his own can put or change it, and SPOOL_EVENTS stores it:
//
//	control           ""        everything: who runs the system, or a system where everybody is let in
//	control@+         "+"       every session; no session and no thread is removed
//	control@a,ci-+    "a,ci-+"  the session a, and those whose names begin with ci-; nor is any of them removed
//	control@a@agent7  …         the same; the publisher is agent7, and settles no prompt
//	control@+@        …         the publisher settles no prompt, and is who the envelope says
type Scope string

// The scopes that are no list.
const (
	Everywhere Scope = "+" // every session
	// Operator is everything, also for a connection that stamps what has no stamp (natsio.Config.Scope). It is never in a
	// subject.
	Operator Scope = "!"
)

// ErrScope is wrapped by the refusal of an event that names what its publisher may not name.
var ErrScope = family.Denied.New("beyond the publisher's sessions")

const (
	scopeMark = "@" // between a kind and a scope, sessions and a user; in no name
	scopeSep  = ","
	scopeMore = "+" // behind the beginning of names
	maxScope  = 512 // bytes of the names: a stamp is stored with each event
)

// Apart is the scope of a publisher who settles no prompt; user is who it is, "" for who the envelope says. The scope
// must have none.
func (s Scope) Apart(user string) Scope { return cmp.Or(s, Everywhere) + scopeMark + Scope(user) }

// User is who the publisher is, as whoever let it in knows; "" when only its envelope says.
func (s Scope) User() string {
	_, user, _ := strings.Cut(string(s), scopeMark)
	return user
}

// CheckSettles refuses the answer to a prompt of whoever may not settle any. The error wraps ErrScope.
func (s Scope) CheckSettles(prompt string) error {
	if !strings.Contains(string(s), scopeMark) {
		return nil
	}
	return fmt.Errorf("%w: prompt %q: published for %s, and such a publisher settles no prompt: "+
		"a token with the scope answer does", ErrScope, prompt, s)
}

// sessions are the names, and beginnings of names.
func (s Scope) sessions() iter.Seq[string] {
	names, _, _ := strings.Cut(string(s), scopeMark)
	return strings.SplitSeq(names, scopeSep)
}

// NewScope is the scope of some sessions: names, or beginnings of names with "+" behind them.
func NewScope(sessions ...string) (Scope, error) {
	s := Scope(strings.Join(sessions, scopeSep))
	if len(sessions) == 0 {
		return "", fmt.Errorf("%w: a scope without sessions", ErrToken)
	}
	return s, s.check()
}

func (s Scope) check() error {
	if names, _, _ := strings.Cut(string(s), scopeMark); len(names) > maxScope {
		return fmt.Errorf("%w: names of sessions of %d bytes together; use at most %d", ErrToken, len(names), maxScope)
	}
	if user := s.User(); user != "" {
		if err := CheckToken("user of a scope", user); err != nil {
			return err
		}
	}
	for name := range s.sessions() {
		if begin, more := strings.CutSuffix(name, scopeMore); more && begin == "" {
			continue
		} else if err := CheckToken("session of a scope", begin); err != nil {
			return err
		}
	}
	return nil
}

type scopeKey struct{}

// WithScope has what is published under a context stamped with a scope: that of the token of a request.
func WithScope(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeFrom is the scope of a context; "" if it has none.
func ScopeFrom(ctx context.Context) Scope {
	s, _ := ctx.Value(scopeKey{}).(Scope)
	return s
}

type userKey struct{}

// WithUser has what is published under a context say that a user published it, whatever else is claimed: the name of
// the token of a request. "" leaves the claims.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserFrom is the user of a context; "" if nobody knows.
func UserFrom(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Session reports whether the publisher may name a session.
func (s Scope) Session(session string) bool {
	if s == "" || s == Operator {
		return true
	}
	for name := range s.sessions() {
		begin, more := strings.CutSuffix(name, scopeMore)
		if name == session || more && strings.HasPrefix(session, begin) {
			return true
		}
	}
	return false
}

// Check refuses a session that the publisher may not name. The error wraps ErrScope.
func (s Scope) Check(session string) error {
	if s.Session(session) {
		return nil
	}
	return fmt.Errorf("%w: it names the session %s, and was published for %s only", ErrScope, session, s)
}

// CheckDestroys refuses an operation that takes a session or a thread away for good. The error wraps ErrScope.
func (s Scope) CheckDestroys(op string) error {
	if s == "" || s == Operator {
		return nil
	}
	return fmt.Errorf("%w: %s: published for %s, and such a publisher removes nothing: an admin does", ErrScope, op, s)
}

// Stamp is a subject of EventSubject or SessionEvents with the scope.
func (s Scope) Stamp(subject string) string {
	if s == "" || s == Operator {
		return subject
	}
	return subject + scopeMark + string(s)
}

// cutScope splits the last token of a stored subject. A stamp that cannot be read gives no right to anything.
func cutScope(token string) (kind string, s Scope, err error) {
	kind, text, stamped := strings.Cut(token, scopeMark)
	if !stamped {
		return kind, "", nil
	}
	if s = Scope(text); text == "" {
		return kind, s, fmt.Errorf("%w: an empty scope", ErrToken)
	}
	return kind, s, s.check()
}

// PublishedSubject is where a stored event was published, by its subject in EVENTS.
func PublishedSubject(stored string) (string, error) {
	t, kind, s, err := parseStored(stored)
	return s.Stamp(EventSubject(t, kind)), err
}

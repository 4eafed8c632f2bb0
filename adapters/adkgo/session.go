package adkgo

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/adk/v2/session"
)

// Session is a session as it was read, with what was appended to it since. It is safe for concurrent use.
type Session struct {
	app, user, id string
	once          string // of its beginning
	life          uint64 // of its thread

	mu      sync.Mutex
	state   map[string]any
	events  []*session.Event
	updated time.Time
}

func (s *Session) ID() string      { return s.id }
func (s *Session) AppName() string { return s.app }
func (s *Session) UserID() string  { return s.user }

func (s *Session) State() session.State { return state{s} }

// Events are those that it has now.
func (s *Session) Events() session.Events {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(slices.Clone(s.events))
}

func (s *Session) LastUpdateTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updated
}

// add appends an event, which sets keys.
func (s *Session) add(e *session.Event, set map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	maps.Copy(s.state, set)
	if !e.Timestamp.IsZero() {
		s.updated = e.Timestamp
	}
}

type state struct{ of *Session }

func (s state) Get(key string) (any, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	value, ok := s.of.state[key]
	if !ok {
		return nil, session.ErrStateKeyNotExist
	}
	return value, nil
}

// Set changes what this process holds; an event that has the key among its deltas is stored.
func (s state) Set(key string, value any) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.state[key] = value
	return nil
}

func (s state) All() iter.Seq2[string, any] {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return maps.All(maps.Clone(s.of.state))
}

type list []*session.Event

func (l list) All() iter.Seq[*session.Event] { return slices.Values(l) }
func (l list) Len() int                      { return len(l) }

func (l list) At(i int) *session.Event {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}

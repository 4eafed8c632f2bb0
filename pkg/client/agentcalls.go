package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// AgentCalls are the calls that the subagents of a session work for, by the names of their threads, as far as their harness said it: in
// files beside the session's, or in the entries of its main thread. Of one that is a session of its own, session/thread stands for the
// name; and the main thread of such a session has the call of the other one.
func (s SessionHandle) AgentCalls(ctx context.Context) (map[string]string, error) {
	if err := events.CheckToken("session", s.ID); err != nil {
		return nil, err
	}
	calls, sessions, err := s.c.ownCalls(ctx, s.ID)
	if err != nil || !sessions {
		return calls, err
	}
	info, err := s.c.Internal().SessionInfo(ctx, s.ID)
	if err != nil || info.Parent == "" || events.CheckToken("session", info.Parent) != nil {
		return calls, err
	}
	others, _, err := s.c.ownCalls(ctx, info.Parent)
	if call := others[s.ID+"/"+events.MainThread]; call != "" {
		calls[events.MainThread] = call
	}
	return calls, err
}

// ownCalls are those that the session itself says, and whether its harness has a session for each subagent.
func (c *Client) ownCalls(ctx context.Context, session string) (calls map[string]string, sessions bool, err error) {
	known := c.agents.session(session)
	known.mu.Lock()
	defer known.mu.Unlock()
	if err := errors.Join(known.readFiles(ctx, c, session), known.readEntries(ctx, c, session)); err != nil {
		return nil, false, err
	}
	calls = maps.Clone(known.said)
	for _, key := range slices.Sorted(maps.Keys(known.files)) { // the newest file last
		calls[known.files[key].agent] = known.files[key].call
	}
	return calls, known.sessions, nil
}

// agentCalls is what is known of sessions that were asked for: only what is new in one is read. It costs some 100 bytes an artifact.
type agentCalls struct {
	mu sync.Mutex
	of map[string]*sessionCalls
}

// mostSessionCalls is how many sessions are known at a time, and mostKnownArtifacts how many artifacts of them when another one is
// asked for.
const mostSessionCalls, mostKnownArtifacts = 64, 200_000

func (a *agentCalls) session(id string) *sessionCalls {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.of[id]; ok {
		return known
	}
	artifacts := int64(0)
	for _, other := range a.of {
		artifacts += other.size.Load()
	}
	for name, other := range a.of {
		if len(a.of) < mostSessionCalls && artifacts <= mostKnownArtifacts {
			break
		}
		artifacts -= other.size.Load()
		delete(a.of, name)
	}
	known := &sessionCalls{said: map[string]string{}}
	a.of[id] = known
	return known
}

// sessionCalls is what is known of one session.
type sessionCalls struct {
	size  atomic.Int64 // of read
	mu    sync.Mutex
	read  map[string]struct{}  // the keys of its artifacts that say no call
	files map[string]agentCall // by the keys of those that do

	said    map[string]string // in entries of the main thread
	at      casstore.Located  // its head then
	created int64             // of the thread: another one of its name has another time
	items   int64

	sessions bool // of which each subagent has one
}

type agentCall struct{ agent, call string }

// readFiles reads the records of artifacts that came since, and again those that say a call: each may be gone.
func (s *sessionCalls) readFiles(ctx context.Context, c *Client, session string) error {
	filter := events.ArtifactKeys(session, "")
	keys, err := c.records.Keys(ctx, filter)
	if err != nil {
		return err
	}
	before, wanted := s.read, []string(nil)
	s.read = make(map[string]struct{}, len(keys))
	for _, key := range keys {
		if _, ok := before[key]; ok {
			s.read[key] = struct{}{}
		} else {
			wanted = append(wanted, key)
		}
	}
	s.files = map[string]agentCall{}
	if len(wanted) == 0 {
		return nil
	}
	read := func() ([]record.Record, error) { return c.records.Records(ctx, wanted...) }
	if len(wanted) > max(100, len(keys)/4) { // one by one they take longer than all
		read = func() ([]record.Record, error) { return c.records.List(ctx, filter) }
	}
	all, err := read()
	if err != nil {
		return err
	}
	for _, r := range all {
		if !r.Exists() { // it may come again
			continue
		}
		if a, err := artifacts.DecodeRecord(r.Value); err == nil && a.Subagent() != "" && a.ToolCall != "" {
			s.files[r.Key] = agentCall{a.Subagent(), a.ToolCall}
		} else {
			s.read[r.Key] = struct{}{}
		}
	}
	s.size.Store(int64(len(s.read)))
	return nil
}

// saysCalls is a dialect whose main thread says for which calls subagents work, by the names of their threads.
type saysCalls interface {
	AgentCalls(raw []byte) map[string]string
}

// readEntries reads the entries of the main thread that came since, where its harness says it there. Where some cannot be read it is known
// of those before, and the others are read the next time.
func (s *sessionCalls) readEntries(ctx context.Context, c *Client, session string) error {
	head, err := c.Thread(events.Thread{Session: session, Name: events.MainThread}).Head(ctx)
	if apply.Passing(err) {
		return err
	}
	if head.Created != s.created || head.N < s.items {
		s.said, s.at, s.created, s.items = map[string]string{}, casstore.Located{}, head.Created, 0
	}
	s.sessions = dialect.AgentsAreSessions(head.Dialect)
	d, _ := dialect.Lookup(head.Dialect)
	says, ok := d.(saysCalls)
	if !ok || head.Head() == s.at {
		return nil
	}
	for line, err := range c.rawEntriesFrom(ctx, head, s.items) {
		if apply.Passing(err) {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // the thread is damaged, and who reads it is told
		}
		maps.Copy(s.said, says.AgentCalls(line.Head))
	}
	s.at, s.items = head.Head(), head.N
	return nil
}

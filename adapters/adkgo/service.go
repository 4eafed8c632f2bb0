// Package adkgo keeps the sessions of ADK for Go in Spool: New is a session.Service over pkg/client.
//
//	session  adk-APP-USER-ID, thread main   what it began with, then an event a line
//	state    adk-APP-USER, adk-APP          what user: and app: keys were set to, a line each
//
// APP, USER and ID are hashes: names of ADK are any text. What they stand for is in the first line of a session. Lines are
// entries of the dialect raw, with an event as ADK writes it to JSON. A state is what its lines add up to, in the order in
// which they were stored, so that processes that write at once need no lock.
//
// AppendEvent returns when the event is in its session, so that any process reads it then. It stores app: and user: keys
// before the event that sets them: what an error leaves is set again when the event is appended again. An event with an ID
// that its session has already is stored once more and read once. All that a Service appends to a thread is of one producer.
package adkgo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/adk/v2/session"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Errors of the service.
var (
	ErrExists   = errors.New("the session is there")
	ErrNotFound = errors.New("session not found")
	ErrNames    = errors.New("names are missing")
)

// Service is a session.Service. It is safe for concurrent use.
type Service struct {
	cl      *client.Client
	writers [64]writer // a thread has one of them, so that its lines are of one producer
}

var _ session.Service = (*Service)(nil)

// writer is a producer of the service. One line of it is published at a time: a thread takes a sequence behind a greater one for a repeat.
type writer struct {
	mu       sync.Mutex
	producer string
	seq      uint64 // that was given out last
}

// New makes a service of what cl reads and writes.
func New(cl *client.Client) *Service {
	s := &Service{cl: cl}
	for i := range s.writers {
		s.writers[i].producer = cl.Publisher(client.PublisherConfig{}).Producer()
	}
	return s
}

// line is a line of a thread; it has one of these. Others' lines, which have none, count as nothing.
type line struct {
	Begun *begun         `json:"begun,omitempty"`
	Event *session.Event `json:"event,omitempty"`
	Set   map[string]any `json:"set,omitempty"` // keys of a state

	to events.Thread
}

// begun is how a session began. Of several the first counts.
type begun struct {
	App   string         `json:"app"`
	User  string         `json:"user"`
	ID    string         `json:"id"`
	Once  string         `json:"once"` // tells two that begin it at the same time which one did
	Time  time.Time      `json:"time"`
	State map[string]any `json:"state,omitempty"`
}

// name is where something of an app, of a user, or a session is.
func name(parts ...string) events.Thread {
	out := "adk"
	for _, part := range parts {
		sum := sha256.Sum256([]byte(part))
		out += "-" + hex.EncodeToString(sum[:12])
	}
	return events.Thread{Session: out, Name: events.MainThread}
}

// put appends lines to threads, in this order, and returns when they are there.
func (s *Service) put(ctx context.Context, user string, lines ...line) error {
	for _, one := range lines {
		b, err := json.Marshal(one)
		if err != nil {
			return err
		}
		w := &s.writers[crc32.ChecksumIEEE([]byte(one.to.Session))%uint32(len(s.writers))]
		ack, err := w.publish(ctx, s.cl, user, client.Entry{Thread: one.to, Dialect: "raw", Body: b})
		if err != nil {
			return err
		}
		if err := ack.Applied(ctx); err != nil {
			return err
		}
	}
	return nil
}

// publish returns when an entry is durable. One that failed may come to be stored, and keeps its sequence.
func (w *writer) publish(ctx context.Context, cl *client.Client, user string, e client.Entry) (client.Ack, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	e.Seq = w.seq
	return cl.Publisher(client.PublisherConfig{Producer: w.producer, User: user}).Publish(ctx, e)
}

// shared are the lines that set keys of an app and a user.
func shared(app, user string, delta map[string]any) (lines []line) {
	for prefix, to := range map[string]events.Thread{session.KeyPrefixApp: name(app), session.KeyPrefixUser: name(app, user)} {
		set := maps.Clone(delta)
		maps.DeleteFunc(set, func(key string, _ any) bool { return !strings.HasPrefix(key, prefix) })
		if len(set) > 0 {
			lines = append(lines, line{Set: set, to: to})
		}
	}
	return lines
}

// own are the keys of a session alone.
func own(delta map[string]any) map[string]any {
	out := maps.Clone(delta)
	maps.DeleteFunc(out, func(key string, _ any) bool {
		return strings.HasPrefix(key, session.KeyPrefixApp) || strings.HasPrefix(key, session.KeyPrefixUser) ||
			strings.HasPrefix(key, session.KeyPrefixTemp)
	})
	return out
}

// lines are those of a thread; none if it is not there.
func (s *Service) lines(ctx context.Context, t events.Thread) (lines []line, err error) {
	var out bytes.Buffer
	_, err = s.cl.Thread(t).Export(ctx, &out)
	if errors.Is(err, threads.ErrNoThread) || errors.Is(err, client.ErrSessionNotFound) {
		return nil, nil
	}
	for text := range bytes.Lines(out.Bytes()) {
		var one line
		if !bytes.HasPrefix(text, []byte("{")) { // it is none of ours
			continue
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", t, len(lines)+1, err)
		}
		lines = append(lines, one)
	}
	return lines, err
}

// Create implements session.Service. The error is ErrExists where the session is there.
func (s *Service) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	if req.AppName == "" || req.UserID == "" {
		return nil, fmt.Errorf("%w: an app and a user", ErrNames)
	}
	b := begun{req.AppName, req.UserID, req.SessionID, rand.Text(), time.Now().UTC(), own(req.State)}
	b.ID = cmp.Or(b.ID, b.Once)
	t := name(b.App, b.User, b.ID)
	there, err := s.read(ctx, t)
	if err != nil {
		return nil, err
	}
	if there != nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, b.ID)
	}
	if err := s.put(ctx, b.User, append(shared(b.App, b.User, req.State), line{Begun: &b, to: t})...); err != nil {
		return nil, err
	}
	out, err := s.read(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case out == nil || out.once != b.Once:
		return nil, fmt.Errorf("%w: %s", ErrExists, b.ID)
	}
	return &session.CreateResponse{Session: out}, nil
}

// read makes a session of its lines; nil if it is not there.
func (s *Service) read(ctx context.Context, t events.Thread) (*Session, error) {
	head, err := s.cl.Thread(t).AwaitHead(ctx)
	if errors.Is(err, threads.ErrNoThread) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, err := s.lines(ctx, t)
	at := slices.IndexFunc(lines, func(one line) bool { return one.Begun != nil })
	if err != nil || at < 0 {
		return nil, err
	}
	first := lines[at].Begun
	out := &Session{app: first.App, user: first.User, id: first.ID, once: first.Once, life: head.Life, state: map[string]any{},
		updated: first.Time}
	for _, of := range []events.Thread{name(first.App), name(first.App, first.User)} {
		set, err := s.lines(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, one := range set {
			maps.Copy(out.state, one.Set)
		}
	}
	maps.Copy(out.state, first.State)
	seen := map[string]bool{}
	for _, one := range lines[at:] {
		if e := one.Event; e != nil && (e.ID == "" || !seen[e.ID]) {
			seen[e.ID] = true
			out.add(e, own(e.Actions.StateDelta))
		}
	}
	return out, nil
}

// Get implements session.Service. The error is ErrNotFound where there is no such session.
func (s *Service) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	if req.AppName == "" || req.UserID == "" || req.SessionID == "" {
		return nil, fmt.Errorf("%w: an app, a user and a session", ErrNames)
	}
	out, err := s.read(ctx, name(req.AppName, req.UserID, req.SessionID))
	if err != nil {
		return nil, err
	}
	if out == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, req.SessionID)
	}
	if n := len(out.events); req.NumRecentEvents > 0 && n > req.NumRecentEvents {
		out.events = out.events[n-req.NumRecentEvents:]
	}
	for !req.After.IsZero() && len(out.events) > 0 && out.events[0].Timestamp.Before(req.After) {
		out.events = out.events[1:]
	}
	return &session.GetResponse{Session: out}, nil
}

// List implements session.Service: sessions with their states, without events. It reads each of them.
func (s *Service) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if req.AppName == "" {
		return nil, fmt.Errorf("%w: an app", ErrNames)
	}
	all, err := s.cl.Sessions(ctx, "")
	if err != nil {
		return nil, err
	}
	begins := name(req.AppName).Session + "-"
	if req.UserID != "" {
		begins = name(req.AppName, req.UserID).Session + "-"
	}
	out := &session.ListResponse{Sessions: []session.Session{}}
	for _, one := range all {
		if !strings.HasPrefix(one.ID, begins) || len(one.ID) != len(name("", "", "").Session) {
			continue
		}
		found, err := s.read(ctx, events.Thread{Session: one.ID, Name: events.MainThread})
		if err != nil {
			return nil, err
		}
		if found != nil {
			found.events = nil
			out.Sessions = append(out.Sessions, found)
		}
	}
	return out, nil
}

// Delete implements session.Service. What app: and user: keys were set to stays. One that is not there is no error.
func (s *Service) Delete(ctx context.Context, req *session.DeleteRequest) error {
	if req.AppName == "" || req.UserID == "" || req.SessionID == "" {
		return fmt.Errorf("%w: an app, a user and a session", ErrNames)
	}
	_, err := s.cl.Session(name(req.AppName, req.UserID, req.SessionID).Session).Delete(ctx, client.Deletion{By: req.UserID, Plain: true})
	if errors.Is(err, client.ErrSessionNotFound) {
		return nil
	}
	return err
}

// AppendEvent implements session.Service: the event is in the session, and in what cur holds of it, without temp: keys. A
// partial one is not stored. The error is ErrNotFound where there is no such session.
func (s *Service) AppendEvent(ctx context.Context, cur session.Session, e *session.Event) error {
	if cur == nil || e == nil {
		return fmt.Errorf("%w: a session and an event", ErrNames)
	}
	if e.Partial {
		return nil
	}
	t := name(cur.AppName(), cur.UserID(), cur.ID())
	mine, held := cur.(*Session)
	life, err := s.life(ctx, cur)
	if err != nil {
		return err
	}
	if held && mine.life != life {
		return fmt.Errorf("%w: %s was deleted", ErrNotFound, cur.ID())
	}
	stored := *e
	stored.Actions.StateDelta = maps.Clone(e.Actions.StateDelta)
	maps.DeleteFunc(stored.Actions.StateDelta, func(key string, _ any) bool { return strings.HasPrefix(key, session.KeyPrefixTemp) })
	if err := s.put(ctx, cur.UserID(), append(shared(cur.AppName(), cur.UserID(), stored.Actions.StateDelta),
		line{Event: &stored, to: t})...); err != nil {
		return err
	}
	if now, err := s.life(ctx, cur); err != nil || now != life { // a line that came behind the deletion is no session's
		return cmp.Or(err, fmt.Errorf("%w: %s was deleted", ErrNotFound, cur.ID()))
	}
	if held {
		mine.add(&stored, e.Actions.StateDelta)
	}
	return nil
}

// life tells a session from those that have its names before and behind it. The error is ErrNotFound where there is none.
func (s *Service) life(ctx context.Context, of session.Session) (uint64, error) {
	head, err := s.cl.Thread(name(of.AppName(), of.UserID(), of.ID())).Head(ctx)
	if errors.Is(err, threads.ErrNoThread) {
		err = fmt.Errorf("%w: %s", ErrNotFound, of.ID())
	}
	return head.Life, err
}

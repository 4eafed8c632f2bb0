package tenants_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/access"
	"spool/internal/dstreams"
	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/tenants"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// secret is in all that the session "other" holds.
const secret = "cellar-2208"

// scoped is a site whose agent and HTTP token are for the sessions mine and mine-too, beside the session other.
type scoped struct {
	*site
	admin   *natsio.Conn
	agent   *nats.Conn
	denied  <-chan error
	url     string // of the HTTP side, which is an ingest user
	node    casstore.Ref
	claimed events.BodyRef
	tries   uint64
}

const (
	scopedToken  = "token-of-mine-0123456789abcdef"
	opsToken     = "token-of-ops-0123456789abcdef"
	writingToken = "token-of-writer-0123456789abcdef"
)

func newScoped(t *testing.T) *scoped {
	s := &scoped{site: newSite(t)}
	s.admin = s.conns["acme/admin"]
	s.agent, s.denied = s.raw("acme", tenants.Agent, "_INBOX.agent")
	tokens, err := access.Parse("mine write,read,answer " + scopedToken + " session=mine\nops admin " + opsToken +
		"\nwriter write " + writingToken + " session=mine\n")
	must.Do(t, err)
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{
		URL: s.site.url(), NKey: s.seeds["acme/ingest"], Inbox: "_INBOX.ingest", Scope: events.Everywhere,
	}))(t)
	t.Cleanup(conn.Close)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{
		Tokens: tokens, Streams: dstreams.New(dstreams.On(conn, nil)),
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	ctx := t.Context()
	at := func(session, name string) events.Thread { return events.Thread{Session: session, Name: name} }
	for i, e := range []*events.Event{
		event("other", secret, 777), event("other", secret, 778),
		event("mine", "my own", 1), event("mine", "my own", 2), event("mine-too", "too", 1),
		{Kind: events.KindEntry, Dialect: "item", Thread: at("other", "asks"), Producer: "p", Seq: 1,
			Body: events.PendingPrompt("q1", events.PromptApproval, secret, nil).JSON()},
		{Kind: events.KindControl, Thread: at("other", "runs"), Producer: "p", Seq: 1,
			Body: events.Control{Op: events.OpRun, Run: &events.Run{ID: "r1", State: "running", Lease: 600_000}}.Encode()},
		{Kind: events.KindChunk, Thread: at("other", "outputs"), Producer: "p", Seq: 1,
			Body: events.Chunk{Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{Tool: "x"}}.Encode()},
	} {
		if err := s.admin.Events().PublishEvents(ctx, []*events.Event{e}); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if s.claimed, err = s.admin.Inbox().CheckIn(ctx, strings.NewReader(secret)); err != nil {
		t.Fatal(err)
	}
	s.settle()
	head := must.Get(s.acme.Thread(at("other", "main")).Head(ctx))(t)
	s.node = head.Head().Ref
	return s
}

func (s *scoped) settle() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	must.Do(s.t, faulttest.Settle(ctx, s.admin))
}

// records are those of a session, with their revisions.
func (s *scoped) records(session string) map[string]uint64 {
	s.t.Helper()
	all := map[string]uint64{}
	for _, filter := range events.OfSession(session) {
		rs := must.Get(s.admin.Records().List(s.t.Context(), filter))(s.t)
		for _, r := range rs {
			all[r.Key] = r.Seq
		}
	}
	return all
}

func (s *scoped) letters(session string) (reasons []string) {
	s.t.Helper()
	all := must.Get(s.acme.Session(session).DeadLetters(s.t.Context()))(s.t)
	for _, d := range all {
		reasons = append(reasons, d.Reason)
	}
	return reasons
}

// event is what a row publishes, as the agent.
func (s *scoped) event(row names) *events.Event {
	s.tries++
	e := event("mine", "x", 1)
	e.Producer, e.Thread.Name = fmt.Sprintf("try-%d", s.tries), fmt.Sprintf("try-%d", s.tries)
	if row.kind != 0 {
		e.Kind = row.kind
	}
	if row.op != nil {
		switch body := row.op(s).(type) {
		case events.Control:
			e.Kind, e.Body = events.KindControl, body.Encode()
		case events.Chunk:
			e.Body = body.Encode()
		case []byte:
			e.Body = body
		}
	}
	return e
}

// TestNamesOfOthers: whatever field of an event names what is another session's, published by an agent over NATS or
// asked for with a token over HTTP, nothing changes there and nothing of it is read here.
func TestNamesOfOthers(t *testing.T) {
	s := newScoped(t)
	before := s.records("other")
	if len(before) < 6 {
		t.Fatalf("records of the session that is named: %v", before)
	}
	for _, field := range slices.Sorted(maps.Keys(foreign)) {
		row := foreign[field]
		t.Run(field, func(t *testing.T) {
			s.overNATS(t, row)
			if row.path != "" {
				s.overHTTP(t, row)
			}
			for _, a := range row.also {
				if status, text := s.ask(t, a.method, a.path, scopedToken, a.body, a.header); status != a.status ||
					strings.Contains(text, secret) {
					t.Errorf("%s %s = %d %s, want %d", a.method, a.path, status, text, a.status)
				}
			}
			s.settle()
			if after := s.records("other"); !maps.Equal(after, before) {
				t.Errorf("records of the other session = %v, want %v", after, before)
			}
			if letters := s.letters("other"); letters != nil {
				t.Errorf("dead letters of the other session: %q", letters)
			}
			if row.check != nil {
				row.check(s, t)
			}
			s.readsNothing(t)
		})
	}
}

// overNATS publishes the event of a row as the agent.
func (s *scoped) overNATS(t *testing.T, row names) {
	if row.ask != nil {
		subject, body := row.ask(s)
		if m, err := s.agent.Request(subject, body, 200*time.Millisecond); err == nil {
			t.Errorf("publish to %s = %s, want no answer", subject, m.Data)
		}
		select {
		case <-s.denied:
		case <-time.After(wait):
			t.Errorf("publish to %s is not denied", subject)
		}
		return
	}
	e := s.event(row)
	if row.change != nil {
		row.change(s, e)
	}
	session := e.Thread
	session.Session = "mine"
	if e.Thread.Session == "other" {
		session.Name = "main"
	}
	letters := s.letters("mine")
	m, err := s.agent.Request(events.EventSubject(session, e.Kind), e.Encode(), wait)
	if err != nil || !bytes.Contains(m.Data, []byte(`"stream":"SPOOL_EVENTS"`)) {
		t.Fatalf("publish = %v, %v", m, err)
	}
	s.settle()
	reasons := s.letters("mine")
	if len(reasons) < len(letters) {
		t.Fatalf("dead letters = %q, want those of before, too: %q", reasons, letters)
	}
	reasons = reasons[len(letters):]
	applied := len(reasons) == 0
	if applied != (row.dead == "") || !applied && (len(reasons) != 1 || !strings.Contains(reasons[0], row.dead)) {
		t.Errorf("dead letters = %q, want %q", reasons, row.dead)
	}
}

// overHTTP asks for the same with a token of the sessions that begin with mine.
func (s *scoped) overHTTP(t *testing.T, row names) {
	body, method := "", cmp.Or(row.method, http.MethodPost)
	if row.body != nil {
		body = row.body(s)
	}
	status, text := s.ask(t, method, cmp.Or(row.root, "/v1/sessions/")+row.path, scopedToken, body)
	if status != row.status || strings.Contains(text, secret) {
		t.Errorf("%s %s = %d %s, want %d", method, row.path, status, text, row.status)
	}
}

// endsWithoutRun ends an output of the agent that names a run of the session other: its artifact's record has no run. What a request
// named so is refused.
func (s *scoped) endsWithoutRun(t *testing.T, id string) {
	t.Helper()
	for _, piece := range []events.Chunk{
		{Op: events.ChunkData, Output: id, Seq: 1, Stream: events.Stdout, Data: []byte("printed")},
		{Op: events.ChunkEnd, Output: id, Seq: 2},
	} {
		e := s.event(names{kind: events.KindChunk, op: func(*scoped) any { return piece }})
		e.Thread.Name = "outputs"
		must.Get(s.agent.Request(events.EventSubject(e.Thread, e.Kind), e.Encode(), wait))(t)
	}
	s.settle()
	all := must.Get(s.acme.Session("mine").Artifacts(t.Context()))(t)
	if len(all) != 1 || all[0].Run != "" {
		t.Errorf("artifacts = %+v, dead letters %q, want one, of no run", all, s.letters("mine"))
	}
}

func (s *scoped) ask(t *testing.T, method, path, token, body string, header ...[2]string) (status int, text string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range header {
		if h[0] != "" {
			req.Header.Set(h[0], h[1])
		}
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	must.Get(b.ReadFrom(resp.Body))(t)
	return resp.StatusCode, b.String()
}

// readsNothing: no thread of the agent's own sessions has anything of the other session.
func (s *scoped) readsNothing(t *testing.T) {
	t.Helper()
	for _, session := range []string{"mine", "mine-too"} {
		all := must.Get(s.acme.Session(session).Threads(t.Context()))(t)
		for _, th := range all {
			path := "/v1/sessions/" + session + "/threads/" + th.Thread.Name + "/items"
			status, text := s.ask(t, http.MethodGet, path, scopedToken, "")
			if status != 200 || strings.Contains(text, secret) {
				t.Errorf("%s = %d %s", path, status, text)
			}
		}
	}
}

// TestWithinTheScope: what an agent, a token and an operator may name, they still do, and a letter that is published
// again has the scope that it had.
func TestWithinTheScope(t *testing.T) {
	s := newScoped(t)
	at := events.Thread{Session: "mine-too", Name: "fork"}
	e := s.event(names{op: whole("mine")})
	e.Thread = at
	m, err := s.agent.Request(events.EventSubject(at, e.Kind), e.Encode(), wait)
	if err != nil || bytes.Contains(m.Data, []byte("error")) {
		t.Fatalf("fork of mine into mine-too = %v, %v", m, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	must.Is(t, s.acme.Thread(at).Await(ctx, e.Producer, 0, 1), nil, "an agent forks its own session")
	fork := func(from, token, to string) {
		path, body := "/v1/sessions/"+from+"/threads/main/fork", `{"to":"`+to+`/x","whole":true}`
		if status, text := s.ask(t, http.MethodPost, path, token, body); status != 201 {
			t.Errorf("fork of %s into %s: %d %s", from, to, status, text)
		}
	}
	fork("mine", scopedToken, "mine-three")
	fork("other", opsToken, "mine-four")
	s.stamped(t, "mine-three", "@mine+")
	s.stamped(t, "mine-four", "@+")
	s.stamped(t, "mine-too", "@mine,mine-too@agent")
	s.replayed(t)
	// The ingest user itself may delete nothing, whatever its token; an admin may.
	if status, text := s.ask(t, http.MethodDelete, "/v1/sessions/mine-too", opsToken, ""); status != 403 {
		t.Errorf("an ingest user deletes: %d %s", status, text)
	}
	ctx, cancel = context.WithTimeout(t.Context(), wait)
	defer cancel()
	must.Is(t, must.Err(s.acme.Session("mine-too").Delete(ctx, client.Deletion{})), nil, "an admin deletes")
}

// TestAgentIsWhoItIs: what an agent's events say of its user is not believed, and it settles no prompt: not by an
// answer, not by an item that says that there was one, and not again by an operator who publishes the letter.
func TestAgentIsWhoItIs(t *testing.T) {
	s := newScoped(t)
	at := events.Thread{Session: "mine", Name: "asks"}
	tell := func(kind events.Kind, body []byte) {
		t.Helper()
		s.tries++
		e := events.Event{Kind: kind, Dialect: "item", Thread: at, Producer: fmt.Sprint("p", s.tries), Seq: 1, User: "boss",
			Time: time.Now().UnixMilli(), Body: body}
		m, err := s.agent.Request(events.EventSubject(at, kind), e.Encode(), wait)
		if err != nil || bytes.Contains(m.Data, []byte("error")) {
			t.Fatalf("publish = %v, %v", m, err)
		}
	}
	tell(events.KindEntry, events.PendingPrompt("q1", events.PromptApproval, "All of it?", nil).JSON())
	yes := events.Resolution{Outcome: events.OutcomeApproved, By: "boss"}
	tell(events.KindEntry, events.PendingPromptResolved("q1", events.PromptApproval, yes).JSON())
	tell(events.KindEntry, events.PendingPromptResolved("q1", "", yes).JSON())
	answer := events.Answer{Prompt: "q1", Answer: []byte(`true`), By: "boss"}
	tell(events.KindControl, events.Control{Op: events.OpAnswer, Answer: &answer}.Encode())
	s.settle()
	letters := must.Get(s.acme.Session("mine").DeadLetters(t.Context()))(t)
	if len(letters) != 3 {
		t.Fatalf("dead letters = %q, want 3", s.letters("mine"))
	}
	must.Get(s.acme.Admin().ReplayDeadLetter(t.Context(), letters[2].At))(t)
	s.settle()
	for _, reason := range s.letters("mine") {
		if !strings.Contains(reason, "settles no prompt") {
			t.Errorf("dead letter %q, want that it settles no prompt", reason)
		}
	}
	if p, err := s.acme.Thread(at).Prompt(t.Context(), "q1"); err != nil || p.Resolution.Outcome != "" {
		t.Errorf("the prompt is %+v, %v, want one that waits", p, err)
	}
	head := must.Get(s.acme.Thread(at).Head(t.Context()))(t)
	n := 0
	for item, err := range s.acme.Thread(at).ItemsFrom(t.Context(), head, 1) {
		if n++; err != nil || !bytes.Contains(item.Data, []byte(`"user_id":"agent","claimed_user":"boss"`)) {
			t.Errorf("item %s, %v, want the user agent, who claims to be boss", item.Data, err)
		}
	}
	if n != 1 {
		t.Errorf("%d items, want the prompt alone", n)
	}
}

// stamped: the newest event of a session is stored with a scope.
func (s *scoped) stamped(t *testing.T, session, scope string) {
	t.Helper()
	stream := must.Get(s.admin.JetStream().Stream(t.Context(), events.EventsStream))(t)
	m, err := stream.GetLastMsgForSubject(t.Context(), events.StoredOfSession(session))
	if err != nil || !strings.HasSuffix(m.Subject, scope) {
		t.Errorf("the newest event of %s is stored as %v, %v, want %s at the end", session, m, err, scope)
	}
}

// replayed: an operator who publishes a dead letter again gives its event no more rights than it had.
func (s *scoped) replayed(t *testing.T) {
	t.Helper()
	e := s.event(names{op: whole("other")})
	must.Get(s.agent.Request(events.EventSubject(e.Thread, e.Kind), e.Encode(), wait))(t)
	s.settle()
	all, err := s.acme.Session("mine").DeadLetters(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("dead letters = %v, %v", all, err)
	}
	must.Get(s.acme.Admin().ReplayDeadLetter(t.Context(), all[0].At))(t)
	s.settle()
	reasons := s.letters("mine")
	if len(reasons) != 2 || !strings.Contains(reasons[1], "beyond the publisher's sessions") {
		t.Errorf("dead letters = %q, want the same twice", reasons)
	}
}

package adkgo_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
	"google.golang.org/genai"

	"spool/adapters/adkgo"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// store is a server with a persister.
func store(t *testing.T) *natsio.Conn {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	return conn
}

// TestService is the suite that ADK has for its services.
func TestService(t *testing.T) {
	sessiontestsuite.RunServiceTests(t, sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true},
		func(t *testing.T) session.Service { return adkgo.New(client.New(store(t))) })
}

// TestProcesses: what one process appended another one reads, in the order in which it was appended, once; of two that begin
// one session at the same time one is told that it is there; names may be any text, and a deleted session begins anew.
func TestProcesses(t *testing.T) {
	conn, ctx := store(t), t.Context()
	one, other := adkgo.New(client.New(conn)), adkgo.New(client.New(conn))
	key := session.GetRequest{AppName: "my app / é", UserID: "mira@example.org", SessionID: "s:1 \n"}
	create := &session.CreateRequest{AppName: key.AppName, UserID: key.UserID, SessionID: key.SessionID, State: map[string]any{"k": "v"}}
	var began, refused int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := adkgo.New(client.New(conn)).Create(ctx, create)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				began++
			} else if errors.Is(err, adkgo.ErrExists) {
				refused++
			}
		})
	}
	wg.Wait()
	if began != 1 || refused != 3 {
		t.Fatalf("of four, %d began it and %d were told that it is there, want 1 and 3", began, refused)
	}
	held := must.Get(one.Get(ctx, &key))(t).Session
	for i := range 20 {
		e := &session.Event{ID: fmt.Sprint(i), Author: "user",
			Actions: session.EventActions{StateDelta: map[string]any{"i": float64(i), "temp:x": 1}}}
		must.Do(t, one.AppendEvent(ctx, held, e))
		if i == 7 { // its writer was not told, and tries again
			must.Do(t, one.AppendEvent(ctx, must.Get(other.Get(ctx, &key))(t).Session, e))
		}
		got := must.Get(other.Get(ctx, &key))(t).Session
		must.Same(t, got.Events().Len(), i+1, "another process reads %d events, want %d")
		must.Same(t, got.Events().At(i).ID, fmt.Sprint(i), "its last event is %s, want %s")
		if value, err := got.State().Get("i"); err != nil || value != float64(i) {
			t.Errorf("state i = %v, %v, want %d", value, err, i)
		}
	}
	must.Same(t, held.Events().Len(), 20, "who appends holds %d events, want %d")
	if value, err := held.State().Get("temp:x"); err != nil || value != 1 {
		t.Errorf("a temp: key of this process = %v, %v, want 1", value, err)
	}
	beside := client.New(conn).Publisher(client.PublisherConfig{}) // what another program notes is no event
	t1 := events.Thread{Session: must.Get(client.New(conn).Sessions(ctx, ""))(t)[0].ID, Name: events.MainThread}
	must.Get(beside.Publish(ctx, client.Entry{Thread: t1, Dialect: "raw", Body: []byte(`{"note":1}`)}))(t)
	must.Do(t, client.New(conn).Thread(t1).Await(ctx, beside.Producer(), 0, 1))
	must.Same(t, must.Get(other.Get(ctx, &key))(t).Session.Events().Len(), 20, "beside a note there are %d events, want %d")
	listed := must.Get(other.List(ctx, &session.ListRequest{AppName: key.AppName}))(t).Sessions
	if len(listed) != 1 || listed[0].ID() != key.SessionID || listed[0].UserID() != key.UserID || listed[0].Events().Len() != 0 {
		t.Errorf("List = %v, want the one session without events", listed)
	}
	must.Do(t, other.Delete(ctx, &session.DeleteRequest{AppName: key.AppName, UserID: key.UserID, SessionID: key.SessionID}))
	if err := one.AppendEvent(ctx, held, &session.Event{ID: "late"}); !errors.Is(err, adkgo.ErrNotFound) {
		t.Errorf("AppendEvent behind the deletion = %v, want ErrNotFound", err)
	}
	again := must.Get(one.Create(ctx, create))(t).Session
	must.Same(t, again.Events().Len(), 0, "the session that begins anew has %d events, want %d")
}

// TestOneProducer: what a service appends to a session is of one producer, whoever appends at the same time, and each event once.
func TestOneProducer(t *testing.T) {
	conn, ctx := store(t), t.Context()
	s := adkgo.New(client.New(conn))
	held := must.Get(s.Create(ctx, &session.CreateRequest{AppName: "a", UserID: "u"}))(t).Session
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.AppendEvent(ctx, held, &session.Event{ID: fmt.Sprint(i), Author: "user"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cl := client.New(conn)
	at := events.Thread{Session: must.Get(cl.Sessions(ctx, ""))(t)[0].ID, Name: events.MainThread}
	must.Same(t, len(must.Get(cl.Thread(at).Head(ctx))(t).Producers), 1, "the session is of %d producers, want %d")
	got := must.Get(s.Get(ctx, &session.GetRequest{AppName: "a", UserID: "u", SessionID: held.ID()}))(t).Session
	must.Same(t, got.Events().Len(), 20, "it has %d events, want %d")
}

// TestLargeEvent: an event with pictures and texts beyond all that a thread holds of an entry comes back as it was.
func TestLargeEvent(t *testing.T) {
	s, ctx := adkgo.New(client.New(store(t))), t.Context()
	held := must.Get(s.Create(ctx, &session.CreateRequest{AppName: "a", UserID: "u"}))(t).Session
	e := &session.Event{ID: "large", Author: "user", LLMResponse: model.LLMResponse{Content: genai.NewContentFromParts([]*genai.Part{
		genai.NewPartFromBytes(bytes.Repeat([]byte("\x89PNG"), 1<<18), "image/png"), genai.NewPartFromText(strings.Repeat("é<\n", 1<<18)),
	}, "user")}}
	must.Do(t, s.AppendEvent(ctx, held, e))
	got := must.Get(s.Get(ctx, &session.GetRequest{AppName: "a", UserID: "u", SessionID: held.ID()}))(t).Session
	if got.Events().Len() != 1 || !reflect.DeepEqual(got.Events().At(0).Content, e.Content) {
		t.Errorf("%d events, want the one that was appended, as it was", got.Events().Len())
	}
}

// TestWhatOthersWrite: lines that are no session's, of any form and at any place of its thread, count as nothing: it is read, begun
// and deleted as without them; and what is appended to a session goes into no other one that had its names before or has them since.
func TestWhatOthersWrite(t *testing.T) {
	conn, ctx := store(t), t.Context()
	s, cl := adkgo.New(client.New(conn)), client.New(conn)
	create := &session.CreateRequest{AppName: "a", UserID: "u", SessionID: "s"}
	held := must.Get(s.Create(ctx, create))(t).Session
	at := events.Thread{Session: must.Get(cl.Sessions(ctx, ""))(t)[0].ID, Name: events.MainThread}
	write := func(lines ...string) {
		pub := cl.Publisher(client.PublisherConfig{})
		for i, one := range lines {
			must.Get(pub.Publish(ctx, client.Entry{Thread: at, Dialect: "raw", Body: []byte(one)}))(t)
			must.Do(t, cl.Thread(at).Await(ctx, pub.Producer(), 0, uint64(i)+1))
		}
	}
	write(`[1]`, `"text"`, `7`, `null`, `{"note":1}`)
	must.Do(t, s.AppendEvent(ctx, held, &session.Event{ID: "1"}))
	key := &session.GetRequest{AppName: "a", UserID: "u", SessionID: "s"}
	if got, err := s.Get(ctx, key); err != nil || got.Session.Events().Len() != 1 {
		t.Errorf("Get = %v, %v, want the session with its event", got, err)
	}
	if got, err := s.List(ctx, &session.ListRequest{AppName: "a"}); err != nil || len(got.Sessions) != 1 {
		t.Errorf("List = %v, %v, want the session", got, err)
	}
	must.Is(t, must.Err(s.Create(ctx, create)), adkgo.ErrExists, "Create of a session that is there")
	must.Do(t, s.Delete(ctx, &session.DeleteRequest{AppName: "a", UserID: "u", SessionID: "s"}))

	// An event that was on its way when its session was deleted: there is a line, and no session.
	write(`{"event":{"ID":"late"}}`)
	must.Is(t, must.Err(s.Get(ctx, key)), adkgo.ErrNotFound, "Get of a session that did not begin")
	must.Is(t, s.AppendEvent(ctx, held, &session.Event{ID: "later"}), adkgo.ErrNotFound, "AppendEvent to it")
	again, err := s.Create(ctx, create)
	if err != nil || again.Session.Events().Len() != 0 {
		t.Fatalf("Create = %v, %v, want a session without events", again, err)
	}
	must.Is(t, s.AppendEvent(ctx, held, &session.Event{ID: "latest"}), adkgo.ErrNotFound, "AppendEvent to the one that was deleted")
	must.Do(t, s.AppendEvent(ctx, again.Session, &session.Event{ID: "1"}))
	must.Same(t, must.Get(s.Get(ctx, key))(t).Session.Events().Len(), 1, "the session that began anew has %d events, want %d")
}

package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// silent stores what it is given, and then fails, or holds the answer up until its client has gone.
type silent struct {
	natsio.Events
	fails, holds int
	stored       chan struct{}
}

func (s *silent) PublishEvents(ctx context.Context, evs []*events.Event) error {
	if err := s.Events.PublishEvents(ctx, evs); err != nil {
		return err
	}
	switch {
	case s.fails > 0:
		s.fails--
		return record.ErrUnknown
	case s.holds > 0:
		s.holds--
		s.stored <- struct{}{}
		<-ctx.Done()
	}
	return nil
}

// A request without a producer that is sent again because its client was not told what became of it stores its entry once: its
// connection broke, its own time was up, or it was told to come again. Equal requests that were answered are two entries.
func TestSentAgainWithoutAProducer(t *testing.T) {
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	out := &silent{Events: conn.Events(), stored: make(chan struct{}, 1)}
	srv := httptest.NewServer(httpapi.New(httpapi.Config{Publisher: out, Client: client.New(conn), Patience: 400 * time.Millisecond}))
	t.Cleanup(srv.Close)
	const path, body = "/v1/sessions/s/threads/main/entries?dialect=item", `{"content":[{"type":"text","text":"go on"}]}`
	cl, entries := client.New(conn), 0
	send := func(want int) {
		t.Helper()
		status, header, text := do(t, srv.URL, request{path: path, kind: "application/json", body: body})
		if status != want || status >= 500 && header.Get("Retry-After") == "" {
			t.Fatalf("answer = %d %s, want %d", status, text, want)
		}
	}
	stored := func(want int) {
		t.Helper()
		p := cl.Publisher(client.PublisherConfig{}) // a mark behind all that was sent
		main := events.Thread{Session: "s", Name: "main"}
		must.Do(t, must.Get(p.Publish(t.Context(), client.Entry{Thread: main, Dialect: "raw", Body: []byte("mark")}))(t).Applied(t.Context()))
		now := int(must.Get(cl.Thread(main).Head(t.Context()))(t).Entries)
		must.Same(t, now-1-entries, want, "%d entries came in, want %d")
		entries = now
	}
	send(202)
	send(202)
	stored(2) // somebody said it twice

	out.fails = 1000 // the same try is repeated for some time
	send(503)
	out.fails = 0
	send(202)
	stored(1)
	send(202)
	stored(1) // that one was answered: this is another

	for range 2 {
		out.holds = 1
		ctx, leave := context.WithCancel(t.Context())
		req := must.Get(http.NewRequestWithContext(ctx, "POST", srv.URL+path, strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/json")
		var gone sync.WaitGroup
		gone.Go(func() {
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
				t.Errorf("a client that left was answered: %s", res.Status)
			}
		})
		<-out.stored
		leave()
		gone.Wait()
		send(202)
		stored(1)
	}
}

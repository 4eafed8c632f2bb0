package tenants_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/tenants"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestDeniedIsTold: a publisher that may not hears so as a typed error, from the server's word and not from its silence: the
// connection's own time for an answer is longer than this test waits.
func TestDeniedIsTold(t *testing.T) {
	s := newSite(t)
	conn, err := natsio.Dial(t.Context(), natsio.Config{
		URL: s.srv.ClientURL(), NKey: s.seeds["acme/agent"], Inbox: tenants.User{Name: "agent"}.Inbox(), Timeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one, many := []*events.Event{event("other", "x", 1)}, []*events.Event{}
	for i := range uint64(40) { // of two sessions, one of which it may publish to: a batch, or an atomic one
		many = append(many, event([]string{"mine", "other"}[i%2], "x", i+1))
	}
	for what, evs := range map[string][]*events.Event{"one": one, "many": many} {
		for range 3 { // the way of publishing is found out meanwhile
			if err := conn.Events().PublishEvents(ctx, evs); !errors.Is(err, record.ErrDenied) || record.Temporary(err) {
				t.Fatalf("%s: PublishEvents = %v, want ErrDenied", what, err)
			}
		}
	}
	if err := client.New(conn).Publisher(client.PublisherConfig{Producer: "x"}).Publish(ctx, client.Entry{
		Thread: events.Thread{Session: "other", Name: "main"}, Dialect: "omp", Body: one[0].Body, Seq: 9,
	}); !errors.Is(err, record.ErrDenied) {
		t.Errorf("Publish = %v, want ErrDenied", err)
	}
	if err := conn.Events().PublishEvents(ctx, []*events.Event{event("mine", "after", 100)}); err != nil {
		t.Errorf("what it may publish = %v", err)
	}
}

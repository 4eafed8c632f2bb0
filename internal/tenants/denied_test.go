package tenants_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/tenants"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestDeniedIsTold: a publisher that may not hears so as a typed error, from the server's word and not from its silence: the
// connection's own time for an answer is longer than this test waits.
func TestDeniedIsTold(t *testing.T) {
	s := newSite(t)
	conn := s.patient("agent", tenants.User{Name: "agent"}.Inbox())
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
	if _, err := client.New(conn).Publisher(client.PublisherConfig{Producer: "x"}).Publish(ctx, client.Entry{
		Thread: events.Thread{Session: "other", Name: "main"}, Dialect: "omp", Body: one[0].Body, Seq: 9,
	}); !errors.Is(err, record.ErrDenied) {
		t.Errorf("Publish = %v, want ErrDenied", err)
	}
	large := make([]*nats.Msg, 40) // more than may be on their way at once: who waits for room hears it too
	for i := range large {
		large[i] = &nats.Msg{Subject: "spool.v1.event.other.main.entry", Data: make([]byte, 900_000)}
	}
	must.Is(t, must.Err(conn.Streams().Send(ctx, large)), record.ErrDenied, "more than the window")
	must.Is(t, conn.Events().PublishEvents(ctx, []*events.Event{event("mine", "after", 100)}), nil, "what it may publish")
}

// patient connects as a user of acme, and waits for any answer as long as a test runs.
func (s *site) patient(user, inbox string) *natsio.Conn {
	s.t.Helper()
	conn := must.Get(natsio.Dial(s.t.Context(), natsio.Config{
		URL: s.url(), NKey: s.seeds["acme/"+user], Inbox: inbox, Timeout: time.Hour,
	}))(s.t)
	s.t.Cleanup(conn.Close)
	return conn
}

// requests are all that a connection asks of a server and waits for, by name.
func requests(c *natsio.Conn) map[string]func(context.Context) error {
	th := events.Thread{Session: "other", Name: "main"}
	object := record.Object{Bucket: events.BlobsBucket, Name: "x", NUID: "x", Chunks: 1, Size: 1}
	admin := natsadmin.New(c)
	all := map[string]func(context.Context) error{
		"Ensure":           func(ctx context.Context) error { return c.Ensure(ctx, natsio.Limits{}) },
		"Verify":           c.Verify,
		"EventsMayPublish": func(ctx context.Context) error { return natsio.MayPublish(ctx, c.Events()) },
		"Backlog":          func(ctx context.Context) error { _, err := c.Events().Backlog(ctx); return err },
		"Done": func(ctx context.Context) error {
			_, err := c.Events().Done(ctx, natsio.Newest{Seq: 1, Partition: 1})
			return err
		},
		"Past": func(ctx context.Context) error {
			_, err := c.Events().Past(ctx, th, "p", 1, 1, 9, 0)
			return err
		},
		"Consume": func(ctx context.Context) error {
			_, err := c.Events().Consume(ctx, 1, func(context.Context) {}, func(natsio.Delivery) {})
			return err
		},
		"NewestEvent":  func(ctx context.Context) error { _, err := c.Events().NewestEvent(ctx, th); return err },
		"ThreadEvents": func(ctx context.Context) error { _, err := c.Events().ThreadEvents(ctx, th); return err },
		"Records":      func(ctx context.Context) error { _, err := c.Records().Records(ctx, "a", "b"); return err },
		"List":         func(ctx context.Context) error { _, err := c.Records().List(ctx, ">"); return err },
		"Ages":         func(ctx context.Context) error { _, err := c.Records().Ages(ctx, ">", 0); return err },
		"Scan": func(ctx context.Context) error {
			_, err := c.Records().Scan(ctx, 1, func(record.Stamped) error { return nil })
			return err
		},
		"Commit": func(ctx context.Context) error {
			_, err := c.Records().Commit(ctx, record.Fence{}, []record.Put{{Key: "a", Value: []byte("v")}})
			return err
		},
		"Forget": func(ctx context.Context) error { return c.Records().Forget(ctx, 1) },
		"FindPack": func(ctx context.Context) error {
			_, err := c.Records().FindPack(ctx, casstore.PackID{})
			return err
		},
		"Watch": func(ctx context.Context) error {
			for _, err := range c.Records().Watch(ctx, ">", natsio.FromCurrent, nil) {
				return err
			}
			return nil
		},
		"Stat":   func(ctx context.Context) error { _, err := c.Objects().Stat(ctx, object.Bucket, "x"); return err },
		"Stored": func(ctx context.Context) error { _, err := c.Objects().Stored(ctx, object.Bucket); return err },
		"Read":   func(ctx context.Context) error { _, err := c.Objects().Read(ctx, object); return err },
		"ReadChunks": func(ctx context.Context) error {
			return c.Objects().ReadChunks(ctx, object, 1, func([]byte) error { return nil })
		},
		"Upload": func(ctx context.Context) error {
			_, err := c.Objects().Upload(ctx, object.Bucket, "x", [][]byte{[]byte("x")})
			return err
		},
		"Reclaim": func(ctx context.Context) error { return c.Objects().Reclaim(ctx, object) },
		"CheckIn": func(ctx context.Context) error {
			_, err := c.Inbox().CheckIn(ctx, strings.NewReader("x"))
			return err
		},
		"Follow": func(ctx context.Context) error {
			for _, err := range c.Items().Follow(ctx, []string{events.ItemSubjects}, natsio.Position{}, nil) {
				return err
			}
			return nil
		},
		"Alone": func(ctx context.Context) error {
			return natsio.Alone(ctx, c.Items(), "d", "", func(context.Context) error { return nil })
		},
		"FollowDurable": func(ctx context.Context) error {
			for _, err := range c.Items().FollowDurable(ctx, "d", []string{events.ItemSubjects}, natsio.Position{}, nil) {
				return err
			}
			return nil
		},
		"UntilNow": func(ctx context.Context) error {
			ignore := func(natsio.StoredItem) error { return nil }
			return c.Items().UntilNow(ctx, []string{events.ItemSubjects}, natsio.Position{}, ignore)
		},
		"Extent": func(ctx context.Context) error {
			_, err := c.Items().Extent(ctx, []string{events.ItemSubjects})
			return err
		},
		"ForgetReader": func(ctx context.Context) error { return c.Items().ForgetReader(ctx, "d") },
		"DropItems":    func(ctx context.Context) error { _, err := c.Items().DropItems(ctx, th, 1); return err },
		"EachLetter": func(ctx context.Context) error {
			return c.DeadLetters().EachLetter(ctx, events.Thread{Session: "other"}, func(natsio.DeadLetter) error { return nil })
		},
		"DropLetters": func(ctx context.Context) error { return c.DeadLetters().DropLetters(ctx, 1) },
		"Outputs": func(ctx context.Context) error {
			for _, err := range c.Outputs().FollowAll(ctx, th, time.Hour) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Live": func(ctx context.Context) error {
			for it, err := range natsio.Live(ctx, c.Items(), events.ItemFilter("other", "", "")) {
				if err != nil || it.Data != nil {
					return err
				}
			}
			return nil
		},
		"Account":      func(ctx context.Context) error { _, err := admin.Account(ctx); return err },
		"Usage":        func(ctx context.Context) error { _, err := admin.Usage(ctx); return err },
		"Trim":         func(ctx context.Context) error { _, err := admin.Trim(ctx); return err },
		"Daemons":      func(ctx context.Context) error { _, err := admin.Daemons(ctx); return err },
		"MayPublish":   admin.MayPublish,
		"Stores":       admin.Stores,
		"ReplayEvents": func(ctx context.Context) error { return admin.ReplayEvents(ctx, 1) },
	}
	return all
}

// TestDeniedRequests: whatever a user asks for and may not, it hears so from the server's word, by the subject.
func TestDeniedRequests(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check := func(conn *natsio.Conn, want string) {
		for name, request := range requests(conn) {
			want, err := want, request(ctx)
			switch { // frames and items come to subscriptions of their own
			case name == "Outputs":
				want = "permission denied: subscribe to spool.v1.live."
			case name == "Live" && errors.Is(err, natsio.ErrNoLive):
				want = "permission denied: subscribe to spool.v1.item."
			}
			if !errors.Is(err, record.ErrDenied) || record.Temporary(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, want ErrDenied with %q", name, err, want)
			}
		}
	}
	ingest := must.Get(natsio.Dial(ctx, natsio.Config{
		URL: s.url(), NKey: s.seeds["acme/ingest"], Inbox: tenants.User{Name: "ingest"}.Inbox(), Scope: events.Everywhere,
	}))(t)
	defer ingest.Close()
	must.Do(t, natsio.MayPublish(ctx, ingest.Events()))
	check(s.patient("agent", tenants.User{Name: "agent"}.Inbox()), "permission denied: ")
	check(s.patient("agent", ""), "NATS_INBOX_PREFIX") // answers come where it may not listen
}

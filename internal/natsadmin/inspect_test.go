package natsadmin_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestInspect(t *testing.T) {
	conn := natstest.Conn(t)
	before := must.Get(conn.Streams().LastSeqs(t.Context(), events.EventsStream, events.RecordsStream))(t)
	must.Is(t, natsadmin.New(conn).MayPublish(t.Context()), nil, "MayPublish")
	after, err := conn.Streams().LastSeqs(t.Context(), events.EventsStream, events.RecordsStream)
	if err != nil || after[events.EventsStream] != before[events.EventsStream] || after[events.RecordsStream] != before[events.RecordsStream] {
		t.Errorf("MayPublish stored something: %v, then %v, %v", before, after, err)
	}
	places, err := natsadmin.New(conn).Placements(t.Context())
	if err != nil || len(places) != 9 || places[0].Replicas != 1 || places[0].Servers != 0 {
		t.Errorf("Placements = %+v, %v, want nine of one copy without a cluster", places, err)
	}
	must.Do(t, conn.JetStream().DeleteStream(t.Context(), events.ItemsStream))
	must.Is(t, natsadmin.New(conn).Stores(t.Context()), nil, "Stores, where a stream is gone")
	if b, err := conn.Events().Backlog(t.Context()); err != nil || len(b.Unserved) != events.Partitions || b.Gone > 0 {
		t.Errorf("Backlog = %+v, %v, want all unserved", b, err)
	}
	stop, err := natsadmin.New(conn).Announce(natsadmin.Service{Role: "persister", Version: "1.2.3",
		Metadata: map[string]string{"build": "v1.2.3"}})
	must.Do(t, err)
	defer stop()
	if got, err := natsadmin.New(conn).Daemons(t.Context()); err != nil || len(got) != 1 ||
		got[0] != (natsadmin.Daemon{Name: "spool-persister", Build: "v1.2.3"}) {
		t.Errorf("Daemons = %v, %v, want the persister", got, err)
	}
}

// A user who may read everything and publish nothing is told so.
func TestMayNotPublish(t *testing.T) {
	s := must.Get(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "all", Password: "all"}, {Username: "reader", Password: "reader", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>", "$JS.ACK.>", "_INBOX.>"}},
		}}},
	}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("no server")
	}
	dial := func(user string) *natsio.Conn {
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: s.ClientURL(), User: user, Password: user}))(t)
		t.Cleanup(c.Close)
		return c
	}
	must.Do(t, dial("all").Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20}))
	must.Is(t, natsadmin.New(dial("reader")).MayPublish(t.Context()), record.ErrDenied, "MayPublish")
}

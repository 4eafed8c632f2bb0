package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A stream that is open while the server is away goes on once that is back, with what came meanwhile, each item once.
func TestStreamsWhileTheServerIsAway(t *testing.T) {
	dir := t.TempDir()
	server := natstest.ServerIn(t, dir)
	wire := &natstest.Wire{}
	wire.Leads(server)
	conn := natstest.Dial(t, wire)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	ctx, th := t.Context(), events.Thread{Session: "s", Name: "main"}
	stop := natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	say(ctx, t, client.New(conn), th, "one")
	paths := []string{"/v1/sessions/s/threads/main/live?from=1", "/v1/live?session=s&since=all", "/v1/live?since=all"}
	var streams []*stream
	for _, path := range paths {
		s := follow(t, ctx, srv.URL+path, "")
		s.until("item")
		streams = append(streams, s)
	}
	stop()
	wire.Leads(nil)
	server.Stop()
	next := natstest.ServerIn(t, dir)
	other := natstest.Dial(t, next) // the one of the streams is still without a server
	natstest.Run(t, service.NewPersister(other, service.PersisterConfig{}, nil).Run)
	say(ctx, t, client.New(other), th, "two")
	wire.Leads(next)
	say(ctx, t, client.New(other), th, "three")
	for i, s := range streams {
		for n, text := range []string{"two", "three"} {
			if _, e := s.until("item"); decode[itemEvent](t, e).N != int64(n+2) || !strings.Contains(e.data, `"`+text+`"`) {
				t.Errorf("%s: %s, want item %d, %s", paths[i], e.data, n+2, text)
			}
		}
		s.stop()
	}
}

// An item is stored behind the commit of its entry. Who comes in between is given it, whether he has nothing yet or was cut off before it.
func TestItemThatIsStoredLate(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	for name, had := range map[string]int64{"begun": 1, "new": 0} {
		th := events.Thread{Session: name, Name: "main"}
		say(ctx, t, cl, th, "one", "two")
		path := url + "/v1/live?since=all&session=" + name
		s := follow(t, ctx, path, "")
		_, one := s.until("item")
		s.until("item")
		s.stop()
		var all []events.Posted
		must.Do(t, conn.Items().UntilNow(ctx, []string{events.ItemFilter(name, "main", "")}, natsio.Position{All: true}, func(it natsio.StoredItem) error {
			all = append(all, events.Posted{Subject: it.Subject, N: it.N, Data: it.Data})
			return nil
		}))
		must.Get(conn.Items().DropItems(ctx, th, had))(t)
		// A feed of its own: by that of the reader before, which may be there still, the items come once.
		s = follow(t, ctx, path+"&thread=main", map[int64]string{1: one.id}[had])
		must.Do(t, conn.Items().PublishItems(ctx, all[had:]))
		_, e := s.until("item")
		must.Same(t, decode[itemEvent](t, e).N, had+1, name+": item %d, want %d")
		s.stop()
	}
}

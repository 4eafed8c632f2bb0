package natsio_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// cluster starts three servers that know each other.
func cluster(t *testing.T) []*server.Server {
	t.Helper()
	return clusterBehind(t, func(addr string) string { return addr })
}

// clusterBehind starts them where each is known by the address that front makes of its own.
func clusterBehind(t *testing.T, front func(addr string) string) []*server.Server {
	t.Helper()
	var routes []*url.URL
	ports := make([]int, 3)
	for i := range ports {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ports[i] = l.Addr().(*net.TCPAddr).Port
		must.Do(t, l.Close())
		routes = append(routes, &url.URL{Scheme: "nats", Host: front(l.Addr().String())})
	}
	var out []*server.Server
	for i, port := range ports {
		s := must.Get(server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "spool", Host: "127.0.0.1", Port: port, Advertise: routes[i].Host}, Routes: routes,
		}))(t)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		out = append(out, s)
	}
	return out
}

// Of three servers that hold every stream, one that is gone is named, and a stream with one copy is seen.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := cluster(t)
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: servers[0].ClientURL(), Timeout: 20 * time.Second}))(t)
	t.Cleanup(conn.Close)
	must.Eventually(t, "three copies", func() error {
		return conn.Ensure(t.Context(), natsio.Limits{Replicas: 3, EventsBytes: 1 << 20, ItemsBytes: 1 << 20})
	})
	look := func(lost int) func() error {
		return func() error {
			places, err := natsadmin.New(conn).Placements(t.Context())
			if err != nil {
				return err
			}
			for _, p := range places {
				if p.Replicas != 3 || p.Servers != 3 || len(p.Lost) != lost || lost == 1 && p.Lost[0] != "n2" {
					return fmt.Errorf("%+v, want 3 replicas on 3 servers, %d lost", p, lost)
				}
			}
			return nil
		}
	}
	must.Eventually(t, "all are there", look(0))
	must.Is(t, natsadmin.New(conn).MayPublish(t.Context()), nil, "MayPublish")
	for _, err := range natsio.Live(t.Context(), conn.Items(), events.ItemSubjects) {
		must.Is(t, err, natsio.ErrNoLive, "live items of a cluster")
	}
	quiet(t, conn)
	servers[2].Shutdown()
	must.Eventually(t, "one is gone", look(1))
}

// quiet: in a cluster the newest record is known to be the newest when a majority stores another one behind it, and on
// that condition alone.
func quiet(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	ctx := t.Context()
	var at uint64
	must.Eventually(t, "a record", func() (err error) { // where a leader has just changed, its answer may be lost
		at, err = conn.Records().Write(ctx, record.Put{Key: "gc.test", Value: []byte("1"), Expect: record.Any})
		return err
	})
	for _, ask := range []struct {
		last uint64
		want bool
	}{{at - 1, false}, {at, true}, {at, false}, {at + 1, true}} {
		must.Same(t, must.Get(conn.Records().Quiet(ctx, ask.last))(t), ask.want, "Quiet(%d) = %v, want %v", ask.last-at)
	}
	must.Same(t, must.Get(conn.Records().Scan(ctx, 1, func(record.Stamped) error { return nil }))(t), at+2, "Scan = %d, want %d")
}

// A server without JetStream is not waited for.
func TestEnsureWithoutJetStream(t *testing.T) {
	t.Parallel()
	s := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: s.ClientURL()}))(t)
	t.Cleanup(c.Close)
	err := c.Ensure(t.Context(), natsio.Limits{})
	if !errors.Is(err, record.ErrRefused) || !strings.Contains(err.Error(), "-js") {
		t.Errorf("%v, want a refusal that says what to do", err)
	}
}

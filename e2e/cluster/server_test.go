package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// servers is how many there are, and how many copies of each stream.
const servers = 3

// node is one nats-server.
type node struct {
	t       testing.TB
	net     *network
	number  int
	dir     string // its data, configuration and log
	bin     string
	url     string // for clients
	monitor string

	*proc.Process
}

// cluster is all of them, and a connection of the test's own.
type cluster struct {
	t     testing.TB
	dir   string
	bin   string
	net   *network
	nodes []*node
	conn  *natsio.Conn
	ops   *nats.Conn // of the system account
}

// patience is how long anything may take that must happen: elections on a machine that has other things to do.
const patience = 3 * time.Minute

// newCluster starts the servers and makes the streams, with three copies each.
func newCluster(t testing.TB, network *network, dir, bin string) *cluster {
	c := &cluster{t: t, dir: dir, bin: bin, net: network}
	ports := c.ports()
	var all []string
	for i := range servers {
		all = append(all, fmt.Sprintf("nats://%s:%d", network.address(routes, i), ports[i].route))
	}
	for i := range servers {
		n := &node{t: t, net: network, number: i, dir: filepath.Join(dir, fmt.Sprint("n", i)), bin: filepath.Join(bin, "nats-server")}
		n.url = fmt.Sprintf("nats://%s:%d", network.address(clients, i), ports[i].client)
		n.monitor = fmt.Sprintf("http://%s:%d", network.address(clients, i), ports[i].monitor)
		n.configure(ports[i], all)
		c.nodes = append(c.nodes, n)
		n.start()
	}
	c.await("the servers find each other", func(ctx context.Context) error { return c.healthy(ctx) })
	var err error
	c.await("a connection", func(ctx context.Context) error {
		c.conn, err = natsio.Dial(ctx, natsio.Config{URL: c.urls(), Timeout: 10 * time.Second, Name: "test"})
		return err
	})
	t.Cleanup(c.conn.Close)
	if c.ops, err = nats.Connect(c.urls(), nats.UserInfo("ops", "ops"), nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.ops.Close)
	c.await("streams with three copies", func(ctx context.Context) error {
		return c.conn.Ensure(ctx, natsio.Limits{Replicas: servers, EventsBytes: 512 << 20, ItemsBytes: 1 << 30})
	})
	c.await("all copies are current", c.current)
	return c
}

// ports are where a server listens. In a namespace of its own it has all of them.
type ports struct{ client, route, monitor int }

func (c *cluster) ports() (out []ports) {
	for range servers {
		p := ports{4222, 6222, 8222}
		if !c.net.namespaces {
			p = ports{proc.Port(c.t), proc.Port(c.t), proc.Port(c.t)}
		}
		out = append(out, p)
	}
	return out
}

// urls are all servers, in any order.
func (c *cluster) urls() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.url)
	}
	return strings.Join(all, ",")
}

func (n *node) conf() string { return filepath.Join(n.dir, "nats.conf") }
func (n *node) log() string  { return filepath.Join(n.dir, "nats.log") }
func (n *node) data() string { return filepath.Join(n.dir, "data") }
func (n *node) name() string { return fmt.Sprint("n", n.number) }

// configure writes what compose.cluster.yaml has, and beside it: an account for operators, no news of other servers to clients, so
// that one with a single address stays on its side of a partition, and pings between servers that find a dead link in seconds.
func (n *node) configure(p ports, others []string) {
	conf := fmt.Sprintf(`server_name: %s
listen: "%s:%d"
http: "%s:%d"
max_payload: 1MB
lame_duck_duration: 30s
lame_duck_grace_period: 1s
jetstream { store_dir: %q, max_file: 8GB, max_mem: 1GB, sync_interval: always }
accounts {
  SPOOL { jetstream: enabled, users: [{user: spool, password: spool}] }
  OPS { users: [{user: ops, password: ops}] }
}
system_account: OPS
no_auth_user: spool
cluster { name: spool, listen: "%s:%d", no_advertise: true, ping_interval: 2s, ping_max: 2, routes: [%s] }
`, n.name(), n.net.address(clients, n.number), p.client, n.net.address(clients, n.number), p.monitor, n.data(),
		n.net.address(routes, n.number), p.route, strings.Join(others, ", "))
	must.Do(n.t, errors.Join(os.MkdirAll(n.dir, 0o755), os.WriteFile(n.conf(), []byte(conf), 0o644)))
}

func (n *node) start() {
	n.Process = proc.Start(n.t, n.net.inside(n.number, n.bin, "-c", n.conf(), "-l", n.log()))
}

// await tries until it works, and fails the test when it does not for a long time.
func (c *cluster) await(what string, try func(context.Context) error) {
	c.t.Helper()
	if err := eventually(c.t.Context(), try); err != nil {
		c.t.Fatalf("%s: %v%s", what, err, c.logs())
	}
}

func eventually(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		once, stop := context.WithTimeout(ctx, 20*time.Second)
		err := try(once)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", patience, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// logs are the last lines of every server.
func (c *cluster) logs() string {
	var out strings.Builder
	for _, n := range c.nodes {
		b, err := os.ReadFile(n.log())
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&out, "\n%s (%v):\n%s", n.name(), err, strings.Join(lines[max(0, len(lines)-12):], "\n"))
	}
	return out.String()
}

// healthy: every server says that it has a leader for all it holds, and has caught up.
func (c *cluster) healthy(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.get(ctx, "/healthz", nil); err != nil {
			return err
		}
	}
	return nil
}

// current: every copy of every stream is there and caught up, by the leaders' word.
func (c *cluster) current(ctx context.Context) error {
	if err := c.healthy(ctx); err != nil {
		return err
	}
	places, err := natsadmin.New(c.conn).Placements(ctx)
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.Servers != servers || len(p.Lost) > 0 {
			return fmt.Errorf("%+v", p)
		}
	}
	return nil
}

// get asks a server's monitor.
func (n *node) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.monitor+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s%s: %s: %.200s", n.name(), path, resp.Status, body)
	case into != nil:
		return json.Unmarshal(body, into)
	}
	return nil
}

// copies names the streams of which the servers do not hold the same: how much, and from where to where.
func (c *cluster) copies(ctx context.Context) (differ []string) {
	type state struct {
		Messages uint64 `json:"messages"`
		First    uint64 `json:"first_seq"`
		Last     uint64 `json:"last_seq"`
	}
	held := map[string]map[state][]string{}
	for _, n := range c.nodes {
		var jsz struct {
			Accounts []struct {
				Streams []struct {
					Name  string `json:"name"`
					State state  `json:"state"`
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		if err := n.get(ctx, "/jsz?streams=true", &jsz); err != nil {
			return []string{err.Error()}
		}
		for _, a := range jsz.Accounts {
			for _, s := range a.Streams {
				if held[s.Name] == nil {
					held[s.Name] = map[state][]string{}
				}
				held[s.Name][s.State] = append(held[s.Name][s.State], n.name())
			}
		}
	}
	for name, states := range held {
		if len(states) > 1 {
			differ = append(differ, fmt.Sprintf("%s: %+v", name, states))
		}
	}
	return differ
}

// leader is who leads a stream; of the name "meta" the group that places streams.
func (c *cluster) leader(ctx context.Context, stream string) (int, error) {
	var name string
	if stream == meta {
		for _, n := range c.nodes {
			var jsz struct {
				Meta struct {
					Leader string `json:"leader"`
				} `json:"meta_cluster"`
			}
			if n.get(ctx, "/jsz", &jsz) == nil && jsz.Meta.Leader != "" {
				name = jsz.Meta.Leader
				break
			}
		}
	} else {
		s, err := c.conn.JetStream().Stream(ctx, stream)
		if err != nil {
			return 0, err
		}
		if info := s.CachedInfo().Cluster; info != nil {
			name = info.Leader
		}
	}
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name() == name })
	if i < 0 {
		return 0, fmt.Errorf("%s has no leader", stream)
	}
	return i, nil
}

const meta = "meta"

// groups are those whose leaders are attacked.
var groups = []string{events.EventsStream, events.RecordsStream, meta}

func (c *cluster) leads(group string) *node {
	c.t.Helper()
	var i int
	c.await("a leader of "+group, func(ctx context.Context) (err error) { i, err = c.leader(ctx, group); return err })
	return c.nodes[i]
}

// stepDown asks the leader of a group to hand over.
func (c *cluster) stepDown(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if group == meta {
		_, err := c.ops.RequestWithContext(ctx, "$JS.API.META.LEADER.STEPDOWN", nil)
		return err
	}
	_, err := c.conn.JetStream().Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+group, nil)
	return err
}

// down: a server that was told to end has ended.
func (n *node) down() {
	n.t.Helper()
	n.Wait()
}

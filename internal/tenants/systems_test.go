package tenants_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/tenants"
)

// cluster starts three servers that know each other and read the same accounts, as compose.cluster.yaml has them.
func (s *site) cluster() (urls []string) {
	s.t.Helper()
	var routes []string
	var held []net.Listener
	for range 3 {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s.t)
		held, routes = append(held, l), append(routes, "nats://"+l.Addr().String())
	}
	for i, route := range routes {
		_ = held[i].Close()
		path := filepath.Join(s.dir, fmt.Sprintf("n%d.conf", i))
		conf := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:-1\nmax_payload: 1MB\njetstream { store_dir: %q }\ninclude ./accounts.conf\n"+
			"cluster { name: spool, listen: %q, routes: [%s] }\n", i, filepath.Join(s.dir, fmt.Sprint("n", i)),
			strings.TrimPrefix(route, "nats://"), strings.Join(routes, ", "))
		must.Do(s.t, os.WriteFile(path, []byte(conf), 0o600))
		opts := must.Get(server.ProcessConfigFile(path))(s.t)
		opts.NoSigs, opts.NoLog = true, true
		srv := must.Get(server.NewServer(opts))(s.t)
		srv.Start()
		s.t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		if !srv.ReadyForConnections(time.Minute) {
			s.t.Fatal("a server is not ready")
		}
		urls = append(urls, srv.ClientURL())
	}
	return urls
}

// newClusterSite is newSite of three servers, each of which has a copy of everything.
func newClusterSite(t *testing.T) *site {
	s := newUsers(t)
	s.urls = s.cluster()
	s.begin(3)
	return s
}

// What roles may do, and may not, is the same on three servers, whichever of them a user, a persister and a stream's leader are at.
func TestRolesOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take a minute")
	}
	for name, test := range map[string]func(*testing.T, *site){
		"tenants": tenantsApart, "refused": rolesRefused, "suffice": rolesSuffice, "headers": hostileHeaders, "deputy": confusedDeputy,
	} {
		t.Run(name, func(t *testing.T) { test(t, newClusterSite(t)) })
	}
}

// TestNothingReachesTheStoreOfACluster is TestNothingReachesTheStore through each of three servers: the user's, the persister's and those
// that lead the streams are different ones.
func TestNothingReachesTheStoreOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take a minute")
	}
	s := newUsers(t)
	urls := s.cluster()
	config := func(role tenants.Role, server int) natsio.Config {
		return natsio.Config{URL: urls[server], NKey: s.seeds["acme/"+string(role)],
			Inbox: tenants.User{Name: string(role)}.Inbox(), Timeout: 10 * time.Second}
	}
	var admin *natsio.Conn
	must.Eventually(t, "streams with three copies", func() (err error) {
		if admin == nil {
			if admin, err = natsio.Dial(t.Context(), config(tenants.Admin, 0)); err != nil {
				return err
			}
			t.Cleanup(admin.Close)
		}
		return admin.Ensure(t.Context(), natsio.Limits{Replicas: 3, EventsBytes: 64 << 20, ItemsBytes: 64 << 20})
	})
	conn := must.Get(natsio.Dial(t.Context(), config(tenants.Persister, 1)))(t)
	t.Cleanup(conn.Close)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	(&target{T: t, urls: urls, seeds: s.seeds, admin: admin}).run()
}

// TestNothingReachesTheStoreOfUp is TestNothingReachesTheStore against the built command, with the users that it makes.
func TestNothingReachesTheStoreOfUp(t *testing.T) {
	dir := t.TempDir()
	bin, auth := filepath.Join(dir, "spool"), filepath.Join(dir, "auth")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	run("go", "build", "-o", bin, "spool/cmd/spool")
	run(bin, "auth", "init", auth)
	run(bin, "auth", "tenant", "add", auth, "acme")
	seeds := map[string]string{"acme/admin": filepath.Join(auth, "acme", "admin.nk")}
	for user, role := range map[string]string{"agent": "agent", "reader": "reader", auditor: "reader", "ingest": "ingest"} {
		args := []string{"auth", "user", "add", auth, "acme/" + user, "--role", role}
		if role == "agent" {
			args = append(args, "--session", "mine", "--session", "mine-too")
		}
		run(bin, args...)
		seeds["acme/"+user] = filepath.Join(auth, "acme", user+".nk")
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	_ = l.Close()
	up := exec.Command(bin, "up", "--data", filepath.Join(dir, "data"), "--auth", auth, "--tenant", "acme", "--listen",
		address, "--http", "127.0.0.1:0")
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	up.Stdout, up.Stderr, up.Env = log, log, append(os.Environ(), "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+
		"/state", "NATS_URL=")
	must.Do(t, up.Start())
	t.Cleanup(func() {
		_ = up.Process.Signal(os.Interrupt)
		_ = up.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("spool up said:\n%.4000s", text)
		}
	})
	var admin *natsio.Conn
	must.Eventually(t, "spool up", func() (err error) {
		admin, err = natsio.Dial(t.Context(), natsio.Config{URL: "nats://" + address, NKey: seeds["acme/admin"],
			Inbox: "_INBOX.admin", Timeout: wait})
		return err
	})
	t.Cleanup(admin.Close)
	must.Eventually(t, "its streams", func() error { return admin.Verify(t.Context()) })
	(&target{T: t, urls: []string{"nats://" + address}, seeds: seeds, admin: admin}).run()
}

package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/pkg/client"
	"spool/pkg/events"
)

// shipped is a nats-server that runs on deploy/nats/nats.conf, of which only the places are other ones: port, store, certificates.
type shipped struct {
	*testing.T
	dir   string
	srv   *server.Server
	conf  tenants.Directory
	seeds map[string]string // of acme's users
}

func startShipped(t *testing.T) *shipped {
	s := &shipped{T: t, dir: t.TempDir(), seeds: map[string]string{}}
	s.conf = tenants.Directory{Version: tenants.Version, System: s.key("system")}
	must.Do(t, s.conf.AddTenant(tenants.Tenant{Name: "acme", Disk: 1 << 30}))
	acme := must.Get(s.conf.Tenant("acme"))(t)
	for _, role := range tenants.Roles {
		u := tenants.User{Name: string(role), Role: role, Key: s.key(string(role))}
		if role == tenants.Agent {
			u.Sessions = []string{"mine"}
		}
		must.Do(t, acme.Add(u))
	}
	s.accounts()
	natstest.Certificate(s, s.dir, 1)
	text := must.Get(os.ReadFile("../../deploy/nats/nats.conf"))(t)
	conf := string(text)
	for was, now := range map[string]string{"listen: 0.0.0.0:4222": "listen: 127.0.0.1:-1", `"/var/lib/nats"`: `"` + s.dir +
		`/store"`, "./server": s.dir + "/server"} {
		if !strings.Contains(conf, was) {
			t.Fatalf("deploy/nats/nats.conf has no %s any more", was)
		}
		conf = strings.ReplaceAll(conf, was, now)
	}
	path := filepath.Join(s.dir, "nats.conf")
	must.Do(t, os.WriteFile(path, []byte(conf), 0o600))
	opts, err := server.ProcessConfigFile(path)
	must.Do(t, err)
	opts.NoSigs, opts.NoLog = true, true
	if s.srv, err = server.NewServer(opts); err != nil {
		t.Fatal(err)
	}
	s.srv.Start()
	t.Cleanup(func() { s.srv.Shutdown(); s.srv.WaitForShutdown() })
	if !s.srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return s
}

func (s *shipped) key(name string) (public string) {
	s.Helper()
	seed, public := must.Two(natsadmin.NewKey())(s)
	s.seeds[name] = filepath.Join(s.dir, name+".nk")
	must.Do(s, os.WriteFile(s.seeds[name], seed, 0o600))
	return public
}

func (s *shipped) accounts() {
	s.Helper()
	must.Do(s, os.WriteFile(filepath.Join(s.dir, "accounts.conf"), s.conf.Conf(), 0o600))
}

func (s *shipped) config(role tenants.Role) natsio.Config {
	return natsio.Config{URL: s.srv.ClientURL(), NKey: s.seeds[string(role)], Inbox: tenants.User{Name: string(role)}.Inbox(),
		TLSCA: filepath.Join(s.dir, "server.pem")}
}

func (s *shipped) dial(role tenants.Role, log io.Writer) *natsio.Conn {
	s.Helper()
	cfg := s.config(role)
	if log != nil {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	conn, err := natsio.Dial(s.Context(), cfg)
	if err != nil {
		s.Fatalf("dial as %s: %v", role, err)
	}
	s.Cleanup(conn.Close)
	return conn
}

// TestShippedConfiguration: the configuration that is shipped starts a real server; every role does there what it is for without a
// complaint, gc too, which collects; spool doctor finds nothing; and a user that is removed is not let in after a reload, nor stays.
func TestShippedConfiguration(t *testing.T) {
	s := startShipped(t)
	admin := s.dial(tenants.Admin, nil)
	must.Do(t, admin.Ensure(t.Context(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	var complaints natstest.Log
	ctx, cancel := context.WithCancel(context.Background())
	p, ended := service.NewPersister(s.dial(tenants.Persister, &complaints), service.PersisterConfig{},
		slog.New(slog.DiscardHandler)), make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.Is(t, <-ended, nil, "persister")
	})
	cl := client.New(admin)
	wanted, done := context.WithTimeout(t.Context(), 4*must.Patience) // of all that follows, a command that is built, too
	defer done()
	agent := s.dial(tenants.Agent, &complaints)
	for i := range uint64(20) {
		must.Do(t, agent.Events().PublishEvents(wanted, []*events.Event{event("mine", "kept", i+1)}))
	}
	gone := event("gone", strings.Repeat("gone ", 1000), 1)
	must.Do(t, s.dial(tenants.Ingest, &complaints).Events().PublishEvents(wanted, []*events.Event{gone}))
	must.Do(t, errors.Join(cl.Thread(event("mine", "", 1).Thread).Await(wanted, "p-mine", 0, 20), cl.Thread(gone.Thread).Await(wanted,
		"p-gone", 0, 1)))
	must.Get(cl.Session("gone").Delete(wanted, client.Deletion{}))(t)
	must.Do(t, faulttest.Settle(wanted, admin))

	collector := s.dial(tenants.Collector, &complaints)
	cfg := gc.Safe()
	cfg.Allow = []gc.Brake{gc.BrakeShare}
	condemned := 0
	for range 3 { // what is condemned is reclaimed by the cycle after
		c := must.Get(service.NewCollector(collector, cfg, nil))(t)
		_, rep := must.Two(service.Collect(wanted, collector, c, true))(t)
		condemned += rep.Done.Condemned + rep.Done.Buried + rep.Done.Repacked
	}
	if condemned == 0 {
		t.Error("gc found nothing of the session that is gone")
	}
	if text := complaints.String(); strings.Contains(text, "ermission") {
		t.Errorf("the server complained:\n%s", text)
	}
	s.doctor()

	// A user goes: the one who is there is shown out, and nobody comes in with that key.
	shown := make(chan struct{})
	opt := must.Get(nats.NkeyOptionFromSeed(s.seeds[string(tenants.Reader)]))(t)
	nc := must.Get(nats.Connect(s.srv.ClientURL(), opt, nats.RootCAs(filepath.Join(s.dir, "server.pem")),
		nats.CustomInboxPrefix("_INBOX.reader"), nats.NoReconnect(),
		nats.ClosedHandler(func(*nats.Conn) { close(shown) })))(t)
	defer nc.Close()
	acme := must.Get(s.conf.Tenant("acme"))(t)
	must.Do(t, acme.Remove(string(tenants.Reader)))
	s.accounts()
	must.Do(t, s.srv.Reload())
	must.Receive(t, shown, "a user that was removed stays connected")
	if c, err := natsio.Dial(t.Context(), s.config(tenants.Reader)); err == nil {
		c.Close()
		t.Error("a user that was removed is let in")
	}
	if err := agent.Events().PublishEvents(wanted, []*events.Event{event("mine", "after the reload", 21)}); err != nil {
		t.Errorf("another user after the reload: %v", err)
	}
}

// doctor runs the real command.
func (s *shipped) doctor() {
	s.Helper()
	bin := filepath.Join(s.dir, "spool")
	if out, err := exec.CommandContext(s.Context(), "go", "build", "-o", bin, "spool/cmd/spool").CombinedOutput(); err != nil {
		s.Fatalf("build spool: %v %s", err, out)
	}
	must.Eventually(s, "spool doctor", func() error { // right after a start not every partition is asked for
		cmd := exec.CommandContext(s.Context(), bin, "--nats", s.srv.ClientURL(), "--nkey", s.seeds[string(tenants.Admin)],
			"--inbox-prefix", "_INBOX.admin", "--tlsca", filepath.Join(s.dir, "server.pem"), "doctor")
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

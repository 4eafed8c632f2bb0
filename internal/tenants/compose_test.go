package tenants_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/pkg/client"
	"spool/pkg/events"
)

var update = flag.Bool("update", false, "write the accounts into the compose files")

// TestComposeAccounts: the accounts in both compose files are those that the table of roles makes.
func TestComposeAccounts(t *testing.T) {
	const begin, end = "      accounts {\n", "\n      }\n"
	var want strings.Builder
	for line := range strings.Lines(composeAccounts()) {
		want.WriteString("      " + line)
	}
	for _, file := range []string{"../../compose.yaml", "../../compose.cluster.yaml"} {
		b := must.Get(os.ReadFile(file))(t)
		text := string(b)
		from := strings.Index(text, begin)
		if from < 0 {
			t.Fatalf("%s has no accounts", file)
		}
		to := from + strings.Index(text[from:], end) + len(end)
		if text[from:to] == want.String() {
			continue
		}
		if !*update {
			t.Errorf("%s has other accounts than the roles: go test ./internal/tenants -run TestComposeAccounts -update", file)
			continue
		}
		must.Do(t, os.WriteFile(file, []byte(text[:from]+want.String()+text[to:]), 0o644))
	}
}

// composeAccounts are the accounts of compose.yaml and compose.cluster.yaml, as those files have to write them: one tenant, whose name
// and users are all called after what they are, with passwords from the environment.
func composeAccounts() string {
	d := tenants.Directory{Tenants: []tenants.Tenant{{Name: "spool", Users: []tenants.User{
		{Name: "spool", Role: tenants.Admin, Password: "@SPOOL_NATS_PASSWORD@"},
		{Name: "agents", Role: tenants.Agent, Password: "@SPOOL_AGENT_PASSWORD@", Sessions: []string{"*"}},
		{Name: "readers", Role: tenants.Reader, Password: "@SPOOL_READER_PASSWORD@"},
	}}}}
	_, text, _ := strings.Cut(string(d.Conf()), "\n") // without the line that says who wrote it
	text = strings.ReplaceAll(text, "$", "$$")        // compose replaces what begins with one
	for _, name := range []string{"SPOOL_NATS_PASSWORD", "SPOOL_AGENT_PASSWORD", "SPOOL_READER_PASSWORD"} {
		text = strings.ReplaceAll(text, "@"+name+"@", "${"+name+":?set "+name+", see the top of compose.yaml}")
	}
	return text
}

// composed is the server's configuration in a compose file, as compose gives it to the server; every password is the name of its
// variable. Only the places are other ones.
func composed(t *testing.T, file, store string) string {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	_, rest, ok := strings.Cut(string(b), "\n    content: |\n")
	if !ok {
		t.Fatalf("%s has no configuration", file)
	}
	var conf strings.Builder
	for line := range strings.Lines(rest) {
		if text, ok := strings.CutPrefix(line, "      "); ok {
			conf.WriteString(text)
		} else if strings.TrimSpace(line) != "" {
			break
		}
	}
	variable := regexp.MustCompile(`\$\{(\w+)(:\?[^}]*)?\}`)
	text := strings.ReplaceAll(variable.ReplaceAllString(conf.String(), "$1"), "$$", "$")
	for was, now := range map[string]string{"listen: 0.0.0.0:4222": "listen: 127.0.0.1:-1", "http: 127.0.0.1:8222\n": "",
		"store_dir: /data": fmt.Sprintf("store_dir: %q", store)} {
		if !strings.Contains(text, was) {
			t.Fatalf("%s has no %s any more", file, was)
		}
		text = strings.ReplaceAll(text, was, now)
	}
	return text
}

// TestComposed: the server of compose.yaml takes over what an earlier version stored, once its directory is moved as the file does; and
// each of its users does what it is for.
func TestComposed(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	conf := composed(t, "../../compose.yaml", store)
	from, to := strings.Index(conf, "accounts {"), strings.LastIndex(conf, "}")
	run := func(text string) (url string, stop func()) {
		t.Helper()
		path := filepath.Join(dir, "nats.conf")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		opts := must.Get(server.ProcessConfigFile(path))(t)
		opts.NoSigs, opts.NoLog = true, true
		srv := must.Get(server.NewServer(opts))(t)
		srv.Start()
		if !srv.ReadyForConnections(time.Minute) {
			t.Fatal("the server is not ready")
		}
		return srv.ClientURL(), func() { srv.Shutdown(); srv.WaitForShutdown() }
	}
	dial := func(url, user, password string) *natsio.Conn {
		t.Helper()
		c, err := natsio.Dial(t.Context(), natsio.Config{URL: url, User: user, Password: password, Inbox: "_INBOX." + user, Timeout: wait})
		must.Do(t, err)
		t.Cleanup(c.Close)
		return c
	}
	// As it was: one user, and no account.
	url, stop := run(conf[:from] + "authorization { user: spool, password: SPOOL_NATS_PASSWORD }\n" + conf[to+1:])
	old := dial(url, "spool", "SPOOL_NATS_PASSWORD")
	must.Do(t, old.Ensure(t.Context(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	must.Do(t, old.Events().PublishEvents(t.Context(), []*events.Event{event("old", "from before", 1)}))
	old.Close()
	stop()
	must.Do(t, os.Rename(filepath.Join(store, "jetstream", "$G"), filepath.Join(store, "jetstream", "spool")))

	url, stop = run(conf)
	defer stop()
	system := dial(url, "spool", "SPOOL_NATS_PASSWORD")
	must.Do(t, system.Verify(t.Context()))
	defer natstest.Run(t, service.NewPersister(system, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)()
	limited, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	agent, reader := dial(url, "agents", "SPOOL_AGENT_PASSWORD"), client.New(dial(url, "readers", "SPOOL_READER_PASSWORD"))
	must.Do(t, agent.Events().PublishEvents(limited, []*events.Event{event("new", "hello", 1)}))
	for _, session := range []string{"old", "new"} {
		must.Is(t, reader.Thread(events.Thread{Session: session, Name: "main"}).Await(limited, "p-"+session, 0, 1), nil, "session %s", session)
	}
	for item, err := range reader.Subscribe(limited, client.Filter{Session: "new"}, client.Position{All: true}) {
		must.Is(t, err, nil, "item %v", item)
		break
	}
}

// TestComposedCluster: the servers of compose.cluster.yaml read their configuration.
func TestComposedCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nats.conf")
	t.Setenv("SERVER_NAME", "nats-1")
	must.Do(t, os.WriteFile(path, []byte(composed(t, "../../compose.cluster.yaml", t.TempDir())), 0o600))
	opts := must.Get(server.ProcessConfigFile(path))(t)
	if len(opts.Accounts) != 3 {
		t.Errorf("%d accounts, want Spool's, the agents' and the readers'", len(opts.Accounts))
	}
}

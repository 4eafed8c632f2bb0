package spooltest_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/embedded"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/spooltest"
)

const token = "spooltest-0123456789"

// serve is Spool's own HTTP side, for tokens, at a server that listens.
func serve(t *testing.T) (conn *natsio.Conn, nats, url string) {
	t.Helper()
	server := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(server.Stop)
	conn = natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	tokens := must.Get(access.Parse("kit read,write,answer,admin " + token + "\n"))(t)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{Tokens: tokens, History: filepath.Join(t.TempDir(), "history.db")}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return conn, server.ClientURL(), srv.URL
}

// TestServer holds a server to docs/http.md: the one at SPOOL_HTTP, with the token SPOOL_TOKEN, or Spool's own.
func TestServer(t *testing.T) {
	url, with := os.Getenv("SPOOL_HTTP"), os.Getenv("SPOOL_TOKEN")
	if url == "" {
		_, _, url = serve(t)
		with = token
	}
	spooltest.RunHTTP(t, url, with)
}

// goClient is the Go client, over NATS.
type goClient struct{ *client.Client }

func (c goClient) Publish(ctx context.Context, session, thread string, entries []string) error {
	p := c.Publisher(client.PublisherConfig{})
	for _, e := range entries {
		at := client.Entry{Thread: events.Thread{Session: session, Name: thread}, Dialect: "item", Body: []byte(e)}
		if err := p.Publish(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (c goClient) Items(ctx context.Context, session, thread string, count int) (items []json.RawMessage, err error) {
	for it, err := range c.Subscribe(ctx, client.Filter{Session: session, Thread: thread}, client.Position{All: true}) {
		if err != nil {
			return nil, err
		}
		if items = append(items, it.Raw); len(items) == count {
			break
		}
	}
	return items, nil
}

// program is a client of docs/protocol.md that is a program, as those of examples/clients.
type program struct{ nats string }

func (c program) run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "python3", append([]string{"../../examples/clients/spool.py"}, args...)...)
	cmd.Env = append(os.Environ(), "NATS_URL="+c.nats)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func (c program) Publish(ctx context.Context, session, thread string, entries []string) error {
	_, err := c.run(ctx, strings.Join(entries, "\n"), "publish", session, thread)
	return err
}

func (c program) Items(ctx context.Context, session, thread string, count int) (items []json.RawMessage, err error) {
	out, err := c.run(ctx, "", "follow", session, thread, strconv.Itoa(count))
	for line := range strings.Lines(out) {
		items = append(items, json.RawMessage(line))
	}
	return items, err
}

// TestClients: three clients do what a client does: by HTTP alone, the Go client, and the example in Python, which speaks NATS by itself.
func TestClients(t *testing.T) {
	conn, nats, url := serve(t)
	s := spooltest.Server{URL: url, Token: token}
	t.Run("http", func(t *testing.T) { spooltest.RunClient(t, s, spooltest.HTTP(s)) })
	t.Run("go", func(t *testing.T) { spooltest.RunClient(t, s, goClient{client.New(conn)}) })
	t.Run("python", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip(err)
		}
		spooltest.RunClient(t, s, program{nats})
	})
}

// TestBrokenServers: a server that answers one thing in another way fails the case that is about it, and no other of those that are tried.
func TestBrokenServers(t *testing.T) {
	_, _, url := serve(t)
	to := must.Get(neturl.Parse(url))(t)
	cases := map[string]spooltest.Case{}
	for _, c := range spooltest.Cases() {
		cases[c.Name] = c
	}
	tried := []string{"store: a producer sends again", "store: answers", "read: pages of items", "follow: cut everywhere", "artifacts: bytes"}
	for fails, broken := range map[string]httputil.ReverseProxy{
		"store: answers": {ModifyResponse: func(res *http.Response) error { // the second answer counts, too
			if strings.HasSuffix(res.Request.URL.Path, "/answer") && res.StatusCode == http.StatusConflict {
				res.StatusCode = http.StatusOK
			}
			return nil
		}},
		"store: a producer sends again": {Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Spool-Producer")
			r.Out.Header.Del("Spool-Seq")
		}},
		"follow: cut everywhere": {Rewrite: func(r *httputil.ProxyRequest) { // it forgets a tenth of what a reader had
			r.SetURL(to)
			if last := r.In.Header.Get("Last-Event-ID"); strings.HasPrefix(last, "3;") || last == "3" {
				r.Out.Header.Set("Last-Event-ID", "2"+last[1:])
			}
		}},
		"artifacts: bytes": {Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Header.Del("If-None-Match") }},
		"read: pages of items": {Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			q := r.Out.URL.Query()
			q.Del("before")
			r.Out.URL.RawQuery = q.Encode()
		}},
	} {
		if broken.Rewrite == nil {
			broken.Rewrite = func(r *httputil.ProxyRequest) { r.SetURL(to) }
		}
		broken.FlushInterval, broken.ErrorLog = -1, log.New(io.Discard, "", 0)
		srv := httptest.NewServer(&broken)
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		for _, name := range tried {
			err := cases[name].Run(t.Context(), spooltest.Server{URL: srv.URL, Token: token})
			if failed := err != nil; failed != (name == fails) {
				t.Errorf("of a server that breaks %q the case %q says %v", fails, name, err)
			}
		}
	}
}

// Every case says what docs/http.md says, in its words, and has a name of its own.
func TestCasesAreOfTheDocument(t *testing.T) {
	doc := strings.Join(strings.Fields(string(must.Get(os.ReadFile("../../docs/http.md"))(t))), " ")
	names := map[string]bool{}
	for _, c := range append(spooltest.Cases(), spooltest.ClientCases(nil)...) {
		if !strings.Contains(doc, c.Says) || names[c.Name] {
			t.Errorf("%s: docs/http.md does not say %q, or the name is there twice", c.Name, c.Says)
		}
		names[c.Name] = true
	}
}

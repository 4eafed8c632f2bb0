package spooltest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/embedded"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/quota"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/spooltest"
)

const token = "spooltest-0123456789"

// sessionBytes is more than cases store of a session, but for the one about quotas.
const sessionBytes = 2 << 20

// serve is Spool's own HTTP side, for tokens, at a server that listens.
func serve(t *testing.T) (conn *natsio.Conn, s spooltest.Server) {
	t.Helper()
	server := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(server.Stop)
	conn = natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	s = spooltest.Server{NATS: server.ClientURL(), Token: token, Reader: "reads-0123456789", Writer: "writes-0123456789",
		Narrow: "narrow-0123456789", SessionBytes: sessionBytes}
	tokens := must.Get(access.Parse("kit read,write,answer,admin " + token + "\nreader read " + s.Reader + "\nwriter write " + s.Writer +
		"\nnarrow read,write " + s.Narrow + " session=" + spooltest.NarrowPrefix + "\n"))(t)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{Tokens: tokens, History: filepath.Join(t.TempDir(), "history.db"),
		Quotas: quota.New(quota.Rates{Session: quota.Rate{Bytes: sessionBytes}})}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	s.URL = srv.URL
	return conn, s
}

// server is the one to hold to the documents: that of SPOOL_HTTP and SPOOL_NATS, with the token SPOOL_TOKEN, or Spool's own.
func server(t *testing.T) spooltest.Server {
	s := spooltest.Server{URL: os.Getenv("SPOOL_HTTP"), NATS: os.Getenv("SPOOL_NATS"), Token: os.Getenv("SPOOL_TOKEN")}
	if s.URL == "" && s.NATS == "" {
		_, s = serve(t)
	}
	return s
}

// TestServer holds a server to docs/http.md, and to docs/protocol.md.
func TestServer(t *testing.T) {
	s := server(t)
	if s.URL != "" {
		t.Run("http", func(t *testing.T) { spooltest.RunHTTP(t, s) })
	}
	if s.NATS != "" {
		t.Run("nats", func(t *testing.T) { spooltest.RunNATS(t, s) })
	}
}

// goClient is the Go client, over NATS.
type goClient struct{ *client.Client }

func (c goClient) Publish(ctx context.Context, session, thread string, entries []string) error {
	p := c.Publisher(client.PublisherConfig{})
	for _, e := range entries {
		at := client.Entry{Thread: events.Thread{Session: session, Name: thread}, Dialect: "item", Body: []byte(e)}
		if _, err := p.Publish(ctx, at); err != nil {
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

// program is a client that is a program: those of clients/, by a few lines around them.
type program struct {
	spooltest.Server
	command []string
}

func (c program) run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.command[0], append(c.command[1:], args...)...)
	cmd.Env = append(os.Environ(), "SPOOL_HTTP="+c.URL, "SPOOL_TOKEN="+c.Token, "PYTHONPATH=../../clients/python", "PYTHONDONTWRITEBYTECODE=1")
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

// TestClients: four clients do what a client does: by HTTP alone, the Go client over NATS, and the packages for Python and JavaScript.
func TestClients(t *testing.T) {
	conn, s := serve(t)
	t.Run("http", func(t *testing.T) { spooltest.RunClient(t, s, spooltest.HTTP(s)) })
	t.Run("go", func(t *testing.T) { spooltest.RunClient(t, s, goClient{client.New(conn)}) })
	for name, command := range map[string][]string{
		"python":     {"python3", "../../clients/python/tests/kit.py"},
		"javascript": {"node", "../../clients/javascript/kit.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip("NOT RUN: no", command[0])
			}
			spooltest.RunClient(t, s, program{s, command})
		})
	}
}

// breaks is what a server does in another way than it should, and the cases that are about it.
type breaks struct {
	fails []string
	proxy httputil.ReverseProxy
}

// TestBrokenServers: a server that answers one thing in another way fails the cases that are about it, and no other of those that are
// tried.
func TestBrokenServers(t *testing.T) {
	_, s := serve(t)
	to := must.Get(neturl.Parse(s.URL))(t)
	cases := map[string]spooltest.Case{}
	for _, c := range spooltest.Cases() {
		cases[c.Name] = c
	}
	rewrite := func(more func(*httputil.ProxyRequest)) httputil.ReverseProxy {
		return httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); more(r) }}
	}
	everything := func(from string) httputil.ReverseProxy { // a token gives all that there is
		return rewrite(func(r *httputil.ProxyRequest) {
			if r.In.Header.Get("Authorization") == "Bearer "+from {
				r.Out.Header.Set("Authorization", "Bearer "+token)
			}
		})
	}
	answer := func(change func(*http.Response)) httputil.ReverseProxy {
		proxy := rewrite(func(*httputil.ProxyRequest) {})
		proxy.ModifyResponse = func(res *http.Response) error { change(res); return nil }
		return proxy
	}
	all := []breaks{
		{[]string{"store: answers"}, answer(func(res *http.Response) { // the second answer counts, too
			if strings.HasSuffix(res.Request.URL.Path, "/answer") && res.StatusCode == http.StatusConflict {
				res.StatusCode = http.StatusOK
			}
		})},
		{[]string{"store: a producer sends again"}, rewrite(func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Spool-Producer")
			r.Out.Header.Del("Spool-Seq")
		})},
		{[]string{"follow: cut everywhere"}, rewrite(func(r *httputil.ProxyRequest) { // it forgets a tenth of what a reader had
			if last := r.In.Header.Get("Last-Event-ID"); strings.HasPrefix(last, "3;") || last == "3" {
				r.Out.Header.Set("Last-Event-ID", "2"+last[1:])
			}
		})},
		{[]string{"artifacts: bytes"}, rewrite(func(r *httputil.ProxyRequest) { r.Out.Header.Del("If-None-Match") })},
		{[]string{"read: pages of items"}, rewrite(func(r *httputil.ProxyRequest) {
			q := r.Out.URL.Query()
			q.Del("before")
			r.Out.URL.RawQuery = q.Encode()
		})},
		{[]string{"tokens: read alone"}, everything(s.Reader)},
		{[]string{"tokens: write alone", "tokens: what a writer is not told"}, everything(s.Writer)},
		{[]string{"tokens: some sessions"}, everything(s.Narrow)},
		{[]string{"limits: beyond a quota"}, answer(func(res *http.Response) {
			if res.StatusCode == http.StatusTooManyRequests {
				res.Header.Set("Retry-After", "0")
			}
		})},
		{[]string{"limits: too large"}, answer(func(res *http.Response) {
			if res.StatusCode == http.StatusRequestEntityTooLarge {
				res.StatusCode = http.StatusBadRequest
			}
		})},
		{[]string{"mcp: a message, and its answer"}, answer(func(res *http.Response) { res.Header.Set("Mcp-Session-Id", "1") })},
		{[]string{"mcp: what agents are shown"}, rewrite(func(r *httputil.ProxyRequest) {
			if r.In.Header.Get("Mcp-Protocol-Version") != "" && r.In.Header.Get("Authorization") == "Bearer "+token {
				r.Out.Header.Set("Authorization", "Bearer "+s.Narrow)
			}
		})},
	}
	for _, broken := range all {
		broken.proxy.FlushInterval, broken.proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
		srv := httptest.NewServer(&broken.proxy)
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		at := s
		at.URL = srv.URL
		t.Run(broken.fails[0], func(t *testing.T) {
			t.Parallel()
			for _, other := range all {
				for _, name := range other.fails {
					err := cases[name].Run(t.Context(), at)
					if failed := err != nil; failed != slices.Contains(broken.fails, name) {
						t.Errorf("the case %q says %v", name, err)
					}
				}
			}
		})
	}
}

// TestBrokenNATS: each case of docs/protocol.md fails at a server that takes, or tells, what it is about in another way. What stands for
// what is as long as that, for a message says its length before.
func TestBrokenNATS(t *testing.T) {
	_, s := serve(t)
	spooltest.Impatient(t, 2*time.Second)
	broken := map[string]struct {
		old, now string
		from     int // the which one it is, from 0; all behind it are, too
	}{
		"an ack":                     {`"SPOOL_EVENTS"`, `"SPOOL_OTHERS"`, 0},
		"sent again":                 {`"seq":7`, `"seq":8`, 1},
		"an old sequence":            {`"seq":4`, `"seq":6`, 0},
		"a sequence names one event": {`"seq":1`, `"seq":2`, 1},
		"an older incarnation":       {`"epoch":1`, `"epoch":0`, 0},
		"a predecessor":              {`"prev":2`, `"prev":0`, 0},
		"bodies":                     {`"body_base64"`, `"body_base65"`, 0},
		"a body in the inbox":        {`"ref":`, `"rex":`, 0},
		"one message for many":       {`"more":`, `"none":`, 0},
		"members":                    {`"colour":"green"`, `"dialect":"itex"`, 0},
		"another session's envelope": {`"session":"another"`, `"sitting":"another"`, 0},
		"one body":                   {`"body_base64"`, `"body_base65"`, 0},
		"what is no JSON":            {`"body":"{"`, `"body":"1"`, 0},
		"depth":                      {"Spool-Reason", "Spool-Season", 0},
		"subjects of items":          {"tool_result.error", "tool_result.other", 0},
		"where a reader begins":      {`"last_per_subject"`, `"all"             `, 0},
		"what an envelope claims":    {`"time":"2020`, `"time":"2021`, 0},
		"a thread that has ended":    {`"op":"end"`, `"op":"fin"`, 0},
		"a fork":                     {`"whole":true`, `"whole":null`, 0},
		"an output":                  {`"is_error":true`, `"is_error":null`, 0},
		"attempts":                   {`"attempt":"b"`, `"attempt":"a"`, 0},
		"lives":                      {"Spool-Life", "Spool-Wife", 0},
		"state":                      {"$KV.spool.run.", "$KV.spool.ran.", 0},
	}
	for _, c := range spooltest.ProtocolCases() {
		b, ok := broken[strings.TrimPrefix(c.Name, "protocol: ")]
		if !ok || len(b.old) != len(b.now) {
			t.Errorf("nothing breaks %q, or %q is not as long as %q", c.Name, b.old, b.now)
			continue
		}
		at := s
		at.NATS = "nats://" + replaces(t, strings.TrimPrefix(s.NATS, "nats://"), b.old, b.now, b.from)
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), at); err == nil {
				t.Errorf("it holds where %q stands for %q", b.now, b.old)
			}
		})
	}
}

// replaces is the address of a proxy before another one, which writes now for old, in both directions, but for the first ones.
func replaces(t *testing.T, to, old, now string, first int) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	pass := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		for in := bufio.NewReader(from); ; {
			line, err := in.ReadString('\n')
			mu.Lock()
			if n := strings.Count(line, old); n > 0 {
				if first <= 0 {
					line = strings.ReplaceAll(line, old, now)
				}
				first -= n
			}
			mu.Unlock()
			if _, failed := to.Write([]byte(line)); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = here.Close()
				return
			}
			go pass(here, there)
			go pass(there, here)
		}
	}()
	return l.Addr().String()
}

// Every case says what its document says, in its words, and has a name of its own.
func TestCasesAreOfTheDocument(t *testing.T) {
	names := map[string]bool{}
	for file, cases := range map[string][]spooltest.Case{
		"http.md":     append(spooltest.Cases(), spooltest.ClientCases(nil)...),
		"protocol.md": spooltest.ProtocolCases(),
	} {
		doc := strings.Join(strings.Fields(string(must.Get(os.ReadFile("../../docs/"+file))(t))), " ")
		for _, c := range cases {
			if !strings.Contains(doc, c.Says) || names[c.Name] {
				t.Errorf("%s: %s does not say %q, or the name is there twice", c.Name, file, c.Says)
			}
			names[c.Name] = true
		}
	}
}

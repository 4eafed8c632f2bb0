package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/internal/access"
	"spool/internal/history"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/quota"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// peer is a program with the SDK's client, which speaks to /mcp with a token.
type peer struct {
	*testing.T
	ctx context.Context
	*sdk.ClientSession
}

func newPeer(ctx context.Context, t *testing.T, url, token, version string) *peer {
	t.Helper()
	to := &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
	s := must.Get(sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, to,
		&sdk.ClientSessionOptions{ProtocolVersion: version}))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return &peer{t, ctx, s}
}

// call calls a tool, and gives what a model reads.
func (p *peer) call(tool string, args map[string]any) (said string, failed bool) {
	p.Helper()
	res := must.Get(p.CallTool(p.ctx, &sdk.CallToolParams{Name: tool, Arguments: args}))(p)
	return res.Content[0].(*sdk.TextContent).Text, res.IsError
}

func (p *peer) tools() (names string) {
	p.Helper()
	for tool, err := range p.Tools(p.ctx, nil) {
		must.Do(p, err)
		names += tool.Name + " "
	}
	return names
}

// mcpVersions are those of the protocol: the first with HTTP, the last with a handshake, the one without.
var mcpVersions = []string{"2025-03-26", "2025-11-25", "2026-07-28"}

// TestMCP: a program that speaks the Model Context Protocol sees over HTTP what its token may see, and nothing of another session,
// by whatever name it asks.
func TestMCP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	conn, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t), History: file, Version: "test"})
	art := map[string]artifacts.Record{}
	for _, session := range []string{"ci-1", "prod"} {
		th := events.Thread{Session: session, Name: "main"}
		pub := cl.Publisher(client.PublisherConfig{User: "mira"})
		must.Do(t, must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item",
			Body: []byte(`{"content":[{"type":"text","text":"hello from ` + session + `"}]}`)}))(t).Applied(ctx))
		art[session] = must.Get(cl.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: session}},
			strings.NewReader("log of "+session)))(t)
		go func() { _, _ = cl.Thread(th).Ask(ctx, events.Prompt{ID: "p", Kind: events.PromptText, Text: "Which?"}) }()
		for waiting := 0; waiting == 0; {
			waiting = len(must.Get(cl.Session(session).Prompts(ctx))(t))
		}
		must.Do(t, cl.Thread(th).Settled(ctx)) // its items are out, behind their commits
	}
	must.Do(t, history.With(file, func(db *history.DB) error { return history.NewFollower(db, conn, nil).CatchUp(ctx) }))
	must.Do(t, history.With(history.ItemsFile(file),
		func(db *history.DB) error { return history.NewItemsFollower(db, conn, nil).CatchUp(ctx) }))
	of := func(session string) map[string]map[string]any {
		return map[string]map[string]any{
			"read_thread": {"session": session}, "read_item": {"session": session, "n": 1}, "list_artifacts": {"session": session},
			"read_artifact": {"session": session, "artifact": string(art[session].Seq)}, "list_waiting": {"session": session},
			"search_history": {"session": session},
			"search":         {"session": session, "query": "from"},
		}
	}
	for _, version := range mcpVersions {
		for _, token := range []string{reader, narrow} {
			p := newPeer(ctx, t, url, token, version)
			must.Same(t, p.InitializeResult().ProtocolVersion, version, "version %s, want %s")
			if names := p.tools(); strings.Contains(names, "answer_prompt") || !strings.Contains(names, "read_thread") {
				t.Errorf("tools = %s, want those that read", names)
			}
			for session, sees := range map[string]bool{"ci-1": true, "prod": token == reader} {
				for tool, args := range of(session) {
					if said, failed := p.call(tool, args); failed == sees || strings.Contains(said, session+`"`) != sees {
						t.Errorf("%.6s %s %v = %s, failed %v, want that it is seen: %v", token, tool, args, said, failed, sees)
					}
				}
				for _, tool := range []string{"list_sessions", "search_history", "list_waiting"} {
					if said, failed := p.call(tool, nil); failed || strings.Contains(said, `"`+session+`"`) != sees {
						t.Errorf("%.6s %s = %s, want %s in it: %v", token, tool, said, session, sees)
					}
				}
				for _, uri := range []string{"", "/thread/main", "/item/1", "/artifact/" + string(art[session].ID)} {
					res, err := p.ReadResource(ctx, &sdk.ReadResourceParams{URI: "spool://session/" + session + uri})
					if sees != (err == nil && strings.Contains(res.Contents[0].Text, `"`+session+`"`)) {
						t.Errorf("%.6s %s%s = %v, %v, want that it is seen: %v", token, session, uri, res, err, sees)
					}
				}
			}
		}
		p := newPeer(ctx, t, url, narrow, version)
		id := string(art["prod"].ID)
		for tool, all := range map[string][]map[string]any{
			"read_artifact": {{"session": "ci-1", "artifact": id}, {"session": "ci-1", "artifact": "artifact://" + id},
				{"session": "ci-1", "artifact": "prod/threads/main/logs/thread.log"},
				{"session": "ci-1", "artifact": "/prod/threads/main/logs/thread.log"}},
			"read_thread":    {{"session": "p"}, {"session": "PROD"}, {"session": "pro"}},
			"search_history": {{"session": "p"}, {"session": "pro", "query": "hello"}},
			"search":         {{"session": "p", "query": "from"}, {"session": "prod", "query": "from"}},
		} {
			for _, args := range all {
				if said, failed := p.call(tool, args); !failed || strings.Contains(said, "log of prod") || strings.Contains(said, "from prod") {
					t.Errorf("%s %v with a token for ci- = %s", tool, args, said)
				}
			}
		}
		if said, failed := p.call("read_thread", map[string]any{"session": "c"}); failed {
			t.Errorf("the beginning of the only session that is seen = %s", said)
		}
	}
}

// TestMCPAnswers: over HTTP a prompt is answered where the process and the token allow it, by whom the token names, within its quotas.
func TestMCPAnswers(t *testing.T) {
	const approver, both = "approver-0123456789", "both-0123456789abc"
	all := must.Get(access.Parse("mira read,answer " + approver + " session=ci-\nboth read,write " + both + "\n"))(t)
	conn, ctx, cl, closed := worldOn(t, httpapi.Config{Tokens: all})
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{Tokens: all, MCPAnswers: true, Quotas: quota.New(quota.Rates{Sessions: 2})}))
	t.Cleanup(srv.Close)
	open := srv.URL
	said := make(chan events.Resolution, 4)
	for _, session := range []string{"ci-1", "ci-2", "ci-3", "prod"} {
		th := events.Thread{Session: session, Name: "main"}
		go func() {
			r, err := cl.Thread(th).Ask(ctx, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Ship " + session + "?"})
			if err == nil {
				said <- r
			}
		}()
		for waiting := 0; waiting == 0; {
			waiting = len(must.Get(cl.Session(session).Prompts(ctx))(t))
		}
	}
	yes := func(session string) map[string]any {
		return map[string]any{"session": session, "prompt": "p", "answer": true}
	}
	for url, tokens := range map[string][]string{closed: {approver, both}, open: {both}} {
		for _, token := range tokens {
			for _, version := range mcpVersions {
				p := newPeer(ctx, t, url, token, version)
				if names := p.tools(); strings.Contains(names, "answer_prompt") {
					t.Errorf("%.6s has the tools %s", token, names)
				}
				if res, err := p.CallTool(ctx, &sdk.CallToolParams{Name: "answer_prompt", Arguments: yes("ci-1")}); err == nil {
					t.Errorf("answer_prompt of %.6s = %v, want that there is none", token, res)
				}
			}
		}
	}
	p := newPeer(ctx, t, open, approver, mcpVersions[2])
	if got, failed := p.call("answer_prompt", yes("prod")); !failed {
		t.Errorf("answer_prompt in a session that the token is not for = %s", got)
	}
	for _, session := range []string{"ci-1", "ci-2"} {
		if got, failed := p.call("answer_prompt", yes(session)); failed || !strings.Contains(got, `"by":"mira"`) {
			t.Errorf("answer_prompt = %s, want that mira answered", got)
		}
		if r := <-said; r.By != "mira" || r.Outcome != events.OutcomeApproved {
			t.Errorf("the agent is told %+v, want that mira approved", r)
		}
	}
	if got, failed := p.call("answer_prompt", yes("ci-3")); !failed || !strings.Contains(got, "quota") {
		t.Errorf("answer_prompt in one session more than the token may store to = %s", got)
	}
}

// TestMCPGuards: who is not let in, and what is too large, too much at once, or no message, is refused before a tool is called; and
// there is no session to be taken over.
func TestMCPGuards(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{Tokens: tokens(t)})
	_, _, _, local := worldOn(t, httpapi.Config{})
	list := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id) }
	batch := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = list(i)
		}
		return " [" + strings.Join(all, ",") + "]"
	}
	for _, q := range []struct {
		what, url, method, body string
		header                  []string
		status                  int
		want                    string
	}{
		{"no token", url, "POST", list(1), nil, 401, "Authorization: Bearer"},
		{"a token that may not read", url, "POST", list(1), []string{"Authorization", "Bearer " + writer}, 403, "read"},
		{"a token", url, "POST", list(1), []string{"Authorization", "Bearer " + reader, "Host", "spool.example"}, 200, "read_thread"},
		{"another host", local, "POST", list(1), []string{"Host", "evil.example"}, 403, "localhost"},
		{"another origin", local, "POST", list(1), []string{"Origin", "http://evil.example"}, 403, "origin"},
		{"a session", local, "POST", list(1), []string{"Mcp-Session-Id", "another"}, 200, "read_thread"},
		{"an event stream", local, "GET", "", nil, 405, "POST"},
		{"the end of a session", local, "DELETE", "", nil, 405, "POST"},
		{"too much", local, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` +
			strings.Repeat("x", 64<<10) + `"}}`, nil, 413, "65536 bytes at most"},
		{"a batch", local, "POST", batch(16), nil, 200, `"id":15`},
		{"a large batch", local, "POST", batch(17), nil, 400, "16"},
		{"a batch of nothing", local, "POST", "[" + strings.Repeat("0,", 30_000) + "0]", nil, 400, "16"},
		{"no message", local, "POST", "{", nil, 400, ""},
		{"nothing", local, "POST", "", nil, 400, ""},
		{"another type", local, "POST", list(1), []string{"Content-Type", "text/plain"}, 415, ""},
		{"a compressed body", local, "POST", list(1), []string{"Content-Encoding", "gzip"}, 415, ""},
		{"a query", local, "POST", list(1), []string{"query", "?session=x"}, 400, "parameter"},
		{"a subscription", local, "POST", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}, 200, `"result"`},
	} {
		r := request{method: q.method, path: "/mcp", kind: "application/json", body: q.body,
			header: map[string]string{"Accept": "application/json, text/event-stream"}}
		for i := 0; i < len(q.header); i += 2 {
			if q.header[i] == "query" {
				r.path += q.header[i+1]
				continue
			}
			r.header[q.header[i]] = q.header[i+1]
		}
		status, header, body := do(t, q.url, r)
		if status != q.status || !strings.Contains(body, q.want) {
			t.Errorf("%s: %d %.300s, want %d with %s", q.what, status, body, q.status, q.want)
		}
		if header.Get("Mcp-Session-Id") != "" || status == 200 && !strings.HasPrefix(body, "event:") && !json.Valid([]byte(body)) {
			t.Errorf("%s: %v %.300s, want no session, and JSON", q.what, header, body)
		}
	}
}

// TestMCPRefusals: what the protocol refuses says so as every route does, and what to send.
func TestMCPRefusals(t *testing.T) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	const js, list = "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	both := map[string]string{"Accept": "application/json, text/event-stream"}
	for _, x := range []struct {
		kind, body string
		header     map[string]string
		status     int
		says       string
	}{
		{js, list, nil, http.StatusBadRequest, "Accept must contain both 'application/json' and 'text/event-stream'"},
		{js, list, map[string]string{"Accept": js}, http.StatusBadRequest, "Accept must contain both 'application/json' and 'text/event-stream'"},
		{"text/plain", list, both, http.StatusUnsupportedMediaType, "Content-Type"},
		{js, `{`, both, http.StatusBadRequest, "malformed"},
		{js, `{`, map[string]string{"Accept": "*/*"}, http.StatusBadRequest, `unexpected EOF"}`},
		{js, list, both, http.StatusOK, ""},
	} {
		status, header, text := do(t, url, request{method: http.MethodPost, path: "/mcp", kind: x.kind, body: x.body, header: x.header})
		var told struct{ Error string }
		err := json.Unmarshal([]byte(text), &told)
		if status != x.status || header.Get("Content-Type") != js || err != nil || !strings.Contains(text, x.says) {
			t.Errorf("POST /mcp %s %s %v = %d %s %s, want %d and %q", x.kind, x.body, x.header, status, header.Get("Content-Type"), text, x.status, x.says)
		}
	}
}

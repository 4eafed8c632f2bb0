package httpapi_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

const (
	reader = "reader-0123456789"
	writer = "writer-0123456789"
	chief  = "chief-0123456789a"
	narrow = "narrow-0123456789"
)

func tokens(t testing.TB) *access.Tokens {
	t.Helper()
	all := must.Get(access.Parse("reader read " + reader + "\nwriter write " + writer + "\nchief admin " + chief +
		"\nnarrow read,write " + narrow + " session=ci-"))(t)
	return all
}

// Each token opens what it is for, and who is refused is told why.
func TestScopes(t *testing.T) {
	said := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	_, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t), Page: said, Streams: said, Metrics: said, Subscriptions: said})
	for _, session := range []string{"ci-1", "prod"} {
		say(ctx, t, cl, events.Thread{Session: session, Name: "main"}, "hello")
	}
	const entries = "/entries?dialect=raw"
	for _, q := range []struct {
		token, method, path string
		status              int
		want                string
	}{
		{"", "GET", "/v1/sessions", 401, "Authorization: Bearer"},
		{"nobody-0123456789", "GET", "/v1/sessions", 401, "wrong or missing"},
		{reader, "GET", "/v1/sessions?unanswered=1", 200, `"prod"`},
		{reader, "GET", "/metrics", 200, "/metrics"},
		{reader, "POST", "/v1/sessions/prod/threads/main" + entries, 403, "needs the scope write"},
		{reader, "DELETE", "/v1/sessions/prod", 403, "needs the scope admin"},
		{writer, "GET", "/v1/sessions", 403, "the token writer is not for this: it needs the scope read"},
		{writer, "GET", "/metrics", 403, "read"},
		{writer, "POST", "/v1/sessions/prod/threads/main" + entries, 202, `"ok":true`},
		{writer, "DELETE", "/v1/sessions/prod", 403, "admin"},
		{chief, "POST", "/v1/sessions/ci-1/threads/main" + entries, 202, `"ok":true`},
		{narrow, "GET", "/v1/sessions?unanswered=1", 200, `"ci-1"`},
		{narrow, "GET", "/v1/sessions/ci-1/threads/main", 200, `"ci-1"`},
		{narrow, "GET", "/v1/sessions/prod/threads/main", 403, "those that begin with ci-"},
		{narrow, "GET", "/v1/sessions/prod/threads/main/live", 403, "ci-"},
		{narrow, "GET", "/v1/live?session=prod", 403, "ci-"},
		{narrow, "GET", "/v1/read?url=prod/threads/main/logs/thread.log", 403, "prod"},
		{narrow, "POST", "/v1/sessions/prod/threads/main" + entries, 403, "ci-"},
		{narrow, "POST", "/v1/sessions/ci-9/threads/main" + entries, 202, `"ok":true`},
		{narrow, "POST", "/v1/events", 403, "some sessions only"},
		{narrow, "GET", "/v1/stream/ci-1/main", 200, "/v1/stream/ci-1/main"},
		{narrow, "GET", "/v1/stream/prod", 403, "ci-"},
		{narrow, "GET", "/v1/stream/a.name", 403, "ci-"},
		{reader, "PUT", "/v1/stream/prod", 403, "write"},
		{writer, "PUT", "/v1/stream/prod", 200, "/v1/stream/prod"},
		{writer, "DELETE", "/v1/stream/prod", 403, "admin"},
		{reader, "GET", "/v1/stream/__ds/subscriptions/x", 200, "/x"},
		{reader, "PUT", "/v1/stream/__ds/subscriptions/x", 403, "write"},
		{writer, "PUT", "/v1/stream/__ds/subscriptions/x", 403, "read"},
		{writer, "POST", "/v1/stream/__ds/subscriptions/x/claim", 403, "read"},
		{chief, "POST", "/v1/stream/__ds/subscriptions/x/claim", 200, "/x/claim"},
		{narrow, "PUT", "/v1/stream/__ds/subscriptions/x", 403, "streams of any"},
		{narrow, "GET", "/v1/stream/__ds/subscriptions/x", 403, "streams of any"},
		{"", "GET", "/v1/stream/__ds/subscriptions/x", 401, "missing"},
		{"", "POST", "/v1/stream/__ds/subscriptions/x/ack/y", 401, "missing"},
		{"of its wake", "POST", "/v1/stream/__ds/subscriptions/x/ack", 200, "/x/ack"},
		{"of its wake", "POST", "/v1/stream/__ds/subscriptions/x%2Fy/ack", 200, "/x/y/ack"},
		{"of its wake", "POST", "/v1/stream/__ds/subscriptions/x%2Fack", 401, "wrong"},
		{"", "GET", "/v1/stream/__ds/jwks.json", 200, "/jwks.json"},
		{"", "GET", "/", 200, "/"},
		{"", "GET", "/s/prod", 200, "/s/prod"},
		{"", "GET", "/healthz", 200, "true"},
		{"", "GET", "/v1/nothing", 404, "openapi.json"},
		{chief, "DELETE", "/v1/sessions/prod", 200, `"deleted":true`},
	} {
		kind := "application/json"
		if strings.HasSuffix(q.path, "/events") {
			kind = "application/x-ndjson"
		}
		status, _, body := do(t, url, request{method: q.method, path: q.path, kind: kind, body: "1",
			header: map[string]string{"Authorization": "Bearer " + q.token}})
		if status != q.status || !strings.Contains(body, q.want) {
			t.Errorf("%.6s %s %s = %d %.300s, want %d with %s", q.token, q.method, q.path, status, body, q.status, q.want)
		}
		if q.token == narrow && status == 200 && strings.Contains(body, "prod") {
			t.Errorf("%s shows a token for ci- %s", q.path, body)
		}
	}
}

// TestStreamsOfANarrowToken: a token for some sessions makes no stream of another session's, however that one's path is written.
func TestStreamsOfANarrowToken(t *testing.T) {
	said := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	url := start(t, httpapi.Config{Publisher: &sink{}, Tokens: tokens(t), Streams: said})
	for from, want := range map[string]int{
		"/v1/stream/ci-1": 200, "/v1/stream/ci-1/t": 200, "/v1/stream/ci%2D1": 200, "": 200,
		"/v1/stream/prod": 403, "/v1/stream/p%72od": 403, "/v1/stream/ci-1/a/b": 403, "/v1/stream/ci-1%00": 403, "/v1/stream/ci-1/../prod": 403,
		"ci-1": 403, "/v1/stream/": 403, "%": 403, "http://other/v1/stream/prod": 403, "/v1/stream/_ds-Y2k": 403,
	} {
		header := map[string]string{"Authorization": "Bearer " + narrow}
		if from != "" {
			header["Stream-Forked-From"] = from
		}
		if status, _, body := do(t, url, request{method: "PUT", path: "/v1/stream/ci-2", header: header}); status != want {
			t.Errorf("a fork of %q = %d %s, want %d", from, status, body, want)
		}
	}
}

// A token for some sessions learns of no other, whatever way leads there.
func TestNarrowToken(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t)})
	prod := events.Thread{Session: "prod", Name: "main"}
	say(ctx, t, cl, prod, "secret")
	say(ctx, t, cl, events.Thread{Session: "ci-1", Name: "main"}, "open")
	art := must.Get(cl.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "prod"}}, strings.NewReader("secret")))(t)
	head := must.Get(cl.Thread(prod).Head(ctx))(t)
	auth := "Bearer " + narrow
	for path, want := range map[string]int{"/v1/artifacts/" + string(art.ID): 403, "/v1/nodes/" + head.Head().Ref.Hex(): 404,
		"/v1/nodes/" + head.Head().Ref.Hex() + "?session=ci-1": 404} {
		if status, _, body := get(t, url, path, "Authorization", auth); status != want || strings.Contains(body, "secret") {
			t.Errorf("%s = %d %s, want %d", path, status, body, want)
		}
	}
	status, _, body := do(t, url, request{path: "/v1/sessions/ci-1/threads/main/fork", kind: "application/json",
		body: `{"to":"prod/stolen"}`, header: map[string]string{"Authorization": auth}})
	if status != 403 {
		t.Errorf("fork into prod = %d %s, want 403", status, body)
	}
	req, _ := http.NewRequestWithContext(ctx, "GET", url+"/v1/live?since=all", nil)
	req.Header.Set("Authorization", auth)
	res := must.Get(http.DefaultClient.Do(req))(t)
	s := &stream{t: t, in: bufio.NewReader(res.Body), stop: func() { _ = res.Body.Close() }}
	defer s.stop()
	if e := s.next(); !strings.Contains(e.data, `"ci-1"`) || !strings.HasPrefix(e.id, "2;~") {
		t.Errorf("first event = %+v, want ci-1's item", e)
	}
}

// A web page of another origin may use the API only if it is named.
func TestOrigins(t *testing.T) {
	const page = "https://fleet.example"
	url := start(t, httpapi.Config{Publisher: &sink{}, Tokens: access.One(chief), Origins: []string{page}})
	for origin, want := range map[string]string{page: page, "https://evil.example": "", "null": "", "": ""} {
		header := map[string]string{"Origin": origin, "Sec-Fetch-Site": "cross-site", "Authorization": "Bearer " + chief}
		status, h, body := do(t, url, request{path: entriesPath, kind: "application/json", body: "1", header: header})
		if got := h.Get("Access-Control-Allow-Origin"); got != want || (status == 202) != (want != "") {
			t.Errorf("POST from %q = %d %s, allowed %q, want %q", origin, status, body, got, want)
		}
		header["Access-Control-Request-Method"] = "POST"
		status, h, _ = do(t, url, request{method: "OPTIONS", path: entriesPath, header: header})
		if (status == 204) != (want != "") {
			t.Errorf("preflight from %q = %d %v", origin, status, h)
		}
		for _, name := range []string{"Authorization", "Last-Event-ID", "Spool-Seq", "Spool-Exit-Code", "Spool-Is-Error", "If-Match", "traceparent"} {
			if allowed := strings.Contains(h.Get("Access-Control-Allow-Headers"), name); allowed != (want != "") {
				t.Errorf("preflight from %q: the header %s is allowed: %v", origin, name, allowed)
			}
		}
	}
	must.Is(t, httpapi.CheckOrigins([]string{page, "http://localhost:3000"}), nil, "CheckOrigins")
	for _, wrong := range []string{"*", "fleet.example", page + "/", ""} {
		if err := httpapi.CheckOrigins([]string{page, wrong}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", wrong)) {
			t.Errorf("CheckOrigins(%q) = %v, want it refused by name", wrong, err)
		}
	}
	other := start(t, httpapi.Config{Publisher: &sink{}})
	if _, h, _ := do(t, other, request{method: "GET", path: "/healthz",
		header: map[string]string{"Origin": page}}); h.Get("Access-Control-Allow-Origin") != "" {
		t.Error("an origin is allowed that nobody named")
	}
}

// What a client names, and what an agent wrote, stays what it is: no name becomes another subject, path or header, and no text
// becomes markup.
func TestHostileRequests(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	script := `<script>alert(1)</script>`
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, script, "\u2028 \x00 \" \\ ")
	for _, path := range []string{
		"/v1/sessions/..%2F..%2Fetc%2Fpasswd", "/v1/sessions/%3Cscript%3E", "/v1/sessions/a.b", "/v1/sessions/%2A",
		"/v1/sessions/%3E/threads", "/v1/sessions/a%20b/graph",
		"/v1/sessions/s/threads/%2A/items", "/v1/sessions/s/threads/a%0D%0AX-Evil:1/items", "/v1/sessions/" +
			strings.Repeat("x", 200), "/v1/nodes/%2A", "/v1/blobs/..", "/v1/blobs/" + strings.Repeat("A", 64),
		"/v1/sessions/s/threads/main/items?last=-1", "/v1/sessions/s/threads/main/items?from=1&last=2",
		"/v1/sessions/s/threads/main/items/0", "/v1/sessions/s/threads/main/search",
		"/v1/sessions?after=%00", "/v1/sessions?limit=x", "/v1/live?sesion=s",
		"/v1/blobs/0000000000000000000000000000000000000000000000000000000000000000?x=1",
		"/v1/sessions/s/threads/main/items/99999999999999999999",
	} {
		status, h, body := get(t, url, path)
		if status != 400 && status != 404 || one(h, "Content-Type") != "application/json" || one(h, "X-Evil") != "" ||
			one(h, "X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s = %d %v %.200s, want 400 or 404", path, status, h, body)
		}
	}
	status, h, body := get(t, url, "/v1/sessions/s/threads/main/items")
	if status != 200 || one(h, "Content-Type") != "application/json" || !strings.Contains(body, `\u003cscript\u003ealert(1)`) {
		t.Errorf("items = %d %v %.300s, want them as JSON", status, h, body)
	}
	page := must.Get(cl.PutBlob(ctx, []byte("<html>"+script)))(t)
	picture := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 5000)
	image := must.Get(cl.PutBlob(ctx, []byte(picture)))(t)
	for hash, want := range map[string]string{page.Hex(): "application/octet-stream", image.Hex(): "image/png"} {
		status, h, _ := get(t, url, "/v1/blobs/"+hash)
		if status != 200 || one(h, "Content-Type") != want || !strings.HasPrefix(one(h, "Content-Disposition"), "attachment") ||
			one(h, "Etag") != `"sha256-`+hash+`"` || one(h, "Cache-Control") != "private, no-cache" ||
			!strings.Contains(one(h, "Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("blob = %d %v, want %s, to be saved", status, h, want)
		}
	}
	if status, h, body := get(t, url, "/v1/blobs/"+image.Hex(), "Range", "bytes=1-3"); status != 206 || body != "PNG" ||
		one(h, "Content-Type") != "image/png" {
		t.Errorf("range = %d %v %q", status, h, body)
	}
	if status, _, body := get(t, url, "/v1/blobs/"+image.Hex(), "If-None-Match", `"sha256-`+image.Hex()+`"`); status != 304 || body != "" {
		t.Errorf("with its ETag = %d %q, want 304", status, body)
	}
	if status, _, _ := get(t, url, "/v1/blobs/"+hex.EncodeToString(make([]byte, 32))); status != 404 {
		t.Errorf("no such blob = %d, want 404", status)
	}
}

// Headers have a size, and a client that sends them drop by drop is let go, while others are served.
func TestSlowAndLargeHeaders(t *testing.T) {
	l, err := httpapi.Listen("127.0.0.1:0", httpapi.Config{})
	must.Do(t, err)
	srv := httpapi.Server(httpapi.New(httpapi.Config{Publisher: &sink{}}))
	if srv.ReadHeaderTimeout == 0 || srv.IdleTimeout == 0 || srv.MaxHeaderBytes == 0 {
		t.Errorf("server without limits: %+v", srv)
	}
	srv.ReadHeaderTimeout = 200 * time.Millisecond // as in Server, and sooner over
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- httpapi.Serve(ctx, l, srv) }()
	defer func() {
		cancel()
		must.Is(t, <-served, nil, "Serve")
	}()
	slow := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer slow.Close()
	must.Get(io.WriteString(slow, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Drop: "))(t)
	url := "http://" + l.Addr().String()
	if status, _, _ := get(t, url, "/healthz"); status != 200 {
		t.Errorf("another client = %d, want 200", status)
	}
	if b, err := io.ReadAll(slow); err != nil || strings.Contains(string(b), "200 OK") { // ends when the server ends it
		t.Errorf("the slow client got %q, %v, want its connection closed", b, err)
	}
	large := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer large.Close()
	go func() {
		_, _ = io.WriteString(large, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	}()
	status, err := bufio.NewReader(large).ReadString('\n')
	if err != nil || !strings.Contains(status, " 431 ") {
		t.Errorf("a header of 1 MiB = %q, %v, want 431", status, err)
	}
}

// The process is ready when its streams are there, and not before.
func TestReady(t *testing.T) {
	conn := natstest.Dial(t, natstest.Server(t))
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(srv.Close)
	if status, h, body := get(t, srv.URL, "/readyz"); status != 503 || !strings.Contains(body, "SPOOL_EVENTS") {
		t.Errorf("without streams = %d %v %s, want 503 and the stream", status, h, body)
	}
}

// An output is streamed in the body: subscribers see it while it comes, the answer names its result, trailers say how it ended.
func TestPutOutput(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", url+
		"/v1/sessions/s/threads/main/outputs?tool=make&id=o&invocation_id=call-1&input=%7B%22command%22%3A%22make%22%7D", r)
	must.Do(t, err)
	req.Trailer = http.Header{"Spool-Exit-Code": nil}
	type answer struct {
		status int
		body   string
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		answered <- answer{res.StatusCode, string(b), err}
	}()
	must.Get(io.WriteString(w, "compiling\n"))(t)
	live := ""
	for f, err := range cl.Thread(th).Follow(ctx, "o") { // while the body is open
		must.Do(t, err)
		if live += string(f.Text); live == "compiling\n" {
			break
		}
	}
	must.Get(io.WriteString(w, "failed\n"))(t)
	req.Trailer.Set("Spool-Exit-Code", "2")
	_ = w.Close()
	a := <-answered
	if a.err != nil || a.status != 201 || !strings.Contains(a.body, `"n":2`) || !strings.Contains(a.body, `"output":"o"`) ||
		!strings.Contains(a.body, `"bytes":17`) {
		t.Fatalf("POST = %+v", a)
	}
	items, err := faulttest.ItemsOf(ctx, cl, th, 1, 2)
	if err != nil || len(items) != 2 {
		t.Fatalf("ItemsOf = %d items, %v", len(items), err)
	}
	if got := string(items[1].Metadata); !strings.Contains(got, `"is_error":true`) ||
		!strings.Contains(got, "compiling\\nfailed") || !strings.Contains(got, `"call-1"`) {
		t.Errorf("result = %s", got)
	}
	for query, want := range map[string]int{"id=a.b": 400, "head=x": 400, "input=%7B": 400} {
		if status, _, body := do(t, url, request{path: "/v1/sessions/s/threads/main/outputs?tool=make&" + query, body: "x"}); status != want {
			t.Errorf("%s = %d %s, want %d", query, status, body, want)
		}
	}
}

// guarded checks the headers that keep a browser from making anything of an answer but bytes of this origin's.
func guarded(t testing.TB, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
	} {
		must.Same(t, h.Get(name), want, "%s: %s is %q, want %q", what, name)
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if safe := []string{"application/json", "application/x-ndjson", "text/event-stream"}; !slices.Contains(safe, kind) && kind != "" &&
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Errorf("%s: %s is shown, and not saved", what, kind)
	}
}

// The headers hold beside the table of routes, too, whatever is answered. (TestDocumentHolds looks at the routes.)
func TestHeadersEverywhere(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<script>")
	})
	url := start(t, httpapi.Config{Publisher: &sink{}, Tokens: tokens(t), Streams: page, Metrics: page})
	for target, want := range map[string]int{
		"/": 404, "/v1/nothing": 404, "/v1/events": 405, "/healthz": 200, "//healthz": 200, "/v1/./openapi.json": 400,
		"/v1/stream/s": 200, "/metrics": 200, "/v1/sessions": 404, "/v1/openapi.json": 200,
	} {
		for _, token := range []string{reader, "nobody-0123456789"} {
			status, h, body := do(t, url, request{method: "GET", path: target, header: map[string]string{"Authorization": "Bearer " + token}})
			if status != want && status != 401 {
				t.Errorf("%s = %d %s, want %d", target, status, body, want)
			}
			if kind := h["Content-Type"]; len(kind) > 0 && kind[0] == "text/html" {
				h.Set("Content-Disposition", "attachment") // of a stream's own type: its policy makes it harmless
			}
			guarded(t, target, h)
		}
	}
	shared := start(t, httpapi.Config{Publisher: &sink{}, Origins: []string{"https://fleet.example"}})
	if _, h, _ := do(t, shared, request{method: "GET", path: "/healthz"}); h.Get("Cross-Origin-Resource-Policy") != "" {
		t.Error("a page of a trusted origin may not use what it was given")
	}
}

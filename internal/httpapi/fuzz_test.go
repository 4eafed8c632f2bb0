package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/internal/dstreams"
	"spool/internal/httpapi"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/web"
	"spool/pkg/client"
	"spool/pkg/events"
)

// everything is the whole mux on a system with a thread in it, and what is there to ask for.
func everything(t testing.TB) http.Handler {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	cl := client.New(conn)
	say(t.Context(), t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	cfg := dstreams.On(conn, nil)
	cfg.LongPoll = 50 * time.Millisecond
	streams := dstreams.New(cfg)
	return httpapi.For(conn, httpapi.Config{Page: web.Handler(), Streams: streams, Patience: time.Second})
}

// hostileNames are what no session, thread, producer or path may be made of, and some that are odd and may.
var hostileNames = []string{
	"..", ".", "../..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "a/b", "a%2fb", "*", "%3E", ">", "a.b", "a.*", "$JS.API",
	"_INBOX.x", "a%00b", "%00", "a%0d%0ab",
	"a%0aSet-Cookie:x", "%e2%80%ae%74xt", "%ef%bb%bf", "%d0%b0dmin", "%ff%fe", "%ed%a0%80", "a%20b", "%20", "~", "-", "CON",
	strings.Repeat("a", 10_000),
	"a%c2%85b", "a%e2%80%a8b", "%2a", "%3c%73cript%3e",
}

// FuzzHTTP: whatever is asked, the handler answers, in time, with a status that the document names, and says what was wrong.
func FuzzHTTP(f *testing.F) {
	for _, p := range []string{
		"/healthz", "/readyz", "/v1/openapi.json", "/v1/sessions?limit=1&after=x&q=a&cwd=%2f", "/v1/sessions/s",
		"/v1/sessions/s/graph", "/v1/sessions/s/threads",
		"/v1/sessions/s/threads/main", "/v1/sessions/s/threads/main/items?from=1&limit=2",
		"/v1/sessions/s/threads/main/items?last=-1", "/v1/sessions/s/threads/main/items?before=99999999999999999999",
		"/v1/sessions/s/threads/main/items/1?full=true", "/v1/sessions/s/threads/main/items/-9223372036854775808",
		"/v1/sessions/s/threads/main/search?q=%00", "/v1/sessions/s/threads/main/context?leaf=..",
		"/v1/sessions/s/threads/main/logs/thread.log", "/v1/nodes/node:sha256:00", "/v1/sessions/s/threads/main/live?from=-1",
		"/v1/live?type=%3E&detail=*", "/v1/heads?session=*", "/v1/sessions/s/threads/main/outputs",
		"/v1/prompts?session=%3E", "/v1/sessions/s/threads/main/prompts/..", "/v1/runs?session=..", "/v1/history?q=%22%20OR%201",
		"/v1/search?q=%22%20OR%201&since=%00", "/v1/sessions/s/artifacts", "/v1/artifacts/0", "/v1/artifacts/s%2f0",
		"/v1/blobs/" + strings.Repeat("0", 64),
		"/v1/read?url=agent%3A%2F%2Fx%3Fq%3D.a%5B99999999999999999999%5D", "/v1/read?url=artifact%3A%2F%2F0",
		"/v1/read?url=file%3A%2F%2F%2Fetc%2Fpasswd", "/v1/stream/s/main?offset=-1", "/v1/stream/s/main?offset=now&live=sse", "/",
		"/index.html", "/../../etc/passwd", "//x", "/v1/%2e%2e/sessions",
	} {
		f.Add("GET", p, "Range: bytes=5-1\nIf-None-Match: \"x\"\nLast-Event-ID: 9.9\n", []byte(nil))
	}
	for _, p := range []string{"fork", "compact", "end", "rename", "branch", "label", "append", "prompts/p/answer"} {
		f.Add("POST", "/v1/sessions/s/threads/main/"+p, "Content-Type: application/json\n",
			[]byte(`{"thread":"..","name":"*","index":-1,"leaf":"x","summary":1e400,"entry":{"a":[[[[]]]]}}`))
	}
	for _, kind := range []string{"application/json", "application/x-ndjson", "text/plain", ""} {
		for _, dialect := range []string{"omp", "claude", "codex", "item", "step", "raw", "..", ""} {
			f.Add("POST", "/v1/sessions/s/threads/f/entries?dialect="+dialect, "Content-Type: "+kind+
				"\nSpool-Producer: p\nSpool-Seq: 18446744073709551615\n", []byte("{\"a\":\"\\ud800\"}\n\xff\n"))
		}
	}
	f.Add("POST", "/v1/events", "Content-Type: application/x-ndjson\nTraceparent: 00-x\n",
		[]byte(`{"session":"..","thread":">","dialect":"raw","body_base64":"AA==","prev":9}`))
	f.Add("POST", "/v1/sessions/s/threads/main/outputs?tool=sh&columns=-1&head=99999999999&input=%7B",
		"Content-Type: text/plain\nTrailer: Spool-Exit-Code\n", []byte("\x1b[2J\r\r\n"))
	f.Add("POST", "/v1/sessions/s/artifacts?filename=..%2f..%2fx", "Content-Type: text/html\n", []byte("<script>"))
	f.Add("PUT", "/v1/stream/f", "Content-Type: application/json\nStream-TTL: -1\nStream-Closed: true\n", []byte("[1,[2]]"))
	f.Add("DELETE", "/v1/sessions/none", "", []byte(nil))
	f.Add("OPTIONS", "*", "Origin: null\nAccess-Control-Request-Method: POST\n", []byte(nil))
	f.Add("TRACE", "/v1/sessions", "Authorization: Bearer x\nHost: evil.example\n", []byte(nil))
	for _, name := range hostileNames {
		f.Add("GET", "/v1/sessions/"+name+"/threads/"+name, "", []byte(nil))
		f.Add("POST", "/v1/sessions/"+name+"/threads/main/entries?dialect=raw", "Content-Type: application/json\n", []byte("1"))
	}
	handler := everything(f)
	f.Fuzz(func(t *testing.T, method, target, headers string, body []byte) {
		if len(target) > 64<<10 || len(headers) > 64<<10 || len(body) > 1<<20 {
			return // the server's limits, and time
		}
		serve(t, handler, method, target, headers, body)
	})
}

func serve(t *testing.T, h http.Handler, method, target, headers string, body []byte) {
	t.Helper()
	text := method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" +
		strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(headers, "\r", "")), "\n", "\r\n") +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + string(body)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return // net/http answers
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // what follows goes on for as long as it is read
	defer cancel()
	w, ended := httptest.NewRecorder(), make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		h.ServeHTTP(w, r.WithContext(ctx))
	}()
	select {
	case p := <-ended:
		if err, ok := p.(error); p != nil && !(ok && errors.Is(err, http.ErrAbortHandler)) {
			panic(p)
		}
	case <-time.After(time.Minute):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s %q does not end\n%s", method, target, buf[:runtime.Stack(buf, true)])
	}
	if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
		t.Fatalf("%s %q %q %q = %d %.500s", method, target, headers, body, w.Code, w.Body)
	}
	if w.Code >= 400 && w.Body.Len() == 0 && r.Method != http.MethodHead && strings.HasPrefix(r.URL.Path, "/v1/") {
		t.Errorf("%s %q = %d, and does not say why", method, target, w.Code)
	}
}

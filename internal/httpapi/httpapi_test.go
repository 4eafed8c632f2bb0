package httpapi_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// sink keeps what is published; fail decides about a batch.
type sink struct {
	mu   sync.Mutex
	evs  []*events.Event
	fail error
}

func (s *sink) PublishEvents(_ context.Context, evs []*events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.evs = append(s.evs, evs...)
	return nil
}

const entriesPath = "/v1/sessions/s/threads/main/entries?dialect=claude"

type request struct {
	method, path, kind, body string
	header                   map[string]string
}

func do(t testing.TB, url string, q request) (int, http.Header, string) {
	t.Helper()
	q.method = cmp.Or(q.method, "POST")
	req := must.Get(http.NewRequestWithContext(t.Context(), q.method, url+q.path, strings.NewReader(q.body)))(t)
	if q.kind != "" {
		req.Header.Set("Content-Type", q.kind)
	}
	for k, v := range q.header {
		req.Header.Set(k, v)
		if k == "Host" {
			req.Host = v
		}
	}
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	b := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, res.Header, string(b)
}

func start(t testing.TB, cfg httpapi.Config) string {
	t.Helper()
	srv := httptest.NewServer(httpapi.New(cfg))
	t.Cleanup(srv.Close)
	return srv.URL
}

type answerCase struct {
	name string
	request
	fail   error // of the publisher
	status int
	want   string
}

func answers() []answerCase {
	const js, nd = "application/json", "application/x-ndjson"
	named := func(kv ...string) map[string]string {
		m := map[string]string{"Spool-Producer": "p"}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	return []answerCase{
		{"one entry", request{path: entriesPath, kind: js, body: "{\"a\":1}\n"}, nil, 202, `{"ok":true,"seq":1}`},
		{"one of any lines", request{path: entriesPath, kind: js + "; charset=utf-8", body: "{\n}\n\n"}, nil, 202, `{"ok":true`},
		{"identified", request{path: entriesPath, kind: js, body: `1`, header: named("Spool-Seq", "7", "Spool-Epoch", "2")}, nil, 202, `"seq":7`},
		{"stream", request{path: entriesPath, kind: nd, body: "1\nbad\n\n2\n"}, nil, 200, `{"line":4,"ok":true,"seq":4}`},
		{"envelopes", request{path: "/v1/events", kind: nd, body: `{"session":"s","dialect":"raw","body":"x"}`}, nil, 200,
			`{"line":1,"ok":true,"seq":1}`},
		{"nothing", request{path: entriesPath, kind: nd}, nil, 200, ""},
		{"no JSON", request{path: entriesPath, kind: js, body: "{"}, nil, 400, "invalid JSON"},
		{"no body", request{path: entriesPath, kind: js}, nil, 400, "invalid JSON"},
		{"bad name", request{path: "/v1/sessions/a.b/threads/main/entries?dialect=raw", kind: js, body: "1"}, nil, 400, "a.b"},
		{"bad name, stream", request{path: "/v1/sessions/a.b/threads/main/entries?dialect=raw", kind: nd, body: "1"}, nil, 400, "a.b"},
		{"no dialect", request{path: "/v1/sessions/s/threads/main/entries", kind: js, body: "1"}, nil, 400, "no dialect"},
		{"producer without seq", request{path: entriesPath, kind: js, body: "1", header: named()}, nil, 400, "Spool-Seq"},
		{"bad epoch", request{path: entriesPath, kind: js, body: "1", header: named("Spool-Epoch", "x", "Spool-Seq", "1")}, nil,
			400, "Spool-Epoch"},
		{"seq without producer", request{path: entriesPath, kind: js, body: "1", header: map[string]string{"Spool-Seq": "1"}},
			nil, 400, "Spool-Producer"},
		{"too large", request{path: entriesPath, kind: js, body: `"` + strings.Repeat("x", 1<<10) + `"`}, nil, 413, "error"},
		{"large line", request{path: entriesPath, kind: nd, body: "1\n" + strings.Repeat("x", 2<<10) + "\n2\n"}, nil, 200,
			"more than 1024 bytes"},
		{"wrong type", request{path: entriesPath, kind: "text/plain", body: "1"}, nil, 415, "application/x-ndjson"},
		{"no type", request{path: "/v1/events", body: "1"}, nil, 415, "application/x-ndjson"},
		{"busy", request{path: entriesPath, kind: js, body: "1"}, record.ErrBusy, 429, "busy"},
		{"busy, stream", request{path: entriesPath, kind: nd, body: "1\nbad\n"}, record.ErrBusy, 429, "busy"},
		{"full", request{path: entriesPath, kind: js, body: "1"}, record.ErrFull, 503, "full"},
		{"unknown", request{path: entriesPath, kind: js, body: "1"}, record.ErrUnknown, 503, "unknown"},
		{"refused", request{path: entriesPath, kind: js, body: "1"}, record.ErrRefused, 500, "refused"},
		{"GET", request{method: "GET", path: entriesPath}, nil, 405, "use POST"},
		{"elsewhere", request{method: "GET", path: "/v2"}, nil, 404, "/v1/openapi.json"},
		{"live", request{method: "GET", path: "/healthz"}, nil, 200, "true"},
		{"ready", request{method: "GET", path: "/readyz"}, nil, 200, "true"},
		{"web page", request{path: entriesPath, kind: js, body: "1",
			header: map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}}, nil, 403, "origin"},
		{"foreign name", request{path: entriesPath, kind: js, body: "1", header: map[string]string{"Host": "evil.example:7717"}},
			nil, 403, "localhost"},
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range answers() {
		out := &sink{fail: c.fail}
		url := start(t, httpapi.Config{Publisher: out, MaxBody: 1 << 10, Patience: 30 * time.Millisecond})
		status, header, body := do(t, url, c.request)
		if status != c.status || !strings.Contains(body, c.want) || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s, want %d with %s", c.name, status, body, c.status, c.want)
		}
		if retry := header.Get("Retry-After"); (retry != "") != (status == 429 || status == 503) {
			t.Errorf("%s: Retry-After %q with status %d", c.name, retry, status)
		}
		if status >= 400 {
			var e struct{ Error string }
			if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == "" {
				t.Errorf("%s: body %q, want {\"error\":…}", c.name, body)
			}
		}
		if (status == 202) != (len(out.evs) == 1 && strings.HasPrefix(c.kind, "application/json")) {
			t.Errorf("%s: status %d and %d events", c.name, status, len(out.evs))
		}
	}
}

func TestBodiesAreKept(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out})
	do(t, url, request{path: entriesPath + "&user=u", kind: "application/json", body: " {\n \"a\": 1 }\r\n"})
	if e := out.evs[0]; string(e.Body) != " {\n \"a\": 1 }\r" || e.User != "u" || e.Thread.String() != "s/main" || e.Dialect != "claude" {
		t.Errorf("event %+v with body %q", e, e.Body)
	}
}

// Requests without an identity share few, and never use a sequence twice, whatever became of the request before.
func TestIdentitiesAreLent(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out, Patience: 20 * time.Millisecond})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 10 {
				if i%3 == 0 {
					do(t, url, request{path: entriesPath, kind: "application/x-ndjson", body: "1\nbad\n2\n"})
				} else {
					do(t, url, request{path: entriesPath, kind: "application/json", body: "1"})
				}
			}
		})
	}
	wg.Wait()
	last := map[string]uint64{}
	for _, e := range out.evs {
		if e.Seq <= last[e.Producer] || !strings.HasPrefix(e.Producer, "~") {
			t.Errorf("producer %s: seq %d after %d", e.Producer, e.Seq, last[e.Producer])
		}
		last[e.Producer] = e.Seq
	}
	if len(out.evs) != 4*(4*2+6) || len(last) > 4 {
		t.Errorf("%d events of %d producers, want 56 of at most 4", len(out.evs), len(last))
	}
}

func TestToken(t *testing.T) {
	url := start(t, httpapi.Config{Publisher: &sink{}, Tokens: access.One("0123456789abcdef"),
		Ready: func(context.Context) error { return errors.New("no stream") }})
	for auth, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer 0123456789abcdeF": 401, "Basic 0123456789abcdef": 401,
		"Bearer 0123456789abcdef": 202, "bearer 0123456789abcdef": 202,
	} {
		q := request{path: entriesPath, kind: "application/json", body: "1",
			header: map[string]string{"Authorization": auth, "Host": "spool.example"}}
		if status, _, body := do(t, url, q); status != want {
			t.Errorf("Authorization %q: %d %s, want %d", auth, status, body, want)
		}
	}
	if status, _, body := do(t, url, request{method: "GET", path: "/readyz"}); status != 503 || !strings.Contains(body, "no stream") {
		t.Errorf("readyz = %d %s, want 503", status, body)
	}
}

// A client that keeps its stream open reads the result of each line as soon as it is durable; the end of the server ends the
// stream in order.
func TestLiveStreamAndDrain(t *testing.T) {
	l, err := httpapi.Listen("127.0.0.1:0", httpapi.Config{})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- httpapi.Serve(ctx, l, httpapi.Server(httpapi.New(httpapi.Config{Publisher: &sink{}})))
	}()
	r, w := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("http://%s%s", l.Addr(), entriesPath), r)
	req.Header.Set("Content-Type", "application/x-ndjson")
	wrote := make(chan error, 1)
	go func() { _, err := io.WriteString(w, "1\n"); wrote <- err }()
	res, err := http.DefaultClient.Do(req)
	if err != nil || <-wrote != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := 1; i <= 2; i++ {
		line, err := in.ReadString('\n')
		if want := fmt.Sprintf(`{"line":%d,"ok":true,"seq":%d}`, i, i) + "\n"; line != want || err != nil {
			t.Fatalf("result %q, %v, want %q", line, err, want)
		}
		if i == 1 {
			must.Get(io.WriteString(w, "2\n"))(t)
		}
	}
	cancel()
	rest, _ := io.ReadAll(in)
	if !strings.Contains(string(rest), "canceled") {
		t.Errorf("the stream ends with %q, want a word about the end", rest)
	}
	_ = w.Close()
	must.Is(t, <-served, nil, "Serve")
}

func TestListen(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "example.com:80", "7717"} {
		if l, err := httpapi.Listen(addr, httpapi.Config{}); !errors.Is(err, httpapi.ErrListen) {
			t.Errorf("Listen(%q) = %v, %v, want ErrListen", addr, l, err)
		}
	}
	for addr, tokens := range map[string]*access.Tokens{"127.0.0.1:0": nil, "localhost:0": nil, "0.0.0.0:0": access.One("t")} {
		l, err := httpapi.Listen(addr, httpapi.Config{Tokens: tokens})
		if err != nil {
			t.Errorf("Listen(%q) = %v", addr, err)
			continue
		}
		_ = l.Close()
	}
}

package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// raw opens a connection and sends bytes as they are.
func raw(t testing.TB, addr, text string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	must.Get(io.WriteString(c, text))(t)
	return c
}

// conversation is the status of every answer that bytes get until the server closes the connection; half: we close our
// half of it first.
func conversation(t testing.TB, addr, text string, half bool) string {
	t.Helper()
	c := raw(t, addr, text)
	if half {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	var statuses []string
	for in := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("%.60q: the connection stays open", text)
			}
			return strings.Join(statuses, " ")
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != http.StatusContinue {
			statuses = append(statuses, strconv.Itoa(res.StatusCode))
		}
	}
}

// store is a request that stores an entry; the lines are headers beside its own.
func store(token, session, body string, lines ...string) string {
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("Content-Length: %d", len(body))}
	}
	return "POST /v1/sessions/" + session + "/threads/main/entries?dialect=raw HTTP/1.1\r\nHost: localhost\r\n" +
		"Content-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n" +
		strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

const last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

// However the ends of requests are written, each is read once and as whoever sent it, and nothing is stored that a
// token did not send whole: what two readers could take for different requests is refused and ends the connection.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	const chunked = "Transfer-Encoding: chunked"
	const whole = "3\r\n\"x\"\r\n0\r\n\r\n"
	inner := store(writer, "stolen", `"x"`)
	post := func(rest string, lines ...string) string { return store(writer, "a", rest+inner, lines...) }
	one := func(lines ...string) string { return store(writer, "a", `"x"`, append(lines, "Content-Length: 3")...) }
	speak := func(version, request string) string { return strings.Replace(request, "HTTP/1.1", version, 1) }
	const h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"
	for name, c := range map[string]struct {
		send   string
		want   string // the answers' statuses
		stored string // sessions
	}{
		"plain":                  {one() + last, "202 200", "a"},
		"chunked":                {post(whole, chunked), "202", "a"}, // nothing behind it
		"length and chunks":      {post(whole, chunked, "Content-Length: 3"), "202", "a"},
		"chunks and length":      {post(whole, "Content-Length: 13", chunked), "202", "a"},
		"folded coding":          {post(whole, "Transfer-Encoding:\r\n chunked", "Content-Length: 3"), "202", "a"},
		"chunked twice":          {post(whole, chunked, chunked), "501", ""},
		"chunked, then identity": {post(whole, "Transfer-Encoding: chunked, identity"), "501", ""},
		"chunked with a tab":     {post(whole, "Transfer-Encoding:\tchunked\v"), "400", ""},
		"space before the colon": {post(whole, "Transfer-Encoding : chunked"), "400", ""},
		"unknown coding":         {post(whole, "Transfer-Encoding: xchunked"), "501", ""},
		"two lengths":            {post(`"x"`, "Content-Length: 3", "Content-Length: 4"), "400", ""},
		"lengths in a list":      {post(`"x"`, "Content-Length: 3, 3"), "400", ""},
		"signed length":          {post(`"x"`, "Content-Length: +3"), "400", ""},
		"hex length":             {post(`"x"`, "Content-Length: 0x3"), "400", ""},
		"negative length":        {post(`"x"`, "Content-Length: -1"), "400", ""},
		"length beyond 64 bits":  {post(`"x"`, "Content-Length: 18446744073709551619"), "400", ""},
		"no length":              {store(writer, "a", last, "X-None: 1"), "202 200", "a"}, // raw is any bytes, also none
		"chunk of no size":       {post("\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"chunk of a wrong size":  {post("2\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"chunk of a huge size":   {post("ffffffffffffffff3\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"chunk of 0x3":           {post("0x3\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"chunk behind a space":   {post(" 3\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"chunk ended by LF":      {post("3\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"extension ended by LF":  {post("3;a\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"long chunk extension":   {post("3;"+strings.Repeat("x", 8<<10)+"\r\n\"x\"\r\n0\r\n\r\n", chunked), "400", ""},
		"forbidden trailer":      {post(whole, chunked, "Trailer: Content-Length"), "400", ""},
		"folded identity":        {strings.Replace(one(), "Bearer ", "Bearer\r\n ", 1) + last, "202 200", "a"},
		"two identities":         {one("Authorization: Bearer "+reader) + last, "401 200", ""},
		"two hosts":              {one("Host: evil.example"), "400", ""},
		"NUL in a header":        {one("X-N: a\x00b"), "400", ""},
		"line without colon":     {one("nonsense"), "400", ""},
		"lines ended by LF":      {strings.ReplaceAll(one()+last, "\r", ""), "202 200", "a"},
		"version 2.0":            {speak("HTTP/2.0", one()), "505", ""},
		"version 1.0":            {speak("HTTP/1.0", one()), "202", "a"},
		"version 1.0 in chunks":  {speak("HTTP/1.0", post(whole, chunked)), "202", "a"},
		"upgrade to h2c":         {one(h2c) + last, "202 200", "a"}, // it stays HTTP/1.1
		"h2 in plain":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 64), "400", ""},
		"half a body":            {store(writer, "a", `"x`, "Content-Length: 9"), "", ""},
		"half a chunk":           {store(writer, "a", "9\r\n\"x", chunked), "", ""},
		"no last chunk":          {store(writer, "a", "3\r\n\"x\"\r\n", chunked), "", ""},
		"unknown expectation":    {one("Expect: 200-ok"), "417", ""},
		"refused before a body":  {store(reader, "a", "", "Content-Length: 300", "Expect: 100-continue"), "403", ""},
		"gzip":                   {one("Content-Encoding: gzip") + last, "415 200", ""},
		"encoded twice":          {one("Content-Encoding: identity", "Content-Encoding: br") + last, "415 200", ""},
		"identities in a line": {one() + store(reader, "b", `"x"`) + store(narrow, "prod", `"x"`) +
			store(narrow, "ci-1", `"x"`) + store("", "c", `"x"`) + last, "202 403 403 202 401 200", "a ci-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &sink{}
			api := httpapi.New(httpapi.Config{Publisher: out, Tokens: tokens(t), Answer: time.Second})
			addr := serveOn(t, api, httpapi.Config{},
				func(srv *http.Server) { srv.ReadHeaderTimeout = time.Second })
			if got := conversation(t, addr, c.send, c.want == ""); c.want != "" && got != c.want {
				t.Errorf("answers = %s, want %s", got, c.want)
			}
			must.Same(t, out.sessions(), c.stored, "stored in %q, want %q")
		})
	}
}

// sessions are those of what was published, in order.
func (s *sink) sessions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, e := range s.evs {
		names = append(names, e.Thread.Session)
	}
	return strings.Join(names, " ")
}

// No spelling of a path leads a token for some sessions to another one.
func TestPathsOfOthers(t *testing.T) {
	t.Parallel()
	out := &sink{}
	said := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	addr := serveOn(t, httpapi.New(httpapi.Config{Publisher: out, Tokens: tokens(t), Streams: said}), httpapi.Config{})
	for _, target := range []string{
		"/v1/sessions/prod/threads/main/entries",
		"//v1/sessions/prod/threads/main/entries", "/v1//sessions/prod/threads/main/entries",
		"/v1/sessions/ci-1/../prod/threads/main/entries", "/v1/sessions/ci-1/%2e%2e/prod/threads/main/entries",
		"/v1/sessions/ci-1%2F..%2Fprod/threads/main/entries", "/v1/sessions/ci-1%2f%2e%2e%2fprod/threads/main/entries",
		"/v1/sessions/ci-1%00/threads/main/entries", "/v1/sessions/%00ci-1/threads/main/entries",
		"/v1/sessions/ci-1%0a/threads/main/entries", "/v1/sessions/ci-1.prod/threads/main/entries",
		"/v1/sessions/ci-*/threads/main/entries", "/v1/sessions/ci-%3E/threads/main/entries",
		"/v1/sessions/ci-1/threads/..%2F..%2Fprod%2Fthreads%2Fmain/entries", "/v1/sessions/ci-1/threads/a.control@+/entries",
		"/v1/sessions/ci-1;/prod/threads/main/entries", "/v1/sessions/p%72od/threads/main/entries",
		"/v1/sessions/\xd1\x81i-1/threads/main/entries", "/V1/sessions/prod/threads/main/entries",
		"http://localhost/v1/sessions/prod/threads/main/entries",
		"http://ci-1@localhost/v1/sessions/prod/threads/main/entries",
		"/v1/sessions/ci-1/threads/main/entries?session=prod", "/v1/sessions/prod/threads/main/entries?session=ci-1",
		"/v1/sessions/ci-1/threads/main/entries?session=prod&session=ci-1",
		"/v1/stream/prod", "/v1/stream/ci-1/../prod", "/v1/stream/ci-1%2F..%2Fprod", "/v1/stream/%2e%2e/stream/prod",
		"/v1/stream//prod", "/v1/stream/ci-1/a/b", "/v1/stream/ci-1%00", "*", "localhost:1",
	} {
		for _, method := range []string{"POST", "PUT", "GET", "CONNECT", "OPTIONS"} {
			for _, name := range []string{"", "Spool-Producer: a.b>\r\nSpool-Seq: 1\r\n"} {
				join := "&"
				if !strings.Contains(target, "?") {
					join = "?"
				}
				c := raw(t, addr, method+" "+target+join+"dialect=raw HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+name+
					"Content-Type: application/json\r\nAuthorization: Bearer "+narrow+"\r\nContent-Length: 3\r\n\r\n\"x\"")
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					continue // it is no request
				}
				b, _ := io.ReadAll(res.Body)
				_ = c.Close()
				if res.StatusCode < 300 && !strings.HasPrefix(string(b), "/v1/stream/ci-1") {
					t.Errorf("%s %q = %d %s", method, target, res.StatusCode, b)
				}
			}
		}
	}
	if got := out.sessions(); got != "" {
		t.Errorf("stored in %q, want nothing", got)
	}
}

// Clients that send or take a byte now and then hold no place that another one needs, and are let go.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	conn, ctx, cl, _ := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, strings.Repeat("x", 8<<20))
	const places = 2
	const small = "GET /v1/sessions/s/threads/main/items HTTP/1.1\r\nHost: localhost\r\n"
	const large = "GET /v1/sessions/s/threads/main/items/1?full=1 HTTP/1.1\r\nHost: localhost\r\n"
	const log = "GET /v1/sessions/s/threads/main/logs/thread.log HTTP/1.1\r\nHost: localhost\r\n"
	const live = "GET /v1/sessions/s/threads/main/live HTTP/1.1\r\nHost: localhost\r\n"
	for name, send := range map[string]string{
		"header":             small + "X-Drop: ",
		"body of a read":     small + "Content-Length: 10\r\n\r\n",
		"chunks of a read":   small + "Transfer-Encoding: chunked\r\n\r\n",
		"continue":           small + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
		"answer":             large + "\r\n",
		"answers in a line":  strings.Repeat(large+"\r\n", 4),
		"log":                log + "\r\n",
		"body of a live one": live + "Content-Length: 10\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := httpapi.Config{Requests: places, Readers: places, Answer: time.Second}
			addr := serveOn(t, httpapi.For(conn, cfg), httpapi.Config{}, func(srv *http.Server) {
				srv.ReadHeaderTimeout = time.Second
			})
			var slow []net.Conn
			for range 4 * places {
				c := raw(t, addr, send)
				_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
				slow = append(slow, c)
			}
			drip := time.NewTicker(20 * time.Millisecond)
			defer drip.Stop()
			must.Until(t, "a place for another client, while slow ones are there", func() bool {
				for i, c := range slow {
					_, _ = io.WriteString(c, "x") // never the end of anything
					if i%2 == 0 {
						_, _ = c.Read(make([]byte, 1))
					}
				}
				<-drip.C
				path := "/v1/sessions/s/threads/main/items?last=1"
				if strings.HasPrefix(send, live) {
					path = "/v1/sessions/s/threads/main/live"
				}
				req := must.Get(http.NewRequestWithContext(ctx, "GET", "http://"+addr+path, nil))(t)
				res := must.Get(http.DefaultClient.Do(req))(t)
				_ = res.Body.Close()
				return res.StatusCode == 200
			})
		})
	}
}

// Who closes its half of a connection behind a request holds no place of the event streams.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	conn, ctx, cl, _ := worldOn(t, httpapi.Config{})
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	addr := serveOn(t, httpapi.For(conn, httpapi.Config{Readers: 1}), httpapi.Config{})
	c := raw(t, addr, "GET /v1/sessions/s/threads/main/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
		t.Fatalf("event stream = %v, %v", res, err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	must.Until(t, "the place of a half-closed event stream", func() bool {
		other := raw(t, addr, "GET /v1/sessions/s/threads/main/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(other), nil)
		return err == nil && res.StatusCode == 200
	})
}

package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"spool/internal/dstreams"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// Clients that are idle in the middle of a body or an answer keep nobody waiting, not even where all have one token: 70 of them
// are more than a lane has places.
func TestIdleClientsLendTheirPlaces(t *testing.T) {
	t.Parallel()
	conn, ctx, cl, _ := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, strings.Repeat("x", 2<<20)) // more than the buffers of a connection below hold
	const head = " HTTP/1.1\r\nHost: localhost\r\n"
	const begun = "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
	const thread = "/v1/sessions/s/threads/main"
	for name, c := range map[string]struct{ idle, method, path, body string }{
		"a page":      {"GET " + thread + "/page?as=md" + head + "\r\n", "GET", thread, ""},
		"a log":       {"GET " + thread + "/logs/thread.log" + head + "\r\n", "GET", thread, ""},
		"MCP":         {"POST /mcp" + head + begun, "GET", thread, ""},
		"an entry":    {"POST " + thread + "/entries?dialect=raw" + head + begun, "POST", thread + "/entries?dialect=raw", "{}"},
		"a change":    {"POST " + thread + "/label" + head + begun, "POST", thread + "/entries?dialect=raw", "{}"},
		"an artifact": {"POST /v1/sessions/s/artifacts" + head + begun, "POST", "/v1/sessions/s/artifacts", "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serveOn(t, httpapi.For(conn, httpapi.Config{Requests: 64, Writers: 64}), httpapi.Config{}, func(srv *http.Server) {
				srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
					must.Do(t, c.(*net.TCPConn).SetWriteBuffer(16<<10))
					return ctx
				}
			})
			var idle []net.Conn
			for range 70 {
				idle = append(idle, raw(t, addr, c.idle))
				_ = idle[len(idle)-1].(*net.TCPConn).SetReadBuffer(4 << 10)
			}
			for _, conn := range idle {
				if !strings.HasPrefix(c.idle, "POST") { // its answer has begun, so it waits for its client; or it has ended
					_, _ = conn.Read(make([]byte, 1))
				}
			}
			began, answered := time.Now(), 0
			must.Until(t, "three answers beside idle clients", func() bool { // it is busy until all of these wait for their clients
				req := must.Get(http.NewRequestWithContext(ctx, c.method, "http://"+addr+c.path, strings.NewReader(c.body)))(t)
				req.Header.Set("Content-Type", "application/json")
				res := must.Get(http.DefaultClient.Do(req))(t)
				_ = res.Body.Close()
				if res.StatusCode < 300 {
					answered++
				}
				return answered == 3
			})
			if took := time.Since(began); took > 15*time.Second { // alone it takes a second; unless places are lent, half a minute
				t.Errorf("three answers beside idle clients took %v", took)
			}
		})
	}
}

// Lines that stop in the middle keep nobody from storing by the memory that they hold.
func TestIdleLinesLendTheirMemory(t *testing.T) {
	t.Parallel()
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out, Memory: 8 << 20})
	half := dial(t, url, "/v1/events", "application/x-ndjson", "", `{"session":"s","dialect":"raw","body":"`+strings.Repeat("x", 7<<20))
	ended := make(chan int, 1)
	go func() {
		res, err := http.ReadResponse(bufio.NewReader(half), nil)
		if err != nil {
			res = &http.Response{}
		}
		ended <- res.StatusCode
	}()
	began, stored, gone := time.Now(), 0, false
	must.Until(t, "the end of half a line", func() bool { // one of ours may come before it, or while both come, and wait for each other
		status, _, _ := do(t, url, request{path: "/v1/events", kind: "application/x-ndjson",
			body: `{"session":"s","dialect":"raw","body":"` + strings.Repeat("y", 2<<20) + "\"}\n"})
		if status == 200 {
			stored++
		}
		select {
		case status := <-ended:
			must.Same(t, status, 429, "half a line = %d, want %d")
			gone = true
		default:
		}
		return gone && stored > 0
	})
	if took := time.Since(began); took > 30*time.Second { // without an end of its own it is silent for a minute
		t.Errorf("%d lines stored, and half a line ended after %v", stored, took)
	}
}

// Appends to Durable Streams that stop in the middle keep nobody from these.
func TestIdleAppendsLendTheirMemory(t *testing.T) {
	t.Parallel()
	conn, ctx, _, _ := worldOn(t, httpapi.Config{})
	api := httpapi.For(conn, httpapi.Config{Streams: dstreams.New(dstreams.On(conn, nil)), Memory: 64 << 20, Tokens: tokens(t)})
	addr := serveOn(t, api, httpapi.Config{})
	ask := func(token, method, body string) int {
		req := must.Get(http.NewRequestWithContext(ctx, method, "http://"+addr+"/v1/stream/s", strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res := must.Get(http.DefaultClient.Do(req))(t)
		_ = res.Body.Close()
		return res.StatusCode
	}
	must.Same(t, ask(chief, "PUT", ""), 201, "the stream = %d, want %d")
	var idle []net.Conn
	for range 16 {
		idle = append(idle, dial(t, "http://"+addr, "/v1/stream/s", "application/json", writer, "["))
	}
	began := time.Now()
	for range 8 {
		if got := ask(chief, "POST", "[1]"); got >= 300 {
			t.Errorf("an append = %d", got)
		}
		if got := ask(reader, "GET", ""); got != 200 {
			t.Errorf("a read = %d", got)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("eight of each took %v", took)
	}
	must.Until(t, "another one of the same token is stored", func() bool { return ask(writer, "POST", "[2]") < 300 })
	_ = idle[0].SetReadDeadline(time.Now().Add(time.Minute))
	if res, err := http.ReadResponse(bufio.NewReader(idle[0]), nil); err == nil && res.StatusCode != 429 {
		t.Errorf("an append that stopped = %s, want 429", res.Status)
	}
}

// A client that is slow, but sends all the time, keeps its place: it would begin anew for ever where many are slow.
func TestSlowClientsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	url := start(t, httpapi.Config{Publisher: &sink{}, Writers: 2})
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			body, in := io.Pipe()
			go func() { // 100 KB/s
				_, _ = io.WriteString(in, `"`)
				for range 60 {
					_, _ = io.WriteString(in, strings.Repeat("x", 10<<10))
					time.Sleep(100 * time.Millisecond)
				}
				_, _ = io.WriteString(in, `"`)
				_ = in.Close()
			}()
			res, err := http.Post(url+linesPath, "application/json", body)
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			_ = res.Body.Close()
			answers <- res.StatusCode
		}()
	}
	for len(answers) < 2 {
		do(t, url, request{path: linesPath, kind: "application/json", body: "{}"})
	}
	for range 2 {
		must.Same(t, <-answers, 202, "600 KiB at 100 KB/s = %d, want %d")
	}
}

// busySink takes its time to store.
type busySink struct{ sink }

func (s *busySink) PublishEvents(ctx context.Context, evs []*events.Event) error {
	time.Sleep(200 * time.Millisecond)
	return s.sink.PublishEvents(ctx, evs)
}

// A stream of lines that was silent between two of them is not slow while what it sent is stored. One that stops in a line is, and is told.
func TestSilentLinesAreNotSlow(t *testing.T) {
	t.Parallel()
	const line = `{"session":"s","dialect":"raw","body":"x"}` + "\n"
	url := start(t, httpapi.Config{Publisher: &busySink{}, Memory: 8 << 20})
	answers := func(c net.Conn) <-chan string {
		all := make(chan string, 1)
		go func() {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				all <- err.Error()
				return
			}
			b, _ := io.ReadAll(res.Body)
			all <- string(b)
		}()
		return all
	}
	send := func(c net.Conn) { must.Get(fmt.Fprintf(c, "%x\r\n%s\r\n", len(line), line))(t) }
	agent := dial(t, url, "/v1/events", "application/x-ndjson", "", "")
	told := answers(agent)
	time.Sleep(1500 * time.Millisecond)
	send(agent)
	stop := func() <-chan string {
		return answers(dial(t, url, "/v1/events", "application/x-ndjson", "",
			line+`{"session":"s","dialect":"raw","body":"`+strings.Repeat("x", 7<<20)))
	}
	half := stop()
	must.Until(t, "the end of half a line", func() bool {
		send(agent)
		do(t, url, request{path: "/v1/events", kind: "application/x-ndjson",
			body: `{"session":"s","dialect":"raw","body":"` + strings.Repeat("y", 2<<20) + "\"}\n"})
		select {
		case got := <-half:
			if strings.Contains(got, "no room") { // it came together with another one, and they waited for each other
				half = stop()
				return false
			}
			if !strings.Contains(got, "the client was slow") {
				t.Errorf("who stopped in a line is told %q", got)
			}
			return true
		case got := <-told:
			t.Fatalf("the stream that was silent between two lines has ended: %s", got)
			return false
		default:
			return false
		}
	})
}

// drain is an inbox that reads what it is sent.
type drain struct{}

func (drain) CheckIn(_ context.Context, body io.Reader) (events.BodyRef, error) {
	n, err := io.Copy(io.Discard, body)
	return events.BodyRef{Size: n}, err
}

// Two tokens hold nearly all memory with entries that are too large for it. Their clients go on sending, and none is slow. Another one that
// asks for less than its part has it: one of theirs gives way, and is told why.
func TestWhatIsBeyondAPartIsLent(t *testing.T) {
	t.Parallel()
	url := start(t, httpapi.Config{Publisher: &sink{}, Inbox: drain{}, MaxBody: 1 << 30, Tokens: tokens(t), Memory: 34 << 20})
	ended := make(chan string, 8)
	for _, token := range []string{writer, narrow} { // each has half
		for range 4 {
			conn := dial(t, url, linesPath, "application/json", token, `"`+strings.Repeat("x", 5<<20))
			go func() { // 128 KiB/s
				for tick := time.NewTicker(250 * time.Millisecond); ; <-tick.C {
					if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", 32<<10, strings.Repeat("x", 32<<10)); err != nil {
						return
					}
				}
			}()
			go func() {
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil { // the test is over, or it was cut off in the middle
					return
				}
				body, _ := io.ReadAll(res.Body)
				ended <- res.Status + " " + string(body)
			}()
		}
	}
	status, _, said := do(t, url, request{path: linesPath, kind: "application/json", body: `"` + strings.Repeat("y", 3<<20) + `"`,
		header: map[string]string{"Authorization": "Bearer " + chief}})
	if status != 202 {
		t.Fatalf("an entry beside two tokens that hold all = %d %s, want 202", status, said)
	}
	if got := <-ended; !strings.Contains(got, "another one waited") {
		t.Errorf("who held more than its part is told %q", got)
	}
}

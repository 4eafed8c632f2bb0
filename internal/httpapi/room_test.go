package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// dial sends the beginning of a request whose body is not complete.
func dial(t testing.TB, url, path, kind, token, body string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n", path, kind, token)
	if body != "" {
		fmt.Fprintf(c, "%x\r\n%s\r\n", len(body), body)
	}
	return c
}

const linesPath = "/v1/sessions/ci-1/threads/main/entries?dialect=raw"

// Clients that send nothing, or never an end, keep nobody from storing; those that are silent for too long are cut off.
func TestIdleClients(t *testing.T) {
	url := start(t, httpapi.Config{Publisher: &sink{}, Tokens: tokens(t), Pipes: 64, Writers: 64, Idle: 2 * time.Second})
	var idle []net.Conn
	for range 40 { // more than its half
		idle = append(idle, dial(t, url, linesPath, "application/x-ndjson", narrow, ""))
		dial(t, url, linesPath, "application/json", narrow, "{")
	}
	store := func(token, kind string) int {
		status, _, _ := do(t, url, request{path: linesPath, kind: kind, body: "{}\n",
			header: map[string]string{"Authorization": "Bearer " + token}})
		return status
	}
	must.Until(t, "its half of the streams", func() bool { return store(narrow, "application/x-ndjson") == 429 })
	for _, token := range []string{writer, narrow} { // an entry is no stream: the slowest of its own gives its place
		must.Same(t, store(token, "application/json"), 202, "store beside idle clients = %d, want %d")
	}
	must.Same(t, store(writer, "application/x-ndjson"), 200, "lines beside idle clients = %d, want %d")
	answered := idle[0]
	_ = answered.SetReadDeadline(time.Now().Add(time.Minute))
	if res, err := http.ReadResponse(bufio.NewReader(answered), nil); err != nil || res.StatusCode == 200 {
		t.Errorf("silent client: %v %v, want to be cut off", res, err)
	}
}

// What requests have in memory is bounded: those beyond it wait, and are told to come again; all that do are stored.
func TestMemoryOfUnfinishedLines(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out, Memory: 8 << 20, Patience: 50 * time.Millisecond})
	const clients, size = 24, 2 << 20
	var wg sync.WaitGroup
	var refused atomic.Int64
	line := `{"session":"s","dialect":"raw","body":"` + strings.Repeat("x", size)
	for range clients {
		wg.Go(func() {
			for t.Context().Err() == nil {
				body := &slow{r: io.MultiReader(strings.NewReader(line), strings.NewReader(`"}`+"\n"))}
				res, err := http.Post(url+"/v1/events", "application/x-ndjson", body)
				if err == nil {
					res.Body.Close()
				}
				switch {
				case err != nil, res.StatusCode == 429: // an error: cut off while it was sending
					refused.Add(1)
					time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
				case res.StatusCode == 200:
					return
				default:
					t.Errorf("status %d", res.StatusCode)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(out.evs) != clients || refused.Load() == 0 {
		t.Errorf("%d stored, %d times refused: want %d stored, and some refused before", len(out.evs), refused.Load(), clients)
	}
	// All of it was given back.
	for range 3 {
		got, _, text := do(t, url, request{path: "/v1/events", kind: "application/x-ndjson",
			body: `{"session":"s","dialect":"raw","body":"` + strings.Repeat("y", 7<<20) + `"}`})
		if got != 200 || !strings.Contains(text, `"ok":true`) {
			t.Fatalf("alone = %d %.200s", got, text)
		}
	}
}

// slow waits before its end.
type slow struct {
	r io.Reader
	n int
}

func (s *slow) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.n += n; err == io.EOF || n == 3 {
		time.Sleep(200 * time.Millisecond)
	}
	return n, err
}

// A token that may only write is told nothing of what is stored.
func TestWriteOnlyLearnsNothing(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t)})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "a secret word")
	for _, q := range []struct {
		path, body string
		status     int
	}{
		{"/fork", `{"to":"f","role":"nobody"}`, 400},
		{"/fork", `{"to":"f"}`, 201},
		{"/compact", `{"summary":"all"}`, 200},
		{"/branch", `{}`, 200},
		{"/rename", `{"to":"other"}`, 200},
	} {
		status, _, body := do(t, url, request{
			path: "/v1/sessions/s/threads/main" + q.path, kind: "application/json", body: q.body,
			header: map[string]string{"Authorization": "Bearer " + writer},
		})
		if status != q.status || status < 300 && strings.TrimSpace(body) != `{"ok":true}` ||
			strings.Contains(body, "available") || strings.Contains(body, "secret") {
			t.Errorf("%s %s = %d %s", q.path, q.body, status, body)
		}
	}
}

// What is compressed is refused, not stored as it came; what could be read as two requests is one, or none.
func TestBodiesThatAreNotWhatTheySeem(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out})
	status, _, body := do(t, url, request{path: linesPath, kind: "application/json", body: "\x1f\x8b",
		header: map[string]string{"Content-Encoding": "gzip"}})
	if status != 415 || !strings.Contains(body, "gzip") || len(out.evs) != 0 {
		t.Errorf("gzip = %d %s, %d stored", status, body, len(out.evs))
	}
	const inner = "POST " + linesPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n\"inner\""
	for _, head := range []string{
		"Transfer-Encoding: chunked, identity\r\n\r\n" + inner,
		"Transfer-Encoding: x\r\nContent-Length: 0\r\n\r\n" + inner,
		"Content-Length: 7\r\nContent-Length: 8\r\n\r\n" + inner,
		"Content-Length : 0\r\n\r\n" + inner,
	} {
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s", linesPath, head)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode < 400 {
			t.Errorf("%q = %v %v, want a refusal", head, res, err)
		} else {
			_, _ = io.Copy(io.Discard, res.Body)
			if second, err := http.ReadResponse(in, nil); err == nil {
				t.Errorf("%q: a second answer: %s", head, second.Status)
			}
		}
		c.Close()
	}
	must.Same(t, len(out.evs), 0, "%d entries stored, want %d")
}

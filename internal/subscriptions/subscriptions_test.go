package subscriptions_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/dstreams"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/subscriptions"
	"spool/pkg/client"
)

// world is a system, and a process that serves it.
type world struct {
	*testing.T
	conn *natsio.Conn
	url  string
	stop func() // of the process at url: it serves on, and wakes nobody
	key  ed25519.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	w := &world{T: t, conn: conn, key: must.Get(subscriptions.Key(filepath.Join(t.TempDir(), "key")))(t)}
	w.url, w.stop = w.serve()
	return w
}

// serve begins a process; stop ends it.
func (w *world) serve() (url string, stop func()) {
	w.Helper()
	log := &natstest.Log{} // a delivery may outlive the test, and what it says then is not the test's
	w.Cleanup(func() { w.Log(log.String()) })
	streams := dstreams.New(dstreams.On(w.conn, nil))
	subs := subscriptions.New(subscriptions.Config{
		Client: client.New(w.conn), Records: w.conn.Records(), Streams: streams, Prefix: dstreams.Prefix, Key: w.key, Private: true,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	mux := http.NewServeMux()
	mux.Handle(dstreams.Prefix, streams)
	mux.Handle(dstreams.Prefix+subscriptions.Control, subs)
	srv := httptest.NewServer(mux)
	w.Cleanup(srv.Close)
	return srv.URL, natstest.Run(w.T, subs.Run)
}

// ask makes a request and gives what is answered; it must have the status.
func (w *world) ask(status int, method, path, token string, body any) map[string]any {
	w.Helper()
	var text []byte
	if body != nil {
		text = must.Get(json.Marshal(body))(w.T)
	}
	address := path
	if !strings.HasPrefix(path, "http") {
		address = w.url + dstreams.Prefix + path
	}
	req := must.Get(http.NewRequestWithContext(w.Context(), method, address, bytes.NewReader(text)))(w.T)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res := must.Get(http.DefaultClient.Do(req))(w.T)
	defer res.Body.Close()
	said := must.Get(io.ReadAll(res.Body))(w.T)
	if res.StatusCode != status {
		w.Fatalf("%s %s: %s %s, want %d", method, path, res.Status, said, status)
	}
	var out map[string]any
	_ = json.Unmarshal(said, &out) // a stream is none
	return out
}

// code is the code of a refusal.
func code(answer map[string]any) any {
	e, _ := answer["error"].(map[string]any)
	return e["code"]
}

// hook is a webhook that does as it is told, and notes what it was told of.
type hook struct {
	*httptest.Server
	wakes chan map[string]any
}

func newHook(t *testing.T, answer func(n int, w http.ResponseWriter, wake map[string]any)) *hook {
	h := &hook{wakes: make(chan map[string]any, 1000)}
	var n atomic.Int32
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var wake map[string]any
		if err := json.NewDecoder(r.Body).Decode(&wake); err != nil {
			t.Errorf("a wake that is no JSON: %v", err)
		}
		answer(int(n.Add(1)), w, wake)
		h.wakes <- wake
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case wake := <-h.wakes:
		return wake
	case <-time.After(time.Minute):
		t.Fatal("no wake came")
		return nil
	}
}

func (w *world) webhook(id, pattern, address string, lease int) {
	w.Helper()
	w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/"+url.PathEscape(id), "", map[string]any{
		"type": "webhook", "pattern": pattern, "webhook": map[string]any{"url": address}, "lease_ttl_ms": lease,
	})
}

func (w *world) stream(name string) {
	w.Helper()
	w.ask(http.StatusCreated, "PUT", name, "", map[string]any{"made": name})
}

// streamsOf are the streams of a wake that have more than is acked, each with its tail.
func pendingOf(wake map[string]any) map[string]string {
	out := map[string]string{}
	for _, s := range wake["streams"].([]any) {
		s := s.(map[string]any)
		if s["has_pending"] == true {
			out[s["path"].(string)] = s["tail_offset"].(string)
		}
	}
	return out
}

func done(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"done":true}`) } // a client that is gone

// TestWebhooks wakes one that fails, hangs up, answers nonsense, and is done: what it was not done with comes again, and nothing twice
// that it was done with.
func TestWebhooks(t *testing.T) {
	w := newWorld(t)
	w.stream("jobs/old")
	w.ask(http.StatusOK, "GET", "jobs/old", "", nil) // now it is applied
	h := newHook(t, func(n int, rw http.ResponseWriter, _ map[string]any) {
		switch n {
		case 1:
			rw.WriteHeader(http.StatusInternalServerError)
		case 2:
			panic(http.ErrAbortHandler)
		case 3: // it is at work, until its lease is over
			_, _ = io.WriteString(rw, "\x00 nonsense")
		default:
			done(rw)
		}
	})
	w.webhook("all of/them", "jobs/**", h.URL, 1000)
	w.stream("jobs/a/b")
	first, third, fourth := h.next(t), h.next(t), h.next(t)
	for i, wake := range []map[string]any{first, third, fourth} {
		if got := pendingOf(wake); len(got) != 1 || got["jobs/a/b"] == "" || wake["generation"].(float64) < float64(i+1) {
			t.Errorf("wake %v is of %v, want jobs/a/b alone", wake["generation"], got)
		}
	}
	stale := map[string]any{"wake_id": third["wake_id"], "generation": third["generation"], "done": true}
	if got := w.ask(http.StatusConflict, "POST", third["callback_url"].(string), third["callback_token"].(string), stale); code(got) != "FENCED" {
		t.Errorf("a callback of a lease that is over: %v", got)
	}
	w.stream("jobs/c")
	if got := pendingOf(h.next(t)); len(got) != 1 || got["jobs/c"] == "" {
		t.Errorf("the wake is of %v, want jobs/c alone", got)
	}
	sub := w.ask(http.StatusOK, "GET", "__ds/subscriptions/all%20of%2Fthem", "", nil)
	if sub["status"] != "active" || len(sub["streams"].([]any)) != 3 {
		t.Errorf("the subscription is %v", sub)
	}
}

// TestProcesses: of several processes one tells of each wake, and no other wake is under way meanwhile; when one ends the others go on.
func TestProcesses(t *testing.T) {
	w := newWorld(t)
	_, stop := w.serve()
	var under, most atomic.Int32
	var mu sync.Mutex
	acked, generations := map[string]bool{}, map[float64]int{}
	h := newHook(t, func(n int, rw http.ResponseWriter, wake map[string]any) {
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		time.Sleep(20 * time.Millisecond) // it works
		mu.Lock()
		defer mu.Unlock()
		generations[wake["generation"].(float64)]++
		for name := range pendingOf(wake) {
			acked[name] = true
		}
		done(rw)
	})
	w.webhook("s", "jobs/*", h.URL, 10_000)
	const streams = 30
	for i := range streams {
		if w.stream(fmt.Sprintf("jobs/%d", i)); i == streams/2 {
			stop()
		}
	}
	for all := false; !all; {
		h.next(t)
		mu.Lock()
		all = len(acked) == streams
		mu.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	for generation, times := range generations {
		if times != 1 {
			t.Errorf("wake %v was told of %d times", generation, times)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d wakes were under way at a time", most.Load())
	}
}

// TestWhileNobodyLooked: what was appended while no process ran wakes when one does, also of a stream that is new, or was made and closed.
func TestWhileNobodyLooked(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("s", "jobs/*", h.URL, 1000)
	w.stop()
	w.stream("jobs/new")
	w.stream("jobs/short")
	w.close("jobs/short")
	w.serve()
	for missing := map[string]bool{"jobs/new": true, "jobs/short": true}; len(missing) > 0; {
		for name := range pendingOf(h.next(t)) {
			delete(missing, name)
		}
	}
}

// TestLeaseOverARestart: a lease that was given before a process began is over in time, and then there is the next wake.
func TestLeaseOverARestart(t *testing.T) {
	w := newWorld(t)
	w.stream("wake")
	const at = "__ds/subscriptions/pull"
	w.ask(http.StatusCreated, "PUT", at, "", map[string]any{
		"type": "pull-wake", "pattern": "jobs/*", "wake_stream": "wake", "lease_ttl_ms": 2000,
	})
	w.stream("jobs/a")
	wakes := func() int {
		res := must.Get(http.Get(w.url + dstreams.Prefix + "wake"))(t)
		defer res.Body.Close()
		return bytes.Count(must.Get(io.ReadAll(res.Body))(t), []byte(`"type":"wake"`))
	}
	await := func(n int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); wakes() < n; {
			if time.Now().After(end) {
				t.Fatalf("%d wakes in a minute, want %d", wakes(), n)
			}
		}
	}
	await(1)
	w.ask(http.StatusOK, "POST", at+"/claim", "", map[string]any{"worker": "dies"})
	w.stop()
	w.serve()
	await(2)
}

// TestPull claims: one at a time, what is acked no more, and nobody with the token of a lease that is over.
func TestPull(t *testing.T) {
	w := newWorld(t)
	w.stream("wake/pool")
	w.stream("jobs/a")
	w.ask(http.StatusOK, "GET", "jobs/a", "", nil) // now it is applied
	const at = "__ds/subscriptions/pull"
	w.ask(http.StatusCreated, "PUT", at, "", map[string]any{
		"type": "pull-wake", "pattern": "**", "streams": []string{"jobs/later"}, "wake_stream": "wake/pool", "lease_ttl_ms": 1000,
	})
	claim := func(status int, worker string) map[string]any {
		t.Helper()
		return w.ask(status, "POST", at+"/claim", "", map[string]any{"worker": worker})
	}
	if got := claim(http.StatusConflict, "one"); code(got) != "NO_PENDING_WORK" {
		t.Errorf("with nothing to do: %v", got)
	}
	w.stream("jobs/later")
	w.ask(http.StatusNoContent, "POST", "jobs/a", "", map[string]any{"n": 2})
	one := claim(http.StatusOK, "one")
	tails := pendingOf(one)
	if len(tails) != 2 {
		t.Fatalf("claimed %v, want jobs/a and jobs/later", tails)
	}
	if got := claim(http.StatusConflict, "two"); code(got) != "ALREADY_CLAIMED" || got["error"].(map[string]any)["current_holder"] != "one" {
		t.Errorf("claimed twice: %v", got)
	}
	says := func(claimed map[string]any, more map[string]any) map[string]any {
		out := map[string]any{"wake_id": claimed["wake_id"], "generation": claimed["generation"]}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	ackOf := func(stream, offset string) map[string]any {
		return map[string]any{"acks": []any{map[string]any{"stream": stream, "offset": offset}}}
	}
	token := one["token"].(string)
	for _, bad := range []map[string]any{
		ackOf("jobs/a", "-1"), ackOf("jobs/a", "0000000000000009_0000000000000000"), ackOf("no/such", tails["jobs/a"]), ackOf("jobs/a", "x"),
	} {
		if got := w.ask(http.StatusConflict, "POST", at+"/ack", token, says(one, bad)); code(got) != "INVALID_OFFSET" {
			t.Errorf("%v: %v", bad, got)
		}
	}
	if got := w.ask(http.StatusConflict, "POST", at+"/ack", "x", says(one, nil)); code(got) != "FENCED" {
		t.Errorf("with another token: %v", got)
	}
	w.ask(http.StatusOK, "POST", at+"/ack", token, says(one, ackOf("jobs/a", tails["jobs/a"])))
	claimSoon := func(worker string) (claimed map[string]any) {
		t.Helper()
		for claimed["token"] == nil {
			body := strings.NewReader(fmt.Sprintf(`{"worker":%q}`, worker))
			req := must.Get(http.NewRequestWithContext(t.Context(), "POST", w.url+dstreams.Prefix+at+"/claim", body))(t)
			res := must.Get(http.DefaultClient.Do(req))(t)
			must.Do(t, json.NewDecoder(res.Body).Decode(&claimed))
			res.Body.Close()
		}
		return claimed
	}
	two := claimSoon("two") // once the lease of one is over
	if got := pendingOf(two); len(got) != 1 || got["jobs/later"] == "" {
		t.Errorf("the second has %v, want jobs/later alone", got)
	}
	if got := w.ask(http.StatusConflict, "POST", at+"/ack", token, says(one, map[string]any{"done": true})); code(got) != "FENCED" {
		t.Errorf("the first, late: %v", got)
	}
	w.ask(http.StatusNoContent, "POST", at+"/release", two["token"].(string), says(two, nil))
	three := claim(http.StatusOK, "three")
	got := w.ask(http.StatusOK, "POST", at+"/ack", three["token"].(string), says(three, map[string]any{
		"done": true, "acks": []any{map[string]any{"path": "/jobs/later", "offset": tails["jobs/later"]}}}))
	if got["next_wake"] != false {
		t.Errorf("all is acked: %v", got)
	}
	w.ask(http.StatusNoContent, "DELETE", "jobs/a", "", nil)
	w.stream("jobs/a") // another one of the name, as long as what was acked of the first
	w.ask(http.StatusNoContent, "POST", "jobs/a", "", map[string]any{"n": 2})
	if got := pendingOf(claimSoon("four")); len(got) != 1 || got["jobs/a"] == "" {
		t.Errorf("the stream that was made anew: %v", got)
	}
	w.ask(http.StatusNoContent, "DELETE", at, "", nil)
	w.ask(http.StatusNoContent, "DELETE", at, "", nil)
	if got := claim(http.StatusNotFound, "five"); code(got) != "SUBSCRIPTION_NOT_FOUND" {
		t.Errorf("of a subscription that was removed: %v", got)
	}
}

// TestRefused: what is no subscription is refused, and says why.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	hook := map[string]any{"url": "https://example.com/hook"}
	for _, c := range []struct {
		code string
		body map[string]any
	}{
		{"INVALID_REQUEST", map[string]any{}},
		{"INVALID_REQUEST", map[string]any{"type": "webhook", "pattern": "a", "lease_ttl_ms": 999, "webhook": hook}},
		{"INVALID_REQUEST", map[string]any{"type": "webhook", "pattern": "a", "lease_ttl_ms": 600001, "webhook": hook}},
		{"INVALID_REQUEST", map[string]any{"type": "webhook", "webhook": hook}},
		{"INVALID_REQUEST", map[string]any{"type": "pull-wake", "pattern": "a"}},
		{"INVALID_REQUEST", map[string]any{"type": "pull-wake", "pattern": "a", "wake_stream": "__ds/x"}},
		{"INVALID_REQUEST", map[string]any{"type": "pull-wake", "streams": []string{""}, "wake_stream": "x"}},
		{"WEBHOOK_URL_REJECTED", map[string]any{"type": "webhook", "pattern": "a"}},
		{"WEBHOOK_URL_REJECTED", map[string]any{"type": "webhook", "pattern": "a", "webhook": map[string]any{"url": "http://example.com"}}},
		{"WEBHOOK_URL_REJECTED", map[string]any{"type": "webhook", "pattern": "a", "webhook": map[string]any{"url": "file:///etc/passwd"}}},
		{"WEBHOOK_URL_REJECTED", map[string]any{"type": "webhook", "pattern": "a", "webhook": map[string]any{"url": "http://127.0.0.1.example.com"}}},
	} {
		if got := w.ask(http.StatusBadRequest, "PUT", "__ds/subscriptions/x", "", c.body); code(got) != c.code {
			t.Errorf("%v: %v, want %s", c.body, got, c.code)
		}
	}
	w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/x", "", map[string]any{"type": "webhook", "pattern": "a", "webhook": hook})
	w.ask(http.StatusConflict, "PUT", "__ds/subscriptions/x", "", map[string]any{"type": "webhook", "pattern": "b", "webhook": hook})
	w.ask(http.StatusNotFound, "GET", "__ds/other", "", nil)
	w.ask(http.StatusNotFound, "GET", "__ds/subscriptions/y", "", nil)
	w.ask(http.StatusMethodNotAllowed, "GET", "__ds/subscriptions/x/claim", "", nil)
	w.ask(http.StatusUnauthorized, "POST", "__ds/subscriptions/x/callback", "", map[string]any{})
}

// TestPatterns: * is a segment of a name, and ** any number of them.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "a/b", false}, {"*", "a", true}, {"*", "a/b", false}, {"a/*", "a/b", true}, {"a/*", "a", false},
		{"**", "a", true}, {"**", "a/b/c", true}, {"a/**", "a", true}, {"a/**", "a/b/c", true}, {"**/c", "c", true}, {"**/c", "a/b/c", true},
		{"**/c", "a/b/d", false}, {"a/**/c", "a/c", true}, {"a/**/**/c", "a/x/y/c", true}, {"a*", "ab", false},
		{strings.Repeat("**/", 100) + "z", strings.Repeat("a/", 100) + "y", false},
	} {
		if got := subscriptions.Matches(c.pattern, c.name); got != c.want {
			t.Errorf("%.40q matches %.40q: %v", c.pattern, c.name, got)
		}
	}
}

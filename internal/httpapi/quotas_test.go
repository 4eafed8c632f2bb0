package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/apply"
	"spool/internal/dstreams"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/quota"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/events"
)

// bodies are the entries of a session, in order.
func (s *sink) bodies(session string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.evs {
		if e.Thread.Session == session {
			all = append(all, string(e.Body))
		}
	}
	return all
}

// told is a refusal, or a line of the answer to a stream.
type told struct {
	Line  int64  `json:"line"`
	OK    bool   `json:"ok"`
	Seq   int    `json:"seq"`
	Error string `json:"error"`
	Quota string `json:"quota"`
	Limit int64  `json:"limit"`
	After int    `json:"retry_after"`
}

// obey waits for as long as a refusal says.
func obey(t *testing.T, header http.Header, body, quota string, limit int64) {
	t.Helper()
	var why told
	after, err := strconv.Atoi(header.Get("Retry-After"))
	if bad := json.Unmarshal([]byte(body), &why); err != nil || bad != nil || after < 1 || why.After != after {
		t.Fatalf("refusal: Retry-After %q, %s", header.Get("Retry-After"), body)
	}
	if why.Quota != quota || why.Limit != limit || !strings.Contains(why.Error, fmt.Sprint(limit)) {
		t.Fatalf("refusal: %s, want that it names %s and %d", body, quota, limit)
	}
	time.Sleep(time.Duration(after) * time.Second)
}

// Who sends faster than its session may is told when to come again, and then is let in: each entry is stored once. Other
// sessions do not notice.
func TestQuotaOfASession(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out, Quotas: quota.New(quota.Rates{Session: quota.Rate{Entries: 5}})})
	refused, want := 0, []string(nil)
	for i := 1; i <= 18; i++ {
		want = append(want, strconv.Itoa(i))
		q := request{path: "/v1/sessions/busy/threads/main/entries?dialect=raw", kind: "application/json", body: strconv.Itoa(i)}
		q.header = map[string]string{"Spool-Producer": "p", "Spool-Seq": strconv.Itoa(i)}
		status, header, body := do(t, url, q)
		if status == 429 {
			refused++
			obey(t, header, body, "session_entries", 5)
			status, _, body = do(t, url, q)
		}
		if status != 202 {
			t.Fatalf("entry %d = %d %s, want 202", i, status, body)
		}
		calm := request{path: fmt.Sprintf("/v1/sessions/calm-%d/threads/main/entries?dialect=raw", i), kind: "application/json", body: "1"}
		if status, _, body := do(t, url, calm); status != 202 {
			t.Fatalf("entry of another session = %d %s, want 202", status, body)
		}
	}
	if got := out.bodies("busy"); fmt.Sprint(got) != fmt.Sprint(want) || refused == 0 {
		t.Errorf("stored %v after %d refusals, want %v after some", got, refused, want)
	}
}

// What the store did not take costs nothing of a quota.
func TestQuotaOfWhatFails(t *testing.T) {
	out := &sink{fail: record.ErrDenied}
	url := start(t, httpapi.Config{Publisher: out, Quotas: quota.New(quota.Rates{Session: quota.Rate{Entries: 1}})})
	q := request{path: "/v1/sessions/s/threads/main/entries?dialect=raw", kind: "application/json", body: "1"}
	for range 20 {
		if status, _, body := do(t, url, q); status == 429 || status/100 == 2 {
			t.Fatalf("an entry that the store does not take = %d %s", status, body)
		}
	}
	out.mu.Lock()
	out.fail = nil
	out.mu.Unlock()
	if status, _, body := do(t, url, q); status != 202 {
		t.Errorf("an entry that it takes = %d %s, want 202", status, body)
	}
}

// A stream is slowed to what it may store. One that would have to wait too long ends, says which lines are stored and
// when to come again, and goes on behind the last one: each line is stored once.
func TestQuotaOfAStream(t *testing.T) {
	const lines = 40
	for _, patience := range []time.Duration{time.Millisecond, time.Minute} {
		out := &sink{}
		quotas := quota.New(quota.Rates{User: quota.Rate{Entries: 10}})
		url := start(t, httpapi.Config{Publisher: out, Patience: patience, Quotas: quotas})
		begun, next, refused, want := time.Now(), 1, 0, []string(nil)
		for i := range lines {
			want = append(want, strconv.Itoa(i+1))
		}
		for next <= lines {
			q := request{path: "/v1/sessions/s/threads/main/entries?dialect=raw&user=mira", kind: "application/x-ndjson",
				body: strings.Join(want[next-1:], "\n"), header: map[string]string{"Spool-Producer": "p", "Spool-Seq": strconv.Itoa(next)}}
			status, header, body := do(t, url, q)
			if status == 429 {
				obey(t, header, body, "user_entries", 10)
				refused++
				continue
			}
			for text := range strings.Lines(body) {
				var line told
				if err := json.Unmarshal([]byte(text), &line); err != nil || status != 200 {
					t.Fatalf("%d %s: %v", status, body, err)
				}
				if line.OK {
					next = line.Seq + 1
				}
				if line.After > 0 {
					obey(t, http.Header{"Retry-After": {strconv.Itoa(line.After)}}, text, "user_entries", 10)
					refused++
				}
			}
		}
		if got := out.bodies("s"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("stored %v, want each line once", got)
		}
		if took := time.Since(begun); took < 2*time.Second || (refused == 0) != (patience == time.Minute) {
			t.Errorf("patience of %v: %d refusals in %v, want 10 lines a second", patience, refused, took)
		}
		if n := quotas.Refusals()["user_entries"]; n != int64(refused) {
			t.Errorf("%d refusals counted, want %d", n, refused)
		}
	}
}

// TestNamesOfStreams: a stream may have any name that docs/streams.md allows, also where quotas hold.
func TestNamesOfStreams(t *testing.T) {
	conn := natstest.Conn(t)
	cfg := httpapi.Config{Streams: dstreams.New(dstreams.On(conn, nil)), Quotas: quota.New(quota.Rates{Session: quota.Rate{Entries: 100}})}
	_, _, _, url := worldOver(t, conn, cfg, service.PersisterConfig{})
	for _, name := range []string{
		"notes", "s/t", "notes.txt", "%C3%A4", "a%20b", "a.b/c", "a/b.c", "a/b/c", strings.Repeat("x", 129), strings.Repeat("x", 188), "_ds-x",
	} {
		q := request{method: "PUT", path: "/v1/stream/" + name, kind: "text/plain", body: "hi"}
		if status, _, body := do(t, url, q); status != 201 {
			t.Errorf("PUT %.20s = %d %s, want 201", name, status, body)
		}
		q.method = "POST"
		if status, _, body := do(t, url, q); status != 204 {
			t.Errorf("POST %.20s = %d %s, want 204", name, status, body)
		}
	}
	q := request{method: "PUT", path: "/v1/stream/" + strings.Repeat("x", 189), kind: "text/plain", body: "hi"}
	if status, _, body := do(t, url, q); status != 400 || !strings.Contains(body, "at most 188") {
		t.Errorf("a name of 189 bytes = %d %s, want 400 that says how many", status, body)
	}
}

// TestQuotaOfAnotherSession: a stream takes of the quota of the session that it is stored in, and not of one that its name begins with.
func TestQuotaOfAnotherSession(t *testing.T) {
	out := &sink{}
	streams := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	url := start(t, httpapi.Config{Publisher: out, Streams: streams, Quotas: quota.New(quota.Rates{Session: quota.Rate{Entries: 3}})})
	flood := func(name string) (refusal string) {
		for range 20 {
			if status, _, body := do(t, url, request{path: "/v1/stream/" + name, kind: "text/plain", body: "x"}); status == 429 {
				return body
			}
		}
		return ""
	}
	for _, name := range []string{"victim/x/y", "victim.", "victim/x.y"} {
		if why := flood(name); !strings.Contains(why, "session _ds-") {
			t.Errorf("stream %s: refusal %q, want one of the session that has it", name, why)
		}
	}
	q := request{path: "/v1/sessions/victim/threads/main/entries?dialect=raw", kind: "application/json", body: "1"}
	if status, _, body := do(t, url, q); status != 202 {
		t.Errorf("an entry of the session victim = %d %s, want 202", status, body)
	}
	if why := flood("victim/x"); !strings.Contains(why, "session victim") {
		t.Errorf("stream victim/x: refusal %q, want one of the session victim", why)
	}
}

// A token that floods many sessions gets what a token may have; another one's entries are stored meanwhile.
func TestQuotaOfAToken(t *testing.T) {
	out := &sink{}
	url := start(t, httpapi.Config{Publisher: out, Tokens: tokens(t),
		Quotas: quota.New(quota.Rates{Token: quota.Rate{Entries: 20, Bytes: 1 << 20}})})
	post := func(token, session string) int {
		status, _, _ := do(t, url, request{path: "/v1/sessions/" + session + "/threads/main/entries?dialect=raw",
			kind: "application/json", body: "1",
			header: map[string]string{"Authorization": "Bearer " + token}})
		return status
	}
	begun, stop, met := time.Now(), make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored, refused := 0, 0
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				status := post(narrow, fmt.Sprintf("ci-%d-%d", i, n))
				mu.Lock()
				if status == 202 {
					stored++
				} else if status == 429 {
					if refused++; refused == 1 {
						close(met)
					}
				}
				mu.Unlock()
			}
		})
	}
	<-met // the flood is at its bound
	for i := range 15 {
		must.Same(t, post(writer, fmt.Sprintf("calm-%d", i)), 202, "entry %d of another token = %d, want %d", i)
	}
	close(stop)
	wg.Wait()
	if may := 22 + int(20*time.Since(begun).Seconds()); stored > may || refused == 0 {
		t.Errorf("the flood stored %d, and %d were refused: want at most %d, and some", stored, refused, may)
	}
}

// What is no entry takes of the quotas, too: an operation one entry, a body its bytes, whether it says how many or not.
func TestQuotaOfOtherRequests(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Quotas: quota.New(quota.Rates{Session: quota.Rate{Bytes: 2 << 10}})})
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	long := strings.Repeat("x", 5<<10)
	for _, session := range []string{"known", "chunked"} {
		must.Do(t, cl.Session(session).New(ctx, "/w", ""))
		q := request{path: "/v1/sessions/" + session + "/artifacts?tool=make", kind: "text/plain", body: long}
		if session == "chunked" {
			begun := time.Now()
			res, err := http.Post(url+q.path, q.kind, &slow{r: strings.NewReader(long)})
			if err != nil || res.StatusCode != 201 || time.Since(begun) < time.Second {
				t.Errorf("chunked body: %v %v after %v, want to be slowed", res, err, time.Since(begun))
			}
			res.Body.Close()
			continue
		}
		if status, _, body := do(t, url, q); status != 201 {
			t.Errorf("body = %d %s, want 201", status, body)
		}
		if status, header, body := do(t, url, q); status != 429 {
			t.Errorf("body behind one of 5 KiB = %d %s, want 429", status, body)
		} else {
			obey(t, header, body, "session_bytes", 2<<10)
		}
		if status, _, body := do(t, url, q); status != 201 {
			t.Errorf("body after the time = %d %s, want 201", status, body)
		}
	}
	status, _, body := do(t, url, request{path: "/v1/sessions/s/threads/main/fork", kind: "application/json", body: `{"to":"f","whole":true}`})
	if status != 201 {
		t.Errorf("fork = %d %s, want 201", status, body)
	}
}

// A session that has as many threads as it may have gets no other one: a fork is told so, and what an entry would begin
// is a dead letter. The threads that it has go on.
func TestQuotaOfThreads(t *testing.T) {
	of := service.PersisterConfig{Config: persist.Config{Limits: apply.Limits{Threads: 2}}}
	_, ctx, cl, url := worldWith(t, httpapi.Config{Limits: apply.Limits{Threads: 3}}, of) // the persister's is what counts
	main := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, main, "hello")
	fork := func(to string) (int, string) {
		status, _, body := do(t, url, request{path: "/v1/sessions/s/threads/main/fork", kind: "application/json",
			body: `{"whole":true,"to":"` + to + `"}`})
		return status, body
	}
	if status, body := fork("b"); status != 201 {
		t.Fatalf("second thread = %d %s, want 201", status, body)
	}
	if status, body := fork("c"); status != 409 || !strings.Contains(body, "2 threads") {
		t.Errorf("third thread = %d %s, want 409 with the limit", status, body)
	}
	entry := request{path: "/v1/sessions/s/threads/d/entries?dialect=raw", kind: "application/json", body: "1",
		header: map[string]string{"Spool-Producer": "p", "Spool-Seq": "1"}}
	if status, _, body := do(t, url, entry); status != 202 {
		t.Fatalf("entry = %d %s, want 202", status, body)
	}
	if err := cl.Thread(events.Thread{Session: "s", Name: "d"}).Await(ctx, "p", 0, 1); err == nil || !strings.Contains(err.Error(),
		"2 threads") {
		t.Errorf("entry of a third thread = %v, want a refusal with the limit", err)
	}
	say(ctx, t, cl, main, "and on")
	if status, _, body := do(t, url, request{method: "GET", path: "/v1/sessions/s/threads"}); status != 200 || strings.Contains(body, `"d"`) {
		t.Errorf("threads = %d %s, want no d", status, body)
	}
}

// What would bring a session a thread or a producer too many is refused before it is stored, line by line, and what the
// session has goes on.
func TestFullSessionIsTold(t *testing.T) {
	most := apply.Limits{Threads: 2, Producers: 2}
	of := service.PersisterConfig{Config: persist.Config{Limits: most}}
	_, ctx, cl, url := worldWith(t, httpapi.Config{Limits: most}, of)
	send := func(thread, producer string, seq int, want int) {
		t.Helper()
		status, _, body := do(t, url, request{path: "/v1/sessions/s/threads/" + thread + "/entries?dialect=raw",
			kind: "application/json", body: "1",
			header: map[string]string{"Spool-Producer": producer, "Spool-Seq": strconv.Itoa(seq)}})
		var why told
		if status != want {
			t.Fatalf("%s in %s = %d %s, want %d", producer, thread, status, body, want)
		}
		if want == 409 && (json.Unmarshal([]byte(body), &why) != nil || why.Limit != 2 ||
			!strings.HasPrefix(why.Quota, "session_")) {
			t.Errorf("%s in %s is refused with %s, want the quota and its limit", producer, thread, body)
		}
		if want == 202 {
			th := events.Thread{Session: "s", Name: thread}
			must.Do(t, cl.Thread(th).Await(ctx, producer, 0, uint64(seq)))
		}
	}
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello") // by an ephemeral producer
	send("a", "p", 1, 202)
	send("main", "p", 1, 202)
	main := events.Thread{Session: "s", Name: "main"}
	full := func() bool {
		info, err := cl.Session("s").Info(ctx)
		return err == nil && info.Threads == 2 && info.Producers == 2
	}
	if !full() {
		t.Fatal("the session is not full")
	}
	send("b", "p", 1, 409)
	send("main", "q", 1, 409)
	send("main", "p", 2, 202)
	send("main", "~q", 1, 202)
	say(ctx, t, cl, main, "and on")
	status, _, body := do(t, url, request{path: "/v1/events", kind: "application/x-ndjson", body: `{"session":"s","thread":"b","dialect":"raw","body":"1"}
{"session":"other","thread":"b","dialect":"raw","body":"1"}
`})
	if lines := strings.Split(body, "\n"); status != 200 || !strings.Contains(lines[0], `"ok":false`) ||
		!strings.Contains(lines[0], "2 threads") || !strings.Contains(lines[1], `"ok":true`) {
		t.Errorf("lines of two sessions = %d %s, want the first one refused", status, body)
	}
}

// A token that has stored to as many sessions as it may in an hour goes on in these, and begins no other one, by an entry
// or a fork; another token begins its own.
func TestQuotaOfSessions(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t), Quotas: quota.New(quota.Rates{Sessions: 2})})
	say(ctx, t, cl, events.Thread{Session: "a", Name: "main"}, "hello")
	post := func(token, path, body string) (int, http.Header, string) {
		return do(t, url, request{path: "/v1/sessions/" + path, kind: "application/json", body: body,
			header: map[string]string{"Authorization": "Bearer " + token}})
	}
	for _, q := range []struct {
		token, path, body string
		status            int
	}{
		{writer, "a/threads/main/entries?dialect=raw", "1", 202},
		{writer, "b/threads/main/entries?dialect=raw", "1", 202},
		{writer, "c/threads/main/entries?dialect=raw", "1", 429},
		{writer, "a/threads/main/fork", `{"to":"d/main","whole":true}`, 429},
		{writer, "a/threads/main/fork", `{"to":"other","whole":true}`, 201},
		{writer, "b/threads/main/entries?dialect=raw", "2", 202},
		{chief, "c/threads/main/entries?dialect=raw", "1", 202},
	} {
		status, header, body := post(q.token, q.path, q.body)
		if status != q.status {
			t.Errorf("%s = %d %s, want %d", q.path, status, body, q.status)
		}
		after, _ := strconv.Atoi(header.Get("Retry-After"))
		if q.status == 429 && (after < 3500 || after > 3600 || !strings.Contains(body, "2 sessions an hour")) {
			t.Errorf("%s: again after %d s, %s, want about an hour", q.path, after, body)
		}
	}
}

// A name that no session can have takes no place of a quota, and no memory.
func TestQuotaOfNoSession(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Quotas: quota.New(quota.Rates{Sessions: 1})})
	say(ctx, t, cl, events.Thread{Session: "a", Name: "main"}, "hello")
	for _, q := range []struct {
		session string
		status  int
	}{{strings.Repeat("x", 30_000), 400}, {"a.b", 400}, {"a", 201}} {
		path := "/v1/sessions/" + q.session + "/threads/main/fork"
		status, _, body := do(t, url, request{path: path, kind: "application/json", body: `{"to":"other","whole":true}`})
		if status != q.status {
			t.Errorf("session %.10q = %d %.200s, want %d", q.session, status, body, q.status)
		}
	}
}

// Who says that a body is long, and does not send it, uses up nothing of a quota that others have, too.
func TestQuotaOfWhatIsOnlySaid(t *testing.T) {
	quotas := quota.New(quota.Rates{Session: quota.Rate{Bytes: 1 << 20}})
	_, ctx, cl, url := worldOn(t, httpapi.Config{Tokens: tokens(t), Quotas: quotas})
	say(ctx, t, cl, events.Thread{Session: "a", Name: "main"}, "hello")
	liar := raw(t, strings.TrimPrefix(url, "http://"), "POST /v1/sessions/a/artifacts HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: text/plain\r\nAuthorization: Bearer "+writer+"\r\nContent-Length: 1099511627776\r\n\r\n")
	_ = liar.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, liar) // until it is answered
	path := "/v1/sessions/a/threads/main/entries?dialect=raw"
	bearer := map[string]string{"Authorization": "Bearer " + chief}
	status, header, body := do(t, url, request{path: path, kind: "application/json", body: "1", header: bearer})
	if status != 202 {
		t.Errorf("an entry of somebody else = %d %s, again after %q s, want 202", status, body, header.Get("Retry-After"))
	}
}

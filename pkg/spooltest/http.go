package spooltest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	js = "application/json"
	nd = "application/x-ndjson"
)

// call is a request. In path and body {s} stands for the session's path, {t} for that of its thread main, {id} for the session's name, and
// {narrow} for that of a session that Server.Narrow is for.
type call struct {
	method, path, kind, body string
	header                   []string // names and values in turn
	anybody                  bool     // without the token
	token                    string   // another one than the server's
	once                     bool     // a server that is busy is not asked again
}

type answer struct {
	call
	status int
	header http.Header
	body   string
}

func (r *run) fill(text string) string {
	at := "/v1/sessions/" + r.session
	return strings.NewReplacer("{s}", at, "{t}", at+"/threads/main", "{id}", r.session, "{narrow}", r.narrow).Replace(text)
}

func (r *run) authorize(req *http.Request) {
	if r.server.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.server.Token)
	}
}

func (r *run) request(ctx context.Context, c call, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(ctx, c.method, r.server.URL+c.path, body)
	r.do(err)
	switch {
	case c.token != "":
		req.Header.Set("Authorization", "Bearer "+c.token)
	case !c.anybody:
		r.authorize(req)
	}
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	for i := 0; i < len(c.header); i += 2 {
		req.Header.Set(c.header[i], c.header[i+1])
	}
	return req
}

// send makes a request. A server that is busy is asked again when it says.
func (r *run) send(c call) answer {
	c.path, c.body, c.method = r.fill(c.path), r.fill(c.body), cmp.Or(c.method, http.MethodGet)
	for begun := time.Now(); ; {
		res, err := http.DefaultClient.Do(r.request(r.ctx, c, strings.NewReader(c.body)))
		if err != nil {
			r.fail("%s %s: %w", c.method, c.path, err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			r.fail("%s %s: %w", c.method, c.path, err)
		}
		a := answer{c, res.StatusCode, res.Header, string(b)}
		if busy := a.status == 429 || a.status == 503; !busy || c.once || time.Since(begun) > patience {
			return a
		}
		if res.Header.Get("Retry-After") == "" {
			r.fail("%s %s = %d without Retry-After", c.method, c.path, a.status)
		}
		r.rest(time.Second)
	}
}

func (r *run) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
		r.fail("not in time: %w", r.ctx.Err())
	}
}

// want makes a request that gets a status, and an answer that has these words. A refusal says why.
func (r *run) want(status int, c call, words ...string) answer {
	a := r.send(c)
	if why := r.differs(a, status, words); why != "" {
		r.fail("%s %s %.300s = %d %.600s, want %s", a.method, a.path, a.call.body, a.status, a.body, why)
	}
	return a
}

func (r *run) differs(a answer, status int, words []string) string {
	if a.status != status {
		return fmt.Sprint(status)
	}
	for _, w := range words {
		if not, is := strings.CutPrefix(w, "!"); is == strings.Contains(a.body, r.fill(not)) {
			return fmt.Sprintf("%d with %q", status, r.fill(w))
		}
	}
	var refusal struct{ Error string }
	if status >= 400 && a.method != http.MethodHead && (json.Unmarshal([]byte(a.body), &refusal) != nil || refusal.Error == "") {
		return `a refusal as {"error":"…"}`
	}
	return ""
}

func (r *run) get(path string, words ...string) answer {
	return r.want(200, call{path: path}, words...)
}

func (r *run) post(status int, path, body string, words ...string) answer {
	return r.want(status, call{method: "POST", path: path, kind: js, body: body}, words...)
}

func (r *run) delete(status int, path string, words ...string) answer {
	return r.want(status, call{method: "DELETE", path: path}, words...)
}

// until asks until an answer is 200 and has these words: what is taken is applied a moment later.
func (r *run) until(path string, words ...string) answer {
	rest := 5 * time.Millisecond
	for begun := time.Now(); ; rest = min(2*rest, 500*time.Millisecond) {
		a := r.send(call{path: path})
		why := r.differs(a, 200, words)
		if why == "" {
			return a
		}
		if time.Since(begun) > patience {
			r.fail("GET %s = %d %.600s, want %s", a.path, a.status, a.body, why)
		}
		r.rest(rest)
	}
}

// as reads an answer's JSON.
func as[T any](r *run, a answer) (v T) {
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		r.fail("%s %s = %.300s: %w", a.method, a.path, a.body, err)
	}
	return v
}

// item is an entry of the dialect item.
func item(text string) string {
	b, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}},
		"metadata": map[string]string{"type": "text"}})
	return string(b)
}

// say stores items in the thread main, and waits until they are there, behind what was taken before and is applied meanwhile.
func (r *run) say(texts ...string) {
	var lines strings.Builder
	for _, text := range texts {
		lines.WriteString(item(text) + "\n")
	}
	before := r.count()
	r.want(200, call{method: "POST", path: "{t}/entries?dialect=item", kind: nd, body: lines.String()})
	r.until(fmt.Sprintf("{t}/items/%d", before+len(texts)))
	last := texts[len(texts)-1]
	r.until("{t}/items?last=1", `"`+last[:min(len(last), 20)])
}

// page is a page of items.
type page struct {
	Items []stored
	Next  json.RawMessage
}

type stored struct {
	N    int64
	Hash string
	Item struct {
		Content []struct{ Text string }
		User    string `json:"user_id"`
	}
}

func (r *run) count() int {
	a := r.send(call{path: "{t}/items?last=1"})
	if a.status == 404 {
		return 0
	}
	items := as[page](r, a).Items
	if len(items) == 0 {
		return 0
	}
	return int(items[len(items)-1].N)
}

// event is what an event stream gives.
type event struct{ name, id, data string }

// stream is an open event stream.
type stream struct {
	r    *run
	in   *bufio.Reader
	stop func()
}

// follow opens an event stream, behind the event last unless that is "". It ends when the case does.
func (r *run) follow(path, last string) *stream {
	ctx, cancel := context.WithCancel(r.ctx)
	c := call{method: http.MethodGet, path: r.fill(path)}
	if last != "" {
		c.header = []string{"Last-Event-ID", last}
	}
	late := time.AfterFunc(patience, cancel)
	res, err := http.DefaultClient.Do(r.request(ctx, c, nil))
	if err != nil {
		cancel()
		r.fail("GET %s: %w", c.path, err)
	}
	late.Stop()
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); res.StatusCode != 200 || kind != "text/event-stream" {
		cancel()
		_ = res.Body.Close()
		r.fail("GET %s = %d %s, want an event stream", c.path, res.StatusCode, kind)
	}
	return &stream{r, bufio.NewReader(res.Body), func() { cancel(); _ = res.Body.Close() }}
}

// next is the next event.
func (s *stream) next() (e event) {
	late := time.AfterFunc(patience, s.stop)
	defer late.Stop()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.r.fail("%w, and the stream ended: %w", errNoSuch, err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e
			}
		}
	}
}

// until reads to the next event of a name.
func (s *stream) until(name string) event {
	for {
		if e := s.next(); e.name == name {
			return e
		}
	}
}

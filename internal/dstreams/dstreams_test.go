package dstreams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/dstreams"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// rig is a NATS system with a persister, and one process that serves streams.
type rig struct {
	t    *testing.T
	ctx  context.Context
	conn *natsio.Conn
	h    *dstreams.Handler
	url  string
}

func start(t *testing.T) *rig {
	r := &rig{t: t, ctx: t.Context(), conn: natstest.Conn(t)}
	natstest.Run(t, service.NewPersister(r.conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	r.h, r.url = r.serve()
	return r
}

// serve starts another process that serves streams: one that knows nothing of what the others know.
func (r *rig) serve() (*dstreams.Handler, string) {
	cfg := dstreams.On(r.conn, nil)
	cfg.LongPoll = 30 * time.Second
	h := dstreams.New(cfg)
	srv := httptest.NewServer(h)
	r.t.Cleanup(srv.Close)
	return h, srv.URL + "/v1/stream/"
}

// restart puts a new process in the place of the one there is.
func (r *rig) restart() { r.h, r.url = r.serve() }

// change changes a stream's record, as somebody who died might have left it.
func (r *rig) change(name string, change func(*dstreams.Stream)) {
	r.t.Helper()
	must.Do(r.t, r.h.Change(r.ctx, name, change))
	r.restart()
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) next() string { return a.header.Get("Stream-Next-Offset") }

// do asks; pairs are headers.
func (r *rig) do(method, path, body string, pairs ...string) answer {
	r.t.Helper()
	a := must.Get(request(r.ctx, r.url, method, path, body, pairs...))(r.t)
	return a
}

func request(ctx context.Context, url, method, path, body string, pairs ...string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}, err
}

// want is do, and a status.
func (r *rig) want(status int, method, path, body string, pairs ...string) answer {
	r.t.Helper()
	a := r.do(method, path, body, pairs...)
	if a.status != status {
		r.t.Fatalf("%s %s = %d %.300s, want %d", method, path, a.status, a.body, status)
	}
	return a
}

// holds reads a stream from its beginning.
func (r *rig) holds(name, want string) {
	r.t.Helper()
	if a := r.want(200, "GET", name, ""); a.body != want {
		r.t.Fatalf("%s holds %.200q, want %.200q", name, a.body, want)
	}
}

const (
	ct    = "Content-Type"
	plain = "text/plain"

	hdrUpToDate   = "Stream-Up-To-Date"
	hdrClosed     = "Stream-Closed"
	hdrSeq        = "Stream-Seq"
	hdrTTL        = "Stream-TTL"
	hdrExpires    = "Stream-Expires-At"
	hdrForked     = "Stream-Forked-From"
	hdrForkOffset = "Stream-Fork-Offset"
	hdrForkSub    = "Stream-Fork-Sub-Offset"
	hdrProducer   = "Producer-Id"
	hdrEpoch      = "Producer-Epoch"
	hdrProdSeq    = "Producer-Seq"
	hdrExpected   = "Producer-Expected-Seq"
	hdrReceived   = "Producer-Received-Seq"
)

// What a producer appended once is there once, and what came before is known, whichever process is asked.
func TestAcrossRestarts(t *testing.T) {
	r := start(t)
	by := func(epoch, seq int, more ...string) []string {
		return append([]string{ct, plain, hdrProducer, "p", hdrEpoch, fmt.Sprint(epoch), hdrProdSeq, fmt.Sprint(seq)}, more...)
	}
	r.want(201, "PUT", "s", "0", ct, plain)
	r.want(200, "POST", "s", "a", by(0, 0, hdrSeq, "m")...)
	r.restart()
	if a := r.want(204, "POST", "s", "A", by(0, 0)...); a.header.Get(hdrProdSeq) != "0" {
		t.Errorf("duplicate says %v", a.header)
	}
	if a := r.want(409, "POST", "s", "c", by(0, 2)...); a.header.Get(hdrExpected) != "1" || a.header.Get(hdrReceived) != "2" {
		t.Errorf("gap says %v", a.header)
	}
	r.want(409, "POST", "s", "x", ct, plain, hdrSeq, "k")
	r.want(204, "POST", "s", "b", ct, plain) // without Stream-Seq: the last one still counts
	r.restart()
	r.want(409, "POST", "s", "x", ct, plain, hdrSeq, "m")
	r.want(400, "POST", "s", "x", by(1, 3)...)
	r.want(200, "POST", "s", "c", by(1, 0)...)
	r.restart()
	if a := r.want(403, "POST", "s", "x", by(0, 1)...); a.header.Get(hdrEpoch) != "1" {
		t.Errorf("fenced says %v", a.header)
	}
	r.want(200, "POST", "s", "d", by(1, 1, hdrClosed, "true")...)
	r.restart()
	r.want(204, "POST", "s", "d", by(1, 1, hdrClosed, "true")...)
	r.want(409, "POST", "s", "e", by(1, 2)...)
	a := r.want(200, "GET", "s", "")
	if a.body != "0abcd" || a.header.Get(hdrClosed) != "true" || a.header.Get(hdrUpToDate) != "true" {
		t.Errorf("s = %q %v", a.body, a.header)
	}
	// A stream of the same name is another one.
	r.want(204, "DELETE", "s", "")
	r.restart()
	r.want(404, "GET", "s", "")
	r.want(201, "PUT", "s", "", ct, plain)
	r.want(200, "POST", "s", "new", by(0, 0, hdrSeq, "a")...)
	r.holds("s", "new")
}

// Two processes append to one stream at the same time: all of it is there, once, and each offset leads behind what it was
// given for.
func TestTwoServers(t *testing.T) {
	r := start(t)
	_, second := r.serve()
	r.want(201, "PUT", "s", "", ct, plain)
	const writers, each = 4, 8
	next := make([]string, writers*each)
	var wg sync.WaitGroup
	for w := range writers {
		url := []string{r.url, second}[w%2]
		wg.Go(func() {
			for i := range each {
				a, err := request(r.ctx, url, "POST", "s", fmt.Sprintf("[%d]", w*each+i), ct, plain)
				if err != nil || a.status != 204 {
					t.Errorf("POST = %d %s, %v", a.status, a.body, err)
					return
				}
				next[w*each+i] = a.next()
			}
		})
	}
	wg.Wait()
	must.Do(t, r.h.Settle(r.ctx, events.Thread{Session: "s", Name: "main"}))
	all := r.want(200, "GET", "s", "").body
	for i, at := range next {
		entry := fmt.Sprintf("[%d]", i)
		if strings.Count(all, entry) != 1 {
			t.Errorf("%s is there %d times in %s", entry, strings.Count(all, entry), all)
		}
		if rest := r.want(200, "GET", "s?offset="+at, "").body; !strings.HasSuffix(all, entry+rest) {
			t.Errorf("behind %s, %s: %s of %s", entry, at, rest, all)
		}
	}
	slices.Sort(next)
	if len(slices.Compact(next)) != writers*each {
		t.Errorf("offsets are not unique: %v", next)
	}
	// The one that did not close it knows.
	r.want(204, "POST", "s", "", hdrClosed, "true")
	if a, err := request(r.ctx, second, "POST", "s", "x", ct, plain); err != nil || a.status != 409 {
		t.Errorf("POST after another process closed it = %d %s, %v", a.status, a.body, err)
	}
	r.want(204, "DELETE", "s", "")
	if a, err := request(r.ctx, second, "POST", "s", "x", ct, plain); err != nil || a.status != 404 {
		t.Errorf("POST after another process removed it = %d %s, %v", a.status, a.body, err)
	}
}

// Who stops in the middle leaves nothing that the next request does not put right.
func TestUnfinished(t *testing.T) {
	r := start(t)
	write := r.change
	// PUT, before its thread.
	write("a", func(s *dstreams.Stream) {
		*s = dstreams.Stream{ID: "01J", Type: plain, Pending: true, Created: time.Now().UnixMilli()}
	})
	r.want(404, "GET", "a", "")
	r.want(404, "POST", "a", "x", ct, plain)
	r.want(201, "PUT", "a", "body", ct, plain)
	r.holds("a", "body")
	// PUT, after its thread: what it wrote is not written again.
	write("a", func(s *dstreams.Stream) { s.Pending = true })
	r.want(404, "GET", "a", "")
	r.want(201, "PUT", "a", "body", ct, plain)
	r.holds("a", "body")
	// The same, and somebody wants another stream of the name.
	write("a", func(s *dstreams.Stream) { s.Pending = true })
	r.want(201, "PUT", "a", "[1]", ct, "application/json")
	r.holds("a", "[1]")
	// PUT of a fork, after its thread.
	r.want(201, "PUT", "f", "", hdrForked, "/v1/stream/a")
	write("f", func(s *dstreams.Stream) { s.Pending = true })
	r.want(201, "PUT", "f", "[2]", hdrForked, "/v1/stream/a")
	r.holds("f", "[1,2]")
	// DELETE, before its thread was removed.
	write("a", func(s *dstreams.Stream) { s.Gone = true })
	r.want(410, "GET", "a", "")
	r.want(409, "PUT", "a", "", ct, plain)
	write("f", func(s *dstreams.Stream) { s.Gone = true })
	r.want(404, "GET", "f", "")
	r.want(201, "PUT", "f", "anew", ct, plain) // which also ends what was left of a
	r.holds("f", "anew")
	r.want(404, "GET", "a", "")
	r.want(201, "PUT", "a", "b", ct, plain)
	r.holds("a", "b")
	// sweep does as much when nobody asks.
	write("a", func(s *dstreams.Stream) { s.Gone = true })
	write("f", func(s *dstreams.Stream) { s.Pending, s.Created = true, 1 })
	must.Do(t, r.h.Sweep(r.ctx, time.Now()))
	if rs, err := r.conn.Records().List(r.ctx, "*.*.*"); err != nil || slices.ContainsFunc(rs, func(r record.Record) bool {
		return strings.HasPrefix(r.Key, "stream.") || strings.HasPrefix(r.Key, "thread.")
	}) {
		t.Errorf("sweep left %v, %v", rs, err)
	}
	// A thread that was removed or renamed by other means.
	r.want(201, "PUT", "a", "x", ct, plain)
	r.holds("a", "x")
	must.Do(t, r.h.Client().Thread(events.Thread{Session: "a", Name: "main"}).Remove(r.ctx))
	r.want(404, "GET", "a", "")
	r.want(404, "POST", "a", "x", ct, plain)
	r.want(201, "PUT", "a", "y", ct, plain)
	r.holds("a", "y")
	must.Do(t, r.h.Client().Thread(events.Thread{Session: "a", Name: "main"}).Rename(r.ctx, "b"))
	r.want(404, "POST", "a", "x", ct, plain)
	r.want(409, "PUT", "a", "x", ct, plain)
	r.holds("a/b", `["y"]`) // a thread, read as JSON
}

// Threads of agents are streams of JSON that only their agents write.
func TestThreadsAreStreams(t *testing.T) {
	r := start(t)
	c := r.h.Client()
	pub := c.Publisher(client.PublisherConfig{})
	th := events.Thread{Session: "s", Name: "t"}
	publish := func(dialect, body string) {
		t.Helper()
		must.Get(pub.Publish(r.ctx, client.Entry{Thread: th, Dialect: dialect, Body: []byte(body)}))(t)
	}
	publish("claude", `{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}`)
	publish("raw", "no \"JSON\"")
	publish("claude", `{"type":"summary","leafUuid":"a","summary":"one"}`)
	must.Do(t, c.Thread(th).Await(r.ctx, pub.Producer(), 0, 3))
	a := r.want(200, "GET", "s/t", "")
	var got []any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got) != 3 || got[1] != `no "JSON"` {
		t.Fatalf("s/t = %s, %v", a.body, err)
	}
	r.want(405, "POST", "s/t", "{}", ct, "application/json")
	r.want(405, "DELETE", "s/t", "")
	r.want(200, "PUT", "s/t", "", ct, "application/json")
	r.want(409, "PUT", "s/t", "", ct, plain)
	r.want(304, "GET", "s/t", "", "If-None-Match", a.header.Get("ETag"))

	polled := make(chan answer, 1)
	go func() {
		b, err := request(r.ctx, r.url, "GET", "s/t?live=long-poll&offset="+a.next(), "")
		if err != nil {
			t.Error(err)
		}
		polled <- b
	}()
	publish("claude", `{"type":"summary","leafUuid":"a","summary":"two"}`)
	if b := <-polled; b.status != 200 || b.body != `[{"type":"summary","leafUuid":"a","summary":"two"}]` || b.next() <= a.next() {
		t.Errorf("long poll = %d %s", b.status, b.body)
	}
	// Its fork is a stream that anybody writes.
	r.want(201, "PUT", "fork", `["mine"]`, hdrForked, "/v1/stream/s/t", hdrForkOffset, a.next())
	if f := r.want(200, "GET", "fork", ""); f.body != a.body[:len(a.body)-1]+`,"mine"]` {
		t.Errorf("fork = %s", f.body)
	}
}

// A thread with branches is read in the order in which its entries came; a fork of it has the way to an entry.
func TestBranches(t *testing.T) {
	r := start(t)
	pub := r.h.Client().Publisher(client.PublisherConfig{})
	th := events.Thread{Session: "s", Name: "main"}
	line := func(id, parent string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"user","content":%q}}`, id, parent, id)
	}
	all := []string{line("a", "null"), line("b", `"a"`), line("c", `"b"`), line("d", `"a"`), line("e", `"d"`)}
	for _, l := range all {
		must.Get(pub.Publish(r.ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(l)}))(t)
	}
	must.Do(t, r.h.Client().Thread(th).Await(r.ctx, pub.Producer(), 0, uint64(len(all))))
	r.holds("s", "["+strings.Join(all, ",")+"]")
	for i := range all {
		want := "[" + strings.Join(all[i:], ",") + "]"
		if a := r.want(200, "GET", "s?offset="+dstreams.At(int64(i), 0).String(), ""); a.body != want {
			t.Errorf("behind %d: %s, want %s", i, a.body, want)
		}
	}
	r.want(201, "PUT", "f", `[1]`, hdrForked, "/v1/stream/s")
	r.want(204, "POST", "f", `[2]`, ct, "application/json")
	r.holds("f", "["+strings.Join([]string{all[0], all[3], all[4], "1,2"}, ",")+"]")
	if a := r.want(200, "GET", "f?offset="+dstreams.At(2, 0).String(), ""); a.body != "["+
		strings.Join([]string{all[3], all[4], "1,2"}, ",")+"]" {
		t.Errorf("fork behind 2: %s", a.body)
	}
}

// Producers that say everything more than once, to any process, are each heard once and in their order.
func TestProducersEverywhere(t *testing.T) {
	r := start(t)
	_, second := r.serve()
	urls := []string{r.url, second}
	r.want(201, "PUT", "s", "", ct, "application/json")
	const producers, each = 5, 12
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				var same sync.WaitGroup
				for try := range 1 + (p+i)%3 {
					same.Go(func() {
						a, err := request(r.ctx, urls[(p+try)%2], "POST", "s", fmt.Sprintf("[[%d,%d]]", p, i), ct, "application/json",
							hdrProducer, fmt.Sprint(p), hdrEpoch, "0", hdrProdSeq, fmt.Sprint(i))
						if err != nil || a.status != 200 && a.status != 204 {
							t.Errorf("POST = %d %s, %v", a.status, a.body, err)
						}
					})
				}
				same.Wait()
			}
		})
	}
	wg.Wait()
	must.Do(t, r.h.Settle(r.ctx, events.Thread{Session: "s", Name: "main"}))
	var got [][2]int
	must.Do(t, json.Unmarshal([]byte(r.want(200, "GET", "s", "").body), &got))
	next := [producers]int{}
	for _, m := range got {
		if m[1] != next[m[0]] {
			t.Fatalf("producer %d: message %d, want %d, in %v", m[0], m[1], next[m[0]], got)
		}
		next[m[0]]++
	}
	must.Same(t, len(got), producers*each, "%d messages, want %d")
}

// Large appends come back whole, in pieces.
func TestLarge(t *testing.T) {
	r := start(t)
	var text strings.Builder
	for i := 0; text.Len() < 3<<20; i++ {
		fmt.Fprintf(&text, "%d€ ", i)
	}
	large := text.String()
	read := func(name string) (got string, pieces int) {
		t.Helper()
		for at := "-1"; ; pieces++ {
			a := r.want(200, "GET", name+"?offset="+at, "")
			if len(a.body) > dstreams.ChunkBytes {
				t.Errorf("piece of %d bytes", len(a.body))
			}
			got += a.body
			if at = a.next(); a.header.Get(hdrUpToDate) == "true" {
				return got, pieces
			}
		}
	}
	r.want(201, "PUT", "s", large, ct, plain)
	r.want(204, "POST", "s", "between", ct, plain, hdrSeq, "1")
	r.want(204, "POST", "s", large, ct, plain) // has a tag in the inbox
	got, pieces := read("s")
	if got != large+"between"+large || pieces < 6 {
		t.Errorf("read %d bytes in %d pieces, want %d", len(got), pieces, 2*len(large)+7)
	}
	mid := dstreams.At(0, int64(strings.Index(large, "7777€"))).String()
	r.want(201, "PUT", "f", "!", hdrForked, "/v1/stream/s", hdrForkOffset, mid, hdrForkSub, "4")
	if got, _ := read("f"); got != large[:strings.Index(large, "7777€")+4]+"!" {
		t.Errorf("fork inside of an append has %d bytes, and ends with %q", len(got), got[max(len(got)-10, 0):])
	}
	quoted := must.Get(json.Marshal(large))(t)
	r.want(201, "PUT", "j", `[1,`+string(quoted)+`,2]`, ct, "application/json")
	r.want(204, "POST", "j", "[3]", ct, "application/json")
	a := r.want(200, "GET", "j", "")
	if a.body != `[1,`+string(quoted)+`,2]` || a.header.Get(hdrUpToDate) != "" {
		t.Errorf("JSON of %d bytes, up to date %q", len(a.body), a.header.Get(hdrUpToDate))
	}
	if b := r.want(200, "GET", "j?offset="+a.next(), ""); b.body != "[3]" {
		t.Errorf("then %s", b.body)
	}
	r.want(413, "POST", "j", `"`+strings.Repeat("x", dstreams.MaxJSON)+`"`, ct, "application/json")
	r.want(413, "POST", "s", strings.Repeat("x", 64<<20+1), ct, plain)
}

// A long stream is read from any place, and what readers learned of places is right.
func TestLong(t *testing.T) {
	r := start(t)
	r.want(201, "PUT", "s", "", ct, plain)
	th := events.Thread{Session: "s", Name: "main"}
	const n = 3*dstreams.MarkEvery + 100
	pub := r.h.Client().Publisher(client.PublisherConfig{})
	entries := make([]client.Entry, n)
	for i := range entries {
		entries[i] = client.Entry{Thread: th, Dialect: "raw", Body: fmt.Appendf(nil, "%d,", i+1)}
	}
	must.Do(t, must.Get(pub.Publish(r.ctx, entries...))(t).Applied(r.ctx))
	next, at := 1, "-1"
	for done := false; !done; {
		a := r.want(200, "GET", "s?offset="+at, "")
		for part := range strings.SplitSeq(strings.TrimSuffix(a.body, ","), ",") {
			if part != fmt.Sprint(next) {
				t.Fatalf("at %s: entry %s, want %d", at, part, next)
			}
			next++
		}
		at, done = a.next(), a.header.Get(hdrUpToDate) == "true"
	}
	if next != n+1 {
		t.Errorf("read %d entries, want %d", next-1, n)
	}
	must.Same(t, r.h.Marks(th), 3, "%d marks, want %d")
	a := r.want(200, "GET", fmt.Sprintf("s?offset=%s", dstreams.At(5000, 0)), "")
	if !strings.HasPrefix(a.body, "5001,5002,") {
		t.Errorf("behind 5000: %.20s", a.body)
	}
	r.want(400, "GET", fmt.Sprintf("s?offset=%s", dstreams.At(n, 1)), "")
}

// All who wait for a stream share one consumer, and each gets what comes.
func TestManyReaders(t *testing.T) {
	r := start(t)
	r.want(201, "PUT", "s", "", ct, plain)
	const readers = 40
	got := make(chan string, readers)
	for i := range readers {
		go func() {
			if i%2 == 0 {
				a, err := request(r.ctx, r.url, "GET", "s?offset=-1&live=long-poll", "")
				if err != nil {
					t.Error(err)
				}
				got <- a.body
				return
			}
			a, err := request(r.ctx, r.url, "GET", "s?offset=-1&live=sse", "")
			if err != nil || !strings.Contains(a.body, `"streamClosed":true`) {
				t.Errorf("%q, %v", a.body, err)
			}
			_, data, _ := strings.Cut(a.body, "event: data\ndata:")
			data, _, _ = strings.Cut(data, "\n")
			got <- data
		}()
	}
	must.Until(t, "all readers wait", func() bool { return r.h.Waiting(events.Thread{Session: "s", Name: "main"}) >= readers })
	s := must.Get(r.conn.JetStream().Stream(r.ctx, events.RecordsStream))(t)
	consumers := 0
	for range s.ListConsumers(r.ctx).Info() {
		consumers++
	}
	if consumers == 0 || consumers > 3 { // a listing, or a consumer that was begun anew, leaves one for some seconds
		t.Errorf("%d consumers for %d readers, want 1", consumers, readers)
	}
	r.want(204, "POST", "s", "news", ct, plain, hdrClosed, "true")
	for range readers {
		must.Same(t, <-got, "news", "a reader got %q, want %q")
	}
}

// A stream ends after its time without use; sweep takes those that nobody asks for.
func TestExpiry(t *testing.T) {
	r := start(t)
	r.want(201, "PUT", "a", "x", ct, plain, hdrTTL, "3600")
	r.want(201, "PUT", "b", "x", ct, plain, hdrTTL, "3600")
	r.want(201, "PUT", "c", "x", ct, plain, hdrExpires, time.Now().Add(time.Hour).Format(time.RFC3339))
	r.want(201, "PUT", "d", "x", ct, plain)
	r.want(201, "PUT", "f", "", hdrForked, "/v1/stream/b", hdrTTL, "7200")
	age := func(name string, by time.Duration) {
		t.Helper()
		r.change(name, func(s *dstreams.Stream) { s.Touched -= by.Milliseconds() })
	}
	age("a", 59*time.Minute)
	r.want(200, "HEAD", "a", "")
	r.want(200, "GET", "a", "") // a use, which is noted
	age("a", 59*time.Minute)
	r.want(204, "POST", "a", "y", ct, plain)
	age("a", 59*time.Minute)
	r.want(200, "GET", "a", "")
	age("a", 68*time.Minute)
	r.want(404, "POST", "a", "z", ct, plain)
	r.want(404, "GET", "a", "")
	r.want(201, "PUT", "a", "new", ct, plain)
	r.holds("a", "new")

	must.Do(t, r.h.Sweep(r.ctx, time.Now().Add(90*time.Minute)))
	r.want(200, "HEAD", "c", "")
	age("b", 68*time.Minute)
	must.Do(t, r.h.Sweep(r.ctx, time.Now()))
	r.want(410, "HEAD", "b", "")
	r.holds("f", "x")
	r.want(204, "DELETE", "f", "")
	r.want(404, "HEAD", "b", "")
	r.holds("d", "x")
}

// A request that is ended gets no status, which would say that it is done.
func TestEndedRequestHasNoAnswer(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.want(201, "PUT", "s", "", "Content-Type", "application/json")
	ended := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithCancel(req.Context())
		cancel()
		r.h.ServeHTTP(w, req.WithContext(ctx))
	}))
	t.Cleanup(ended.Close)
	for _, method := range []string{"GET", "POST"} {
		if a, err := request(r.ctx, ended.URL+"/v1/stream/", method, "s", "[1]", "Content-Type", "application/json"); err == nil {
			t.Errorf("%s = %d %s, want no answer", method, a.status, a.body)
		}
	}
}

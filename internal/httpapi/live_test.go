package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spool/internal/backup"
	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// event is what an event stream gives.
type event struct{ name, id, data string }

// stream is an open event stream.
type stream struct {
	t      testing.TB
	in     *bufio.Reader
	stop   func()
	header http.Header
}

// follow opens an event stream behind an event; "" = where the path says.
func follow(t testing.TB, ctx context.Context, url, last string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	req := must.Get(http.NewRequestWithContext(ctx, "GET", url, nil))(t)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res := must.Get(http.DefaultClient.Do(req))(t)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("GET %s = %d %s", url, res.StatusCode, kind)
	}
	s := &stream{t: t, in: bufio.NewReader(res.Body), stop: func() { cancel(); _ = res.Body.Close() }, header: res.Header}
	t.Cleanup(s.stop)
	return s
}

func (s *stream) next() event {
	s.t.Helper()
	e, err := s.read()
	if err != nil {
		s.t.Fatalf("event stream: %v after %+v", err, e)
	}
	return e
}

// read is next; a stream may end.
func (s *stream) read() (e event, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, err
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
				return e, nil
			}
		}
	}
}

// until reads to the first event of a name, and gives what came before it too.
func (s *stream) until(name string) (before []event, e event) {
	s.t.Helper()
	for {
		if e = s.next(); e.name == name {
			return before, e
		}
		before = append(before, e)
	}
}

type itemEvent struct {
	N       int64
	Thread  string
	Hash    string
	Subject string
	Item    json.RawMessage
}

type liveEvent struct {
	Output string
	Offset int64
	Text   string
	Missed int64
	End    *events.LiveEnd
}

func decode[T any](t testing.TB, e event) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), &v); err != nil {
		t.Fatalf("event %+v: %v", e, err)
	}
	return v
}

func say(ctx context.Context, t testing.TB, cl *client.Client, th events.Thread, texts ...string) {
	t.Helper()
	pub := cl.Publisher(client.PublisherConfig{})
	for i, text := range texts {
		body, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}},
			"metadata": map[string]any{"type": "text"}})
		must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item", Body: body, Time: time.UnixMilli(int64(1_700_000_000_000 + i))}))(t)
	}
	must.Do(t, cl.Thread(th).Await(ctx, pub.Producer(), 0, uint64(len(texts))))
}

// tally is what a reader has of a thread.
type tally struct {
	t     testing.TB
	items []string
	at    map[string]int64
	text  map[string]*strings.Builder
	ends  map[string]events.LiveEnd
}

func newTally(t testing.TB) *tally {
	return &tally{t: t, at: map[string]int64{}, text: map[string]*strings.Builder{}, ends: map[string]events.LiveEnd{}}
}

// take adds an event, which must go on exactly where the one before it ended.
func (c *tally) take(e event) {
	c.t.Helper()
	switch e.name {
	case "item":
		it := decode[itemEvent](c.t, e)
		if it.N != int64(len(c.items))+1 {
			c.t.Fatalf("item %d after %d", it.N, len(c.items))
		}
		c.items = append(c.items, string(it.Item))
	case "live":
		l := decode[liveEvent](c.t, e)
		if c.text[l.Output] == nil {
			c.text[l.Output] = &strings.Builder{}
		}
		if l.Offset != c.at[l.Output] || l.Missed != 0 {
			c.t.Fatalf("frame of %s at %d after %d bytes, %d missed", l.Output, l.Offset, c.at[l.Output], l.Missed)
		}
		c.at[l.Output] += int64(len(l.Text))
		c.text[l.Output].WriteString(l.Text)
		if l.End == nil {
			break
		}
		if _, twice := c.ends[l.Output]; twice {
			c.t.Fatalf("%s ended twice", l.Output)
		}
		c.ends[l.Output] = *l.End
	case "reset", "failed":
		c.t.Fatalf("%s: %s", e.name, e.data)
	}
}

// A connection that is cut after every single event, while items come and outputs print, loses nothing and repeats nothing.
func TestCutEverywhere(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, "begin")
	want := map[string]*strings.Builder{"one": {}, "two": {}}
	produced := make(chan error, 1)
	go func() {
		produced <- func() error {
			var outs []*client.Output
			for _, id := range []string{"one", "two"} {
				out, err := cl.Thread(th).Output(ctx, client.OutputConfig{ID: id, Tool: "make", Input: []byte(`{"command":"make"}`)})
				if err != nil {
					return err
				}
				outs = append(outs, out)
			}
			pub := cl.Publisher(client.PublisherConfig{})
			for i := range 20 {
				for k, out := range outs {
					text := fmt.Sprintf("%s %d 木🌲 %s\n", out.ID(), i, strings.Repeat("x", i*(k+1)*40))
					want[out.ID()].WriteString(text)
					if _, err := out.Write([]byte(text)); err != nil {
						return err
					}
				}
				body := fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d"}],"metadata":{"type":"text"}}`, i)
				if _, err := pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item", Body: body}); err != nil {
					return err
				}
				if err := cl.Thread(th).Await(ctx, pub.Producer(), 0, uint64(i+1)); err != nil {
					return err
				}
			}
			for _, out := range outs {
				if err := out.Close(client.OutputEnd{}); err != nil {
					return err
				}
				if err := out.Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	const items = 1 + 2 + 20 + 2 // with two calls and two results
	got, last, cuts := newTally(t), "0", 0
	for len(got.items) < items || len(got.ends) < 2 {
		s := follow(t, ctx, url+"/v1/sessions/s/threads/main/live", last)
		e := s.next()
		for e.name == "open" || e.name == "head" {
			e = s.next()
		}
		got.take(e)
		last, cuts = e.id, cuts+1
		s.stop()
	}
	must.Do(t, <-produced)
	stored, err := faulttest.ItemsOf(ctx, cl, th, 1, items)
	if err != nil || len(stored) != items {
		t.Fatalf("ItemsOf = %d items, %v", len(stored), err)
	}
	for i, it := range stored {
		if string(it.Raw) != got.items[i] {
			t.Errorf("item %d is\n%s, stored is\n%s", i+1, got.items[i], it.Raw)
		}
	}
	for id, text := range want {
		if got.text[id].String() != text.String() {
			t.Errorf("%s: %d bytes, want %d", id, got.text[id].Len(), text.Len())
		}
		n := got.ends[id].Item
		if n < 1 || n > items || !strings.Contains(got.items[n-1], `"tool_result"`) ||
			!strings.Contains(got.items[n-1], `"invocation_id":"`+id+`"`) {
			t.Errorf("%s is superseded by item %d", id, n)
		}
	}
	t.Logf("%d cuts", cuts)
}

// Whoever joins in the middle of an output is told of it first, then gets what is at hand of it, then what it prints; or, asked
// for, all of it.
func TestJoinInTheMiddle(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	out := must.Get(cl.Thread(th).Output(ctx, client.OutputConfig{ID: "o", Tool: "make", Invocation: "call-1"}))(t)
	var all strings.Builder
	print := func(text string) {
		all.WriteString(text)
		must.Get(out.Write([]byte(text)))(t)
	}
	for range 10_000 { // no part of the artifact ends where a character does, but for every third
		print(strings.Repeat("木", 10) + "\n")
	}
	for f, err := range cl.Thread(th).Follow(ctx, "o") { // until all of it is stored
		must.Do(t, err)
		if f.Offset+int64(len(f.Text)) == int64(all.Len()) {
			break
		}
	}
	late := follow(t, ctx, url+"/v1/sessions/s/threads/main/live", "")
	whole := follow(t, ctx, url+"/v1/sessions/s/threads/main/live?from=1&whole=1", "")
	type opened struct {
		Outputs []struct {
			Output, Tool string
			Invocation   string `json:"invocation_id"`
			Bytes        int64
			Offset       int64
		}
	}
	first := late.next()
	o := decode[opened](t, first)
	if first.name != "open" || len(o.Outputs) != 1 || o.Outputs[0].Invocation != "call-1" ||
		o.Outputs[0].Bytes != int64(all.Len()) || o.Outputs[0].Offset == 0 {
		t.Fatalf("first event = %+v, want what is open, from where it is at hand", first)
	}
	if from := o.Outputs[0].Offset; !utf8.RuneStart(all.String()[from]) {
		t.Errorf("it begins at byte %d, within a character", from)
	}
	if e := whole.next(); e.name != "open" || decode[opened](t, e).Outputs[0].Offset != 0 {
		t.Fatalf("first event = %+v, want what is open, from its beginning", e)
	}
	print("and now they do\n")
	must.Do(t, out.Close(client.OutputEnd{}))
	for name, s := range map[string]*stream{"late": late, "whole": whole} {
		got := newTally(t)
		from := int64(0)
		if name == "late" {
			from = o.Outputs[0].Offset
			got.at["o"] = from
		}
		for len(got.ends) == 0 || len(got.items) == 0 {
			got.take(s.next())
		}
		if text := got.text["o"].String(); text != all.String()[from:] {
			t.Errorf("%s: %d bytes from %d, want %d", name, len(text), from, all.Len()-int(from))
		}
		if got.ends["o"].Item != 1 || got.ends["o"].Artifact == "" {
			t.Errorf("%s: end = %+v, want item 1 and the artifact", name, got.ends["o"])
		}
	}
}

// What SPOOL_ITEMS has forgotten comes from the thread, and the reader does not notice.
func TestForgottenItemsStream(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, "1", "2", "3", "4")
	s := follow(t, ctx, url+"/v1/sessions/s/threads/main/live?from=1", "")
	got := newTally(t)
	got.take(second(s))
	got.take(s.next())
	s.stop()
	items := must.Get(conn.JetStream().Stream(ctx, events.ItemsStream))(t)
	must.Until(t, "items follow the commit", func() bool {
		_, last := must.Two(cl.Internal().ItemsSpan(ctx))(t)
		return last >= 4
	})
	must.Do(t, items.Purge(ctx))
	say(ctx, t, cl, th, "5", "6")
	s = follow(t, ctx, url+"/v1/sessions/s/threads/main/live", "2")
	for len(got.items) < 6 {
		got.take(s.next())
	}

	// So it is of a session, cut off after every event; and by type.
	other := events.Thread{Session: "s", Name: "other"}
	last, had := "2;main:2", map[string]int64{"main": 2}
	for had["main"] < 6 {
		s = follow(t, ctx, url+"/v1/live?session=s", last)
		e := s.next()
		it := decode[itemEvent](t, e)
		if e.name != "item" || it.N != had[it.Thread]+1 {
			t.Fatalf("event = %+v after %v", e, had)
		}
		had[it.Thread], last = it.N, e.id
		s.stop()
	}
	s = follow(t, ctx, url+"/v1/live?session=s", last)
	say(ctx, t, cl, other, "o1")
	if e := s.next(); decode[itemEvent](t, e).Thread != "other" || !strings.Contains(e.id, ";main:6;other:1") {
		t.Errorf("event = %+v, want the other thread's first", e)
	}
	if e := follow(t, ctx, url+"/v1/live?session=s&type=text&thread=main", "1;main:5").next(); decode[itemEvent](t, e).N != 6 {
		t.Errorf("event = %+v, want item 6", e)
	}

	// Of many sessions at once nobody knows what was between: that is told, with where it goes on.
	s = follow(t, ctx, url+"/v1/live", "1")
	e := s.next()
	if e.name != "reset" || !strings.Contains(e.data, `"reason":"trimmed"`) || !strings.HasPrefix(e.id, "4;~") {
		t.Errorf("first event = %+v, want a reset", e)
	}
	if it := decode[itemEvent](t, s.next()); it.N != 5 {
		t.Errorf("then item %d, want 5", it.N)
	}
}

// second skips the event that says what is open.
func second(s *stream) event {
	if e := s.next(); e.name != "open" {
		s.t.Fatalf("first event = %+v, want open", e)
	}
	return s.next()
}

// A reader that does not read slows nobody, costs a bounded number of bytes, and reads on without a loss.
func TestSlowReader(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, "0")
	path := url + "/v1/sessions/s/threads/main/live?from=1"
	slow, fast := follow(t, ctx, path, ""), follow(t, ctx, path, "")
	if e := slow.next(); e.name != "open" {
		t.Fatalf("first event = %+v", e)
	}
	const items = 60
	text := strings.Repeat("x", 200<<10) // 12 MB in all: more than every buffer on the way
	done := make(chan *tally)
	go func() {
		got := newTally(t)
		for len(got.items) < items+1 {
			got.take(fast.next())
		}
		done <- got
	}()
	for range items / 10 {
		say(ctx, t, cl, th, text, text, text, text, text, text, text, text, text, text)
	}
	quick := <-done
	got, last := newTally(t), "0"
	for len(got.items) < items+1 {
		e, err := slow.read()
		if err != nil { // on a slow machine it has been let go meanwhile
			slow = follow(t, ctx, url+"/v1/sessions/s/threads/main/live", last)
			continue
		}
		got.take(e)
		last = e.id
	}
	for i := range quick.items {
		if quick.items[i] != got.items[i] {
			t.Fatalf("item %d differs", i+1)
		}
	}
}

// Readers of one thread share what is asked of the server.
func TestReadersShare(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{Readers: 41})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, "1")
	costs := func() [2]int {
		s := must.Get(conn.JetStream().Stream(ctx, events.ItemsStream))(t)
		return [2]int{s.CachedInfo().State.Consumers, conn.JetStream().Conn().NumSubscriptions()}
	}
	none := costs()
	var all []*stream
	var first [2]int
	for range 40 {
		s := follow(t, ctx, url+"/v1/sessions/s/threads/main/live", "")
		s.next()
		if all = append(all, s); len(all) == 1 {
			first = costs()
		}
	}
	must.Same(t, costs(), first, "consumers of items and subscriptions: 40 readers have %d, one has %d")
	if first[0] != none[0] || first[1] <= none[1] {
		t.Errorf("consumers of items and subscriptions: a reader has %d, none %d: want no consumer", first, none)
	}
	say(ctx, t, cl, th, "2")
	for _, s := range all {
		if _, e := s.until("item"); decode[itemEvent](t, e).N != 2 {
			t.Errorf("event = %+v, want item 2", e)
		}
	}
	follow(t, ctx, url+"/v1/live", "")
	if status, h, body := get(t, url, "/v1/live"); status != 429 || one(h, "Retry-After") == "" {
		t.Errorf("reader 42 of 41 = %d %s, want 429", status, body)
	}
}

// A thread that goes away says so, and where to.
func TestStreamOfWhatGoes(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	say(ctx, t, cl, a, "1")
	s := follow(t, ctx, url+"/v1/sessions/s/threads/a/live?from=1", "")
	_, first := s.until("item")
	must.Do(t, cl.Thread(a).Rename(ctx, "b"))
	if _, e := s.until("reset"); !strings.Contains(e.data, `"reason":"renamed","session":"s","thread":"b"`) {
		t.Errorf("reset = %s, want the new name", e.data)
	}
	if e := follow(t, ctx, url+"/v1/sessions/s/threads/a/live", first.id).next(); !strings.Contains(e.data,
		`"reason":"renamed","session":"s","thread":"b"`) {
		t.Errorf("event of a reader that comes back = %+v, want the new name", e)
	}
	s = follow(t, ctx, url+"/v1/sessions/s/threads/b/live", first.id)
	must.Do(t, cl.Thread(b).Remove(ctx))
	if _, e := s.until("reset"); !strings.Contains(e.data, `"reason":"removed"`) {
		t.Errorf("reset = %s, want that it was removed", e.data)
	}
	if status, _, body := get(t, url, "/v1/sessions/s/threads/b/live"); status != 404 {
		t.Errorf("stream of a removed thread = %d %s, want 404", status, body)
	}
	// Of its name a new one may begin: a reader of the old one begins anew, too.
	say(ctx, t, cl, b, "anew")
	s = follow(t, ctx, url+"/v1/sessions/s/threads/b/live", "7")
	if e := s.next(); e.name != "reset" || !strings.Contains(e.data, `"reason":"replaced"`) || !strings.HasPrefix(e.id, "0@") {
		t.Errorf("first event = %+v, want a reset", e)
	}
	if _, e := s.until("item"); decode[itemEvent](t, e).N != 1 {
		t.Errorf("event = %+v, want item 1", e)
	}
}

// A name is used again while readers are away, by threads that have as many items and more. A reader that comes back with its last
// id has each item of each thread, once: of the thread, of its session, and of all.
func TestStreamsAcrossLives(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	th := events.Thread{Session: "s", Name: "main"}
	paths := []string{"/v1/sessions/s/threads/main/live?from=1", "/v1/live?session=s&since=all", "/v1/live?since=all"}
	ends := []func() error{
		nil,
		func() error { return cl.Thread(th).Remove(ctx) },
		func() error { _, err := cl.Session("s").Delete(ctx, client.Deletion{Force: true}); return err },
		func() error { return cl.Thread(th).Remove(ctx) },
	}
	last := map[string]string{}
	for life, texts := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "b", "c"}, {"x", "y", "z", "u"}} {
		if end := ends[life]; end != nil {
			must.Do(t, end())
		}
		for _, text := range texts {
			say(ctx, t, cl, th, text)
		}
		for _, path := range paths {
			s := follow(t, ctx, url+path, last[path])
			for i, text := range texts {
				before, e := s.until("item")
				if it := decode[itemEvent](t, e); it.N != int64(i+1) || !strings.Contains(string(it.Item), `"`+text+`"`) {
					t.Errorf("%s, life %d: item %s, want %d, %s", path, life+1, e.data, i+1, text)
				}
				replaced := slices.ContainsFunc(before, func(e event) bool { return e.name == "reset" })
				if want := i == 0 && life > 0 && path == paths[0]; replaced != want {
					t.Errorf("%s, life %d, item %d: a reset before it is %v, want %v: %+v", path, life+1, i+1, replaced, want, before)
				}
				last[path] = e.id
			}
			s.stop()
		}
	}
	live := map[string]*stream{} // and readers that stay
	for _, path := range paths {
		live[path] = follow(t, ctx, url+path, last[path])
	}
	live[paths[0]].until("open")
	must.Get(cl.Session("s").Delete(ctx, client.Deletion{Force: true}))(t)
	live[paths[0]].until("reset")
	say(ctx, t, cl, th, "again")
	for _, path := range paths[1:] {
		if _, e := live[path].until("item"); decode[itemEvent](t, e).N != 1 {
			t.Errorf("%s: item %s, want the first of the new thread", path, e.data)
		}
	}
}

// TestItemsOfAThreadThatComesBack: who follows the items of one thread by its name, and comes back or stays, is given what it had under
// another name meanwhile.
func TestItemsOfAThreadThatComesBack(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	th, other := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "other"}
	say(ctx, t, cl, th, "a")
	say(ctx, t, cl, th, "b")
	path := url + "/v1/live?session=s&thread=main"
	first := follow(t, ctx, path+"&since=all", "")
	first.until("item")
	_, e := first.until("item")
	first.stop()
	stays := follow(t, ctx, path, "")
	must.Do(t, cl.Thread(th).Rename(ctx, other.Name))
	say(ctx, t, cl, other, "c")
	must.Do(t, cl.Thread(other).Rename(ctx, th.Name))
	say(ctx, t, cl, th, "d")
	must.Do(t, cl.Thread(th).Rename(ctx, other.Name))
	say(ctx, t, cl, other, "e")
	must.Do(t, cl.Thread(other).Rename(ctx, th.Name))
	say(ctx, t, cl, th, "f")
	must.Do(t, cl.Thread(th).Rename(ctx, other.Name))
	for name, s := range map[string]*stream{"comes back": follow(t, ctx, path, e.id), "stays": stays} {
		for n := int64(3); n <= 6; n++ {
			if _, e := s.until("item"); decode[itemEvent](t, e).N != n {
				t.Errorf("%s: item %s, want %d", name, e.data, n)
			}
		}
		s.stop()
	}
}

// TestResumeBehindARename: a reader of a thread that was renamed goes on at its new name, and at its old one when the
// thread has that again, with the id that it had, also where the names were used before.
func TestResumeBehindARename(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	at := func(name string) string { return url + "/v1/sessions/s/threads/" + name + "/live" }
	thread := func(name string) events.Thread { return events.Thread{Session: "s", Name: name} }
	goesOn := func(name, id, text string, n int64) string {
		t.Helper()
		s := follow(t, ctx, at(name), id)
		defer s.stop()
		before, e := s.until("item")
		if it := decode[itemEvent](t, e); it.N != n || !strings.Contains(string(it.Item), `"`+text+`"`) {
			t.Errorf("%s behind %s: item %s, want %d, %s", name, id, e.data, n, text)
		}
		if slices.ContainsFunc(before, func(e event) bool { return e.name == "reset" }) {
			t.Errorf("%s behind %s: %+v, want no reset", name, id, before)
		}
		return e.id
	}
	say(ctx, t, cl, thread("main"), "gone")
	must.Get(cl.Session("s").Delete(ctx, client.Deletion{}))(t)
	say(ctx, t, cl, thread("main"), "a")
	say(ctx, t, cl, thread("main"), "b")
	first := follow(t, ctx, at("main")+"?from=1", "")
	first.until("item")
	_, e := first.until("item")
	first.stop()
	must.Do(t, cl.Thread(thread("main")).Rename(ctx, "old"))
	say(ctx, t, cl, thread("old"), "c")
	id := goesOn("old", e.id, "c", 3)
	say(ctx, t, cl, thread("old"), "d")
	id = goesOn("old", id, "d", 4)
	must.Do(t, cl.Thread(thread("old")).Rename(ctx, "main"))
	must.Do(t, cl.Thread(thread("main")).Rename(ctx, "old"))
	say(ctx, t, cl, thread("old"), "e")
	goesOn("old", id, "e", 5)
	goesOn("old", e.id, "c", 3)
	// Another thread that takes the name is another one.
	must.Do(t, cl.Thread(thread("old")).Remove(ctx))
	for _, text := range []string{"v", "w", "x"} {
		say(ctx, t, cl, thread("old"), text)
	}
	for _, id := range []string{e.id, id} {
		s := follow(t, ctx, at("old"), id)
		if e := s.next(); e.name != "reset" || !strings.Contains(e.data, `"reason":"replaced"`) {
			t.Errorf("a new thread behind %s: %+v, want a reset", id, e)
		}
		s.stop()
	}
}

// TestStreamsOverARestore: a store is restored from a backup, and goes on otherwise than the one before. A reader that comes back, with
// an id of a number that the store has again by then, is told, and reads what the store has.
func TestStreamsOverARestore(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, "one")
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(ctx, conn, repo, nil))(t)
	say(ctx, t, cl, th, "two")
	say(ctx, t, cl, th, "three")
	paths := []string{"/v1/sessions/s/threads/main/live?from=1", "/v1/live?session=s&since=all", "/v1/live?since=all"}
	last := map[string]string{}
	for _, path := range paths {
		s := follow(t, ctx, url+path, "")
		for range 3 {
			_, e := s.until("item")
			last[path] = e.id
		}
		s.stop()
	}
	other := natstest.Dial(t, natstest.Server(t))
	must.Do(t, backup.Restore(ctx, other, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil))
	_, ctx, cl, url = worldOver(t, other, httpapi.Config{}, service.PersisterConfig{})
	texts := []string{"one", "other", "others", "more"}
	for _, text := range texts[1:] {
		say(ctx, t, cl, th, text)
	}
	for i, path := range paths {
		s := follow(t, ctx, url+path, last[path])
		if _, e := s.until("reset"); !strings.Contains(e.data, `"reason":"replaced"`) {
			t.Errorf("%s: reset = %s, want that it was restored", path, e.data)
		}
		want, first := texts, int64(1)
		if i == 2 { // whose threads it does not know
			want, first = texts[1:], 2
		}
		for i, text := range want {
			before, e := s.until("item")
			it := decode[itemEvent](t, e)
			if it.N != first+int64(i) || !strings.Contains(string(it.Item), `"`+text+`"`) {
				t.Errorf("%s: item %s, want %d, %s", path, e.data, first+int64(i), text)
			}
			if slices.ContainsFunc(before, func(e event) bool { return e.name == "reset" }) {
				t.Errorf("%s: a second reset", path)
			}
			last[path] = e.id
		}
		s.stop()
		s = follow(t, ctx, url+path, last[path])
		say(ctx, t, cl, th, "last")
		if before, e := s.until("item"); !strings.Contains(e.data, `"last"`) ||
			slices.ContainsFunc(before, func(e event) bool { return e.name == "reset" }) {
			t.Errorf("%s: %s behind %+v, want the last one alone", path, e.data, before)
		}
		s.stop()
		texts = append(texts, "last")
	}
}

// Items of a session, or of all, by type and detail, from a time or an event on.
func TestItemStreams(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	a, b := events.Thread{Session: "a", Name: "main"}, events.Thread{Session: "b", Name: "main"}
	say(ctx, t, cl, a, "a1")
	say(ctx, t, cl, b, "b1")
	pub := cl.Publisher(client.PublisherConfig{})
	for _, failed := range []string{"false", "true"} {
		body := `{"content":[{"type":"text","text":"x"}],"metadata":{"type":"tool_result","tool":{"invocation_id":"i","is_error":` + failed + `,"output":"x"}}}`
		must.Do(t, must.Get(pub.Publish(ctx, client.Entry{Thread: b, Dialect: "item", Body: []byte(body)}))(t).Applied(ctx))
	}
	where := func(path, last string, n int) string {
		t.Helper()
		s := follow(t, ctx, url+path, last)
		defer s.stop()
		var got []string
		for range n {
			_, e := s.until("item")
			it := decode[itemEvent](t, e)
			at, _, _ := strings.Cut(e.id, ";")
			got = append(got, fmt.Sprintf("%s %d @%s", it.Subject, it.N, at))
		}
		return strings.Join(got, ", ")
	}
	const prefix = "spool.v1.item."
	for _, q := range []struct {
		path, last string
		want       []string
	}{
		{"/v1/live?since=all", "", []string{"a.main.text 1 @1", "b.main.text 1 @2", "b.main.tool_result.ok 2 @3",
			"b.main.tool_result.error 3 @4"}},
		{"/v1/live", "2", []string{"b.main.tool_result.ok 2 @3", "b.main.tool_result.error 3 @4"}},
		{"/v1/live?session=a&since=1h", "", []string{"a.main.text 1 @1"}},
		{"/v1/live?type=tool_result&since=all", "", []string{"b.main.tool_result.ok 2 @3", "b.main.tool_result.error 3 @4"}},
		{"/v1/live?type=tool_result&detail=error&since=all", "", []string{"b.main.tool_result.error 3 @4"}},
	} {
		if got, want := where(q.path, q.last, len(q.want)), prefix+strings.Join(q.want, ", "+prefix); got != want {
			t.Errorf("%s after %q = %s, want %s", q.path, q.last, got, want)
		}
	}
	s := follow(t, ctx, url+"/v1/live?type=text", "")
	heads := follow(t, ctx, url+"/v1/heads?session=b", "")
	say(ctx, t, cl, a, "a2")
	say(ctx, t, cl, b, "b2")
	if e := s.next(); !strings.HasPrefix(e.id, "5;~") || decode[itemEvent](t, e).N != 2 {
		t.Errorf("next = %+v, want a's second item", e)
	}
	head := heads.next()
	if head.name != "head" || !strings.Contains(head.data, `"session":"b"`) || !strings.Contains(head.data, `"n":4`) {
		t.Errorf("head = %+v, want b's", head)
	}
	heads.stop()
	say(ctx, t, cl, b, "b3")
	if e := follow(t, ctx, url+"/v1/heads?session=b", head.id).next(); !strings.Contains(e.data, `"n":5`) {
		t.Errorf("head behind %s = %+v, want the fifth item's", head.id, e)
	}
	if e := follow(t, ctx, url+"/v1/heads?current=1&session=a", "").next(); !strings.Contains(e.data, `"session":"a"`) {
		t.Errorf("current head = %+v, want a's", e)
	}
	for path, status := range map[string]int{
		"/v1/live?session=a.b": 400, "/v1/live?type=a%20b": 400, "/v1/live?type=tool_reslt&since=all": 400,
		"/v1/live?since=soon": 400, "/v1/heads?session=%3E": 400,
		"/v1/sessions/a/threads/none/live": 404, "/v1/sessions/a/threads/main/live?from=x": 400,
	} {
		if got, _, body := get(t, url, path); got != status {
			t.Errorf("%s = %d %s, want %d", path, got, body, status)
		}
	}
	for path, last := range map[string]string{"/v1/live": "x", "/v1/live?session=a": "1;a.b:1",
		"/v1/live?type=text": "1;main:1", "/v1/heads": "-1", "/v1/sessions/a/threads/main/live": "1;a.b:2"} {
		if got, _, body := get(t, url, path, "Last-Event-ID", last); got != 400 {
			t.Errorf("%s behind %q = %d %s, want 400", path, last, got, body)
		}
	}
}

// worldOn is world with a configuration of the API.
func worldOn(t *testing.T, cfg httpapi.Config) (*natsio.Conn, context.Context, *client.Client, string) {
	return worldWith(t, cfg, service.PersisterConfig{})
}

// worldWith is worldOn with a persister's settings.
func worldWith(t *testing.T, cfg httpapi.Config, of service.PersisterConfig) (*natsio.Conn, context.Context, *client.Client, string) {
	return worldOver(t, natstest.Conn(t), cfg, of)
}

// worldOver is worldWith over a store that is there.
func worldOver(
	t *testing.T, conn *natsio.Conn, cfg httpapi.Config, of service.PersisterConfig,
) (*natsio.Conn, context.Context, *client.Client, string) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	natstest.Run(t, service.NewPersister(conn, of, nil).Run)
	srv := httptest.NewServer(httpapi.For(conn, cfg))
	t.Cleanup(func() { cancel(); srv.CloseClientConnections(); srv.Close() })
	return conn, ctx, client.New(conn), srv.URL
}

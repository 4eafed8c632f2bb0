package subscriptions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/subscriptions"
	"spool/pkg/client"
	"spool/pkg/events"
)

// pull makes a subscription that is claimed.
func (w *world) pull(id string, more map[string]any) {
	w.Helper()
	body := map[string]any{"type": "pull-wake", "wake_stream": "wake"}
	for k, v := range more {
		body[k] = v
	}
	w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/"+id, "", body)
}

// claim claims once there is work.
func (w *world) claim(id string) (claimed map[string]any) {
	w.Helper()
	must.Until(w.T, "there is work to claim", func() bool {
		req := must.Get(http.NewRequestWithContext(w.Context(), "POST", w.url+"/v1/stream/__ds/subscriptions/"+id+"/claim",
			strings.NewReader(`{"worker":"w"}`)))(w.T)
		res := must.Get(http.DefaultClient.Do(req))(w.T)
		defer res.Body.Close()
		claimed = nil
		must.Do(w.T, jsonOf(res.Body, &claimed))
		return res.StatusCode == http.StatusOK
	})
	return claimed
}

// says is what the worker of a wake says.
func says(claimed map[string]any, done bool, acks ...any) map[string]any {
	return map[string]any{"wake_id": claimed["wake_id"], "generation": claimed["generation"], "done": done, "acks": acks}
}

func ackOf(stream, offset string) any { return map[string]any{"stream": stream, "offset": offset} }

// TestSpellings: SESSION/main is the stream SESSION, in whatever way it is named.
func TestSpellings(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/x", "", map[string]any{
		"type": "webhook", "streams": []string{"jobs/main"}, "webhook": map[string]any{"url": h.URL},
	})
	w.stream("jobs/main")
	if got := pendingOf(h.next(t)); len(got) != 1 {
		t.Errorf("the wake is of %v, want jobs", got)
	}
	g := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("y", "all/*", g.URL, 1000)
	w.stream("all/main")
	if got := pendingOf(g.next(t)); len(got) != 1 {
		t.Errorf("the wake is of %v, want all", got)
	}
}

// TestOwnWakeStream: a wake is no work for its own subscription.
func TestOwnWakeStream(t *testing.T) {
	w := newWorld(t)
	w.stream("wake")
	w.ask(http.StatusBadRequest, "PUT", "__ds/subscriptions/x", "", map[string]any{
		"type": "pull-wake", "wake_stream": "wake", "streams": []string{"wake/main"},
	})
	w.pull("y", map[string]any{"pattern": "**", "wake_stream": "wake/main"})
	w.stream("a")
	c := w.claim("y")
	if got := pendingOf(c); len(got) != 1 || got["a"] == "" {
		t.Errorf("claimed %v, want a alone", got)
	}
	w.ask(http.StatusBadRequest, "POST", "__ds/subscriptions/y/streams", "", map[string]any{"streams": []string{"wake"}})
}

// TestPatternsAreQuick: a pattern that matches in many ways is tried in none of them twice.
func TestPatternsAreQuick(t *testing.T) {
	ended := make(chan bool)
	go func() {
		ended <- subscriptions.Matches(strings.Repeat("**/a/", 45)+"z", strings.Repeat("a/", 90)+"y")
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("a pattern is tried for longer than 10 s")
	}
}

// TestStaleAck: what is acked is of the stream that the worker was told of, not of one that was given its name since.
func TestStaleAck(t *testing.T) {
	w := newWorld(t)
	w.stream("wake")
	w.pull("s", map[string]any{"pattern": "jobs/*", "lease_ttl_ms": 60_000})
	w.stream("jobs/a")
	w.stream("jobs/b")
	w.stream("jobs/c")
	must.Until(t, "all are applied", func() bool {
		return len(w.ask(http.StatusOK, "GET", "__ds/subscriptions/s", "", nil)["streams"].([]any)) == 3
	})
	c := w.claim("s")
	was := pendingOf(c)
	if len(was) != 3 {
		t.Fatalf("claimed %v", was)
	}
	w.ask(http.StatusNoContent, "DELETE", "jobs/b", "", nil)
	w.ask(http.StatusNoContent, "DELETE", "jobs/a", "", nil)
	w.stream("jobs/a")
	w.ask(http.StatusNoContent, "POST", "jobs/a", "", map[string]any{"n": 2})
	w.ask(http.StatusOK, "POST", "__ds/subscriptions/s/ack", c["token"].(string),
		says(c, true, ackOf("jobs/a", was["jobs/a"]), ackOf("jobs/b", was["jobs/b"]), ackOf("jobs/c", was["jobs/c"])))
	next := w.claim("s")
	for _, s := range next["streams"].([]any) {
		if s := s.(map[string]any); s["path"] == "jobs/a" && s["acked_offset"] != "-1" || s["path"] != "jobs/a" && s["has_pending"] == true {
			t.Errorf("%v: want jobs/a from its beginning, and jobs/c acked", s)
		}
	}
}

// TestStaleDone: nor what a webhook says it has done.
func TestStaleDone(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(n int, rw http.ResponseWriter, wake map[string]any) {
		if n == 1 {
			w.ask(http.StatusNoContent, "DELETE", "jobs/a", "", nil)
			w.stream("jobs/a")
			w.ask(http.StatusNoContent, "POST", "jobs/a", "", map[string]any{"n": 2})
			w.ask(http.StatusOK, "POST", wake["callback_url"].(string), wake["callback_token"].(string), says(wake, false)) // it lives
		}
		done(rw)
	})
	w.webhook("s", "jobs/*", h.URL, 9000)
	w.stream("jobs/a")
	h.next(t)
	next := h.next(t)["streams"].([]any)[0].(map[string]any)
	if next["acked_offset"] != "-1" {
		t.Errorf("of the stream that was made anew %v is acked", next["acked_offset"])
	}
}

// TestDeliveriesThatWait: a wake whose lease ended while it waited for others to be delivered is not told of.
func TestDeliveriesThatWait(t *testing.T) {
	w := newWorld(t)
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	var under, most atomic.Int32
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) {
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		time.Sleep(200 * time.Millisecond) // it works
		done(rw)
	})
	for i := range 64 {
		w.webhook(fmt.Sprintf("slow%d", i), "jobs/*", slow.URL, 60_000)
	}
	w.stream("jobs/a")
	time.Sleep(2 * time.Second) // all are told of
	w.webhook("s", "more/*", h.URL, 1000)
	w.stream("more/a")
	time.Sleep(4 * time.Second)
	close(hang)
	h.next(t)
	time.Sleep(2 * time.Second)
	if most.Load() != 1 {
		t.Errorf("%d wakes of a subscription were under way at a time", most.Load())
	}
}

// TestDamaged: a record that cannot be read is removed like another, and a stream that cannot be read holds up no other.
func TestDamaged(t *testing.T) {
	w := newWorld(t)
	for i, value := range []string{"{", `{"v":9}`, `{"v":1,"id":"d2","links":{"a":null}}`, `{"v":1,"id":"other"}`} {
		id := fmt.Sprint("d", i)
		must.Get(w.conn.Records().Write(t.Context(), record.Put{Key: events.SubscriptionKey(id), Value: []byte(value)}))(t)
		w.ask(http.StatusInternalServerError, "GET", "__ds/subscriptions/"+id, "", nil)
		w.ask(http.StatusNoContent, "DELETE", "__ds/subscriptions/"+id, "", nil)
		w.ask(http.StatusNotFound, "GET", "__ds/subscriptions/"+id, "", nil)
	}
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("s", "jobs/*", h.URL, 1000)
	w.stream("jobs/a")
	h.next(t)
	th := events.Thread{Session: "jobs", Name: "a"}
	rs := must.Get(w.conn.Records().Records(t.Context(), events.HeadKey(th)))(t)
	must.Get(w.conn.Records().Write(t.Context(), record.Put{Key: rs[0].Key, Value: []byte("x"), Expect: rs[0].Seq}))(t)
	w.stream("jobs/b")
	if got := pendingOf(h.next(t)); got["jobs/b"] == "" {
		t.Errorf("the wake is of %v", got)
	}
}

// TestFailedUntilItCallsBack: a webhook that calls back takes its wakes.
func TestFailedUntilItCallsBack(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(n int, rw http.ResponseWriter, wake map[string]any) {
		if n == 1 {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		w.ask(http.StatusOK, "POST", wake["callback_url"].(string), wake["callback_token"].(string),
			says(wake, true, ackOf("jobs/a", pendingOf(wake)["jobs/a"])))
	})
	w.webhook("s", "jobs/*", h.URL, 5000)
	w.stream("jobs/a")
	h.next(t)
	h.next(t)
	must.Same(t, w.ask(http.StatusOK, "GET", "__ds/subscriptions/s", "", nil)["status"], any("active"), "it is %v, want %v")
}

// TestWakeStreamMadeAnew: a wake that nobody claimed is in the wake stream also when that was made anew.
func TestWakeStreamMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.stream("wake")
	w.pull("s", map[string]any{"pattern": "jobs/*"})
	w.stream("jobs/a")
	wakes := func() int {
		res := must.Get(http.Get(w.url + "/v1/stream/wake"))(t)
		defer res.Body.Close()
		return strings.Count(string(must.Get(io.ReadAll(res.Body))(t)), `"type":"wake"`)
	}
	must.Until(t, "the wake stream has a wake", func() bool { return wakes() == 1 })
	w.ask(http.StatusNoContent, "DELETE", "wake", "", nil)
	w.stream("wake")
	must.Until(t, "the one that was made anew has it", func() bool { return wakes() >= 1 })
}

func jsonOf(r io.Reader, into any) error { return json.NewDecoder(r).Decode(into) }

// TestFullRecord: streams that a record would have no room for once all of them are at work are not linked, and hold up no other.
func TestFullRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 2,000 streams")
	}
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("s", "*", h.URL, 60_000)
	long := strings.Repeat("x", 180)
	w.Helper()
	const streams = 3000
	var g errgroup.Group
	g.SetLimit(16)
	for i := range streams {
		g.Go(func() error { w.stream(fmt.Sprintf("%d%s", i, long)); return nil })
	}
	must.Do(t, g.Wait())
	linked := 0
	must.Until(t, "all that there is room for are acked", func() bool {
		linked = 0
		for _, s := range w.ask(http.StatusOK, "GET", "__ds/subscriptions/s", "", nil)["streams"].([]any) {
			if linked++; s.(map[string]any)["acked_offset"] == "-1" {
				return false
			}
		}
		return linked > 1000
	})
	t.Logf("%d streams are linked", linked)
	for len(h.wakes) > 0 {
		<-h.wakes
	}
	w.ask(http.StatusNoContent, "POST", "0"+long, "", map[string]any{"n": 2})
	if got := pendingOf(h.next(t)); got["0"+long] == "" {
		t.Errorf("the wake is of %d streams, and not of the first", len(got))
	}
}

// TestMadeAfterItsThread: a stream is there once its record says so, which may be long after its thread has all that it begins with, and
// was looked at.
func TestMadeAfterItsThread(t *testing.T) {
	for name, how := range map[string]map[string]any{
		"by a pattern": {"pattern": "jobs/*"},
		"by its name":  {"streams": []string{"jobs/slow", "jobs/quick"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
			how["type"], how["webhook"] = "webhook", map[string]any{"url": h.URL}
			w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/s", "", how)
			slow := events.Thread{Session: "jobs", Name: "slow"}
			stream := map[string]any{"v": 1, "id": "01J", "type": "application/json", "created": time.Now().UnixMilli(), "pending": true}
			put := func(expect uint64) uint64 {
				value := must.Get(json.Marshal(stream))(t)
				return must.Get(w.conn.Records().Write(t.Context(), record.Put{Key: events.StreamKey(slow), Value: value, Expect: expect}))(t)
			}
			rev := put(0)
			cl := client.New(w.conn)
			_, err := cl.Publisher(client.PublisherConfig{}).Publish(t.Context(), client.Entry{Thread: slow, Dialect: "raw", Body: []byte("1")})
			must.Do(t, err)
			must.Get(cl.Thread(slow).AwaitHead(t.Context()))(t)
			w.stream("jobs/quick")
			if got := pendingOf(h.next(t)); len(got) != 1 || got["jobs/quick"] == "" {
				t.Fatalf("the wake is of %v, want jobs/quick alone", got)
			}
			delete(stream, "pending")
			put(rev)
			if got := pendingOf(h.next(t)); len(got) != 1 || got["jobs/slow"] == "" {
				t.Errorf("the wake is of %v, want jobs/slow alone", got)
			}
		})
	}
}

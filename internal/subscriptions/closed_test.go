package subscriptions_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"spool/internal/dstreams"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// close closes a stream.
func (w *world) close(name string) {
	w.Helper()
	req := must.Get(http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+dstreams.Prefix+name, nil))(w.T)
	req.Header.Set("Stream-Closed", "true")
	res := must.Get(http.DefaultClient.Do(req))(w.T)
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		w.Fatalf("close %s: %s", name, res.Status)
	}
}

// linked are the streams of a subscription.
func (w *world) linked(id string) (names []string) {
	w.Helper()
	for _, s := range w.ask(http.StatusOK, "GET", "__ds/subscriptions/"+id, "", nil)["streams"].([]any) {
		names = append(names, s.(map[string]any)["path"].(string))
	}
	return names
}

// TestClosedAreGivenUp: a stream that is closed, and all of it acked, leaves its subscription, and does not come again when
// another process begins; one that was named stays.
func TestClosedAreGivenUp(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.ask(http.StatusCreated, "PUT", "__ds/subscriptions/s", "", map[string]any{
		"type": "webhook", "pattern": "jobs/*", "streams": []string{"jobs/named"}, "webhook": map[string]any{"url": h.URL},
	})
	w.stream("jobs/named")
	w.stream("jobs/open")
	for i := range 20 {
		name := fmt.Sprint("jobs/", i)
		w.stream(name)
		w.close(name)
	}
	w.close("jobs/named")
	for told := map[string]bool{}; len(told) < 22; { // all of them
		for name := range pendingOf(h.next(t)) {
			told[name] = true
		}
	}
	left := []string{"jobs/named", "jobs/open"}
	must.Until(t, "those that are closed have left", func() bool { return fmt.Sprint(w.linked("s")) == fmt.Sprint(left) })
	w.stop()
	for len(h.wakes) > 0 {
		<-h.wakes
	}
	w.serve()
	w.stream("jobs/new")
	for got := map[string]string{}; got["jobs/new"] == ""; {
		if got = pendingOf(h.next(t)); len(got) > 1 {
			t.Errorf("a wake is of %v, want jobs/new alone", got)
		}
	}
}

// TestRestored: after a restore, which writes heads anew, what was closed and acked does not come again, and what is new does.
func TestRestored(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("s", "jobs/*", h.URL, 1000)
	w.stream("jobs/closed")
	w.close("jobs/closed")
	must.Until(t, "it has left", func() bool { return len(h.wakes) > 0 && len(w.linked("s")) == 0 })
	w.stop()
	for len(h.wakes) > 0 {
		<-h.wakes
	}
	w.stream("jobs/new")
	w.ask(http.StatusOK, "GET", "jobs/new", "", nil) // now it is applied
	recs := w.conn.Records()
	rs := must.Get(recs.Records(t.Context(), events.SubscriptionKey("s"), events.HeadKey(events.Thread{Session: "jobs", Name: "closed"})))(t)
	of := must.Get(client.New(w.conn).Store(t.Context()))(t)
	must.Get(recs.Write(t.Context(), record.Put{
		Key: rs[0].Key, Value: bytes.ReplaceAll(rs[0].Value, []byte(of), []byte("another")), Expect: rs[0].Seq,
	}))(t)
	must.Get(recs.Write(t.Context(), record.Put{Key: rs[1].Key, Expect: rs[1].Seq}))(t)
	w.serve()
	if got := pendingOf(h.next(t)); len(got) != 1 || got["jobs/new"] == "" {
		t.Errorf("the wake is of %v, want jobs/new alone", got)
	}
	w.stream("jobs/newer")
	for got := map[string]string{}; got["jobs/newer"] == ""; {
		if got = pendingOf(h.next(t)); got["jobs/closed"] != "" {
			t.Errorf("a wake is of %v", got)
		}
	}
}

package subscriptions_test

import (
	"fmt"
	"net/http"
	"testing"

	"spool/internal/dstreams"
	"spool/internal/must"
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

// TestClosedWhileNobodyLooked: a stream that was made and closed while no process ran wakes when one does.
func TestClosedWhileNobodyLooked(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, func(_ int, rw http.ResponseWriter, _ map[string]any) { done(rw) })
	w.webhook("s", "jobs/*", h.URL, 1000)
	w.stop()
	w.stream("jobs/short")
	w.close("jobs/short")
	w.serve()
	if got := pendingOf(h.next(t)); got["jobs/short"] == "" {
		t.Errorf("the wake is of %v", got)
	}
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

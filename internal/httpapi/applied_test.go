package httpapi_test

import (
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Who waits until something is applied takes no place of those who read: where persisters stand still, a fleet waits.
func TestAppliedWaitsBesideReaders(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{Requests: 1})
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	done := make(chan int, 1)
	go func() {
		status, _, _ := do(t, url, request{method: "GET", path: "/v1/sessions/s/threads/main/applied?producer=nobody&seq=1"})
		done <- status
	}()
	for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; { // the first look for a dead letter comes after a second
		status, _, body := do(t, url, request{method: "GET", path: "/v1/sessions/s"})
		if status != 200 {
			t.Fatalf("a read beside it = %d, want 200: %s", status, body)
		}
	}
	must.Same(t, <-done, 409, "what nobody published = %d, want %d")
}

// What a thread took is applied, also where the thread has another name by now.
func TestAppliedAcrossARename(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	main := events.Thread{Session: "s", Name: "main"}
	ack := must.Get(cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(ctx, client.Entry{
		Thread: main, Dialect: "item", Body: []byte(`{"content":[{"type":"text","text":"hello"}]}`)}))(t)
	must.Do(t, ack.Applied(ctx))
	must.Do(t, cl.Thread(main).Rename(ctx, "elsewhere"))
	for path, want := range map[string]int{"producer=p&seq=1": 200, "producer=p&seq=2": 404} {
		status, _, body := do(t, url, request{method: "GET", path: "/v1/sessions/s/threads/main/applied?" + path})
		if status != want {
			t.Errorf("%s = %d %s, want %d", path, status, body, want)
		}
	}
}

package httpapi_test

import (
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
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

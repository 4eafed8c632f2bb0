package natsio

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
)

// A request of several messages is told of the first one that is refused; what the server says of the others is news to nobody.
func TestOneComplaintARequest(t *testing.T) {
	d := denials{}
	var ended error
	done, err := d.await(func(string) bool { return true }, func(why error) { ended = why })
	if err != nil {
		t.Fatal(err)
	}
	refusal := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
	}
	if told := d.complaint(nil, refusal("a")); !told || ended == nil {
		t.Errorf("told %v, the request ended with %v", told, ended)
	}
	done()
	if !d.complaint(nil, refusal("b")) {
		t.Error("what is said behind the end of the request is a complaint of its own")
	}
}

// A request is told that its answer is lost if it was sent before the connection was, and does not go on by itself.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := denials{}
		var mu sync.Mutex
		ended := map[string]error{}
		wait := func(name string, lasts bool) {
			must.Do(t, must.Err(d.add(&waiter{lasts: lasts, sends: func(string) bool { return false }, end: func(why error) {
				mu.Lock()
				defer mu.Unlock()
				ended[name] = why
			}})))
		}
		wait("before", false)
		wait("lasting", true)
		d.lost()
		d.hear()
		wait("behind", false)
		time.Sleep(lateAnswer - time.Millisecond)
		synctest.Wait()
		mu.Lock()
		must.Same(t, len(ended), 0, "%d ended while an answer may still come, want %d")
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		must.Is(t, ended["before"], errLost, "what was sent before")
		must.Same(t, len(ended), 1, "%d ended, want %d")
	})
}

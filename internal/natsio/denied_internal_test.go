package natsio

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
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

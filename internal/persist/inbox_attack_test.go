package persist_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// lateInbox is an inbox whose server takes too long over the first body.
type lateInbox struct {
	persist.Inbox
	calls atomic.Int64
}

func (i *lateInbox) OpenBody(ctx context.Context, ref events.BodyRef) (io.Reader, error) {
	if i.calls.Add(1) == 1 {
		return nil, context.DeadlineExceeded
	}
	return i.Inbox.OpenBody(ctx, ref)
}

// An error that passes is no verdict: passing() counts a deadline among them.
func TestLateBodyIsNoVerdict(t *testing.T) {
	r := newRig(t)
	run := r.start(func(d *persist.Deps, _ *persist.Config) { d.Inbox = &lateInbox{Inbox: d.Inbox} })
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	body := `{"id":"big","role":"coder","content":"` + strings.Repeat("x", 5000) + `"}`
	err := p.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "step", Seq: 1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(body)), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && run.Stats().Applied < 1; time.Sleep(10 * time.Millisecond) {
	}
	letters, err := r.DeadLetters(t.Context(), "")
	if err != nil || len(letters) != 0 {
		t.Errorf("%d dead letters, %v, want none: %v", len(letters), err, letters)
	}
}

var _ record.Record

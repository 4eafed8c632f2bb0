package client_test

import (
	"context"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/client"
)

// Who waits for another publish of the same publisher waits no longer than its own context lives.
func TestPublishWaitsForAnother(t *testing.T) {
	s := newSite(t)
	s.up()
	c := must.Get(client.Connect(t.Context(), client.Config{URL: s.url()}))(t)
	defer c.Close()
	s.down()
	p := c.Publisher(client.PublisherConfig{})
	long, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() { first <- p.Publish(long, post(thread("s"), "1")) }()
	for range 2 { // whichever of the two has the turn first
		short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		must.Is(t, p.Publish(short, post(thread("s"), "2")), context.DeadlineExceeded, "a publish behind another")
		end()
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("a publish without a server is acknowledged")
	}
}

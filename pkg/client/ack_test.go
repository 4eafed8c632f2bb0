package client_test

import (
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestAck: an ack names what it acked, and is waited on until all of that is in its threads, or one entry of it is refused.
func TestAck(t *testing.T) {
	conn := natstest.Conn(t)
	r := client.New(conn)
	ctx := limited(t)
	a, b := thread("ack"), thread("acked")
	p := r.Publisher(client.PublisherConfig{Producer: "p", Epoch: 3})
	item := func(to events.Thread) client.Entry { return post(to, "x") }

	must.Do(t, client.Ack{}.Applied(ctx))
	ack := must.Get(p.Publish(ctx, item(a), item(b), item(a)))(t)
	must.Same(t, len(ack.Threads), 2, "threads of an ack: %v, want %v")
	must.Same(t, ack.Threads[0], client.Acked{Thread: a, First: 1, Last: 3}, "the first: %v, want %v")
	must.Same(t, ack.Threads[1], client.Acked{Thread: b, First: 2, Last: 2}, "the second: %v, want %v")
	must.Same(t, ack.Producer, "p", "producer %q, want %q")
	must.Same(t, ack.Epoch, 3, "epoch %v, want %v")

	waiting := make(chan error, 1)
	go func() { waiting <- ack.Applied(ctx) }()
	select {
	case err := <-waiting:
		t.Errorf("Applied with no persister = %v, want it to wait", err)
	case <-time.After(50 * time.Millisecond):
	}
	t.Cleanup(must.Get(persister(conn))(t))
	must.Do(t, must.Receive(t, waiting, "Applied does not see what the persister did"))
	for at, want := range map[events.Thread]int64{a: 2, b: 1} {
		must.Same(t, must.Get(r.Thread(at).Head(ctx))(t).Entries, want, "entries of %s: %v, want %v", at)
	}

	// The last entry of a call is in the thread; one before it is a dead letter.
	bad := client.Entry{Thread: a, Dialect: "item", Body: []byte("no item")}
	err := must.Get(p.Publish(ctx, item(a), bad, item(a)))(t).Applied(ctx)
	must.Is(t, err, client.ErrRefused, "Applied of a call with a refused entry")
	if err != nil && !strings.Contains(err.Error(), "seq 5 of p") {
		t.Errorf("Applied = %v, want the entry named", err)
	}
}

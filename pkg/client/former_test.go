package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// TestRetireLosesNothing: an entry that is stored between the last look of who retires a thread and the removal stays
// in the thread, and who retires it is told.
func TestRetireLosesNothing(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	th := thread("s")
	publishApplied(ctx, t, conn, th)

	late := c.Publisher(client.PublisherConfig{})
	release, forked := make(chan struct{}), false
	free := sync.OnceFunc(func() { close(release) })
	var published error
	stop := must.Get(persister(conn, func(d natsio.Delivery) {
		switch {
		case forked: // nothing behind the fork is applied until the removal is stored
			<-release
		case must.Get(events.Open(d.Subject, d.Data))(t).Kind == events.KindControl:
			forked, published = true, late.Publish(ctx, post(th, "late"))
		}
	}))(t)
	defer stop()
	defer free()

	told := make(chan error, 1)
	go func() {
		_, err := c.Retire(ctx, th)
		told <- err
	}()
	for n := uint64(0); n < 4; { // the first entry, the fork, the late entry, the removal
		n = must.Get(conn.Events().NewestEvent(ctx, th))(t).Seq
	}
	free()
	if err := <-told; !errors.Is(err, client.ErrBusyThread) {
		t.Errorf("who retires the thread is told %v, want ErrBusyThread", err)
	}
	if published != nil {
		t.Fatal(published)
	}
	must.Do(t, c.Await(ctx, th, late.Producer(), 0, 1))
	if head, err := c.Thread(ctx, th); err != nil || head.Entries != 2 {
		t.Errorf("the thread has %d entries, %v, want 2", head.Entries, err)
	}

	former := must.Get(c.Retire(ctx, th))(t)
	if head, err := c.Thread(ctx, former); err != nil || head.Entries != 3 { // with the fork's own
		t.Errorf("%s has %d entries, %v, want 3", former, head.Entries, err)
	}
	if _, err := c.Thread(ctx, th); !errors.Is(err, threads.ErrNoThread) {
		t.Errorf("%s is there still: %v", th, err)
	}
}

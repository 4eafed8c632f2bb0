package client_test

import (
	"errors"
	"sync"
	"testing"

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
	ctx := limited(t)
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
			forked, published = true, must.Err(late.Publish(ctx, post(th, "late")))
		}
	}))(t)
	defer stop()
	defer free()

	told := make(chan error, 1)
	go func() {
		_, err := c.Internal().Retire(ctx, th, must.Get(c.Thread(th).Head(ctx))(t))
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
	must.Do(t, c.Thread(th).Await(ctx, late.Producer(), 0, 1))
	if head, err := c.Thread(th).Head(ctx); err != nil || head.Entries != 2 {
		t.Errorf("the thread has %d entries, %v, want 2", head.Entries, err)
	}

	former := must.Get(c.Internal().Retire(ctx, th, must.Get(c.Thread(th).Head(ctx))(t)))(t)
	if head, err := c.Thread(former).Head(ctx); err != nil || head.Entries != 3 { // with the fork's own
		t.Errorf("%s has %d entries, %v, want 3", former, head.Entries, err)
	}
	must.Is(t, must.Err(c.Thread(th).Head(ctx)), threads.ErrNoThread, "%s is there still", th)
}

// TestRetiredTwice: those who retire a thread from one head at the same time do it once. All of them are given its name, nothing becomes a
// dead letter, and who comes when another thread has the name leaves that alone.
func TestRetiredTwice(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	ctx := limited(t)
	th := thread("s")
	publishApplied(ctx, t, conn, th)
	head := must.Get(c.Thread(th).Head(ctx))(t)

	const n = 3
	told, names := make(chan error, n), make(chan string, n)
	for range n { // each decides before anything has happened
		go func() {
			former, err := client.New(conn).Internal().Retire(ctx, th, head)
			names <- former.Name
			told <- err
		}()
	}
	stop := must.Get(persister(conn))(t)
	defer stop()
	first := <-names
	for i := range n {
		if i > 0 {
			must.Same(t, <-names, first, "another name is %q, want %q")
		}
		must.Do(t, <-told)
	}
	pub := c.Publisher(client.PublisherConfig{})
	must.Do(t, must.Get(pub.Publish(ctx, post(th, "anew")))(t).Applied(ctx))
	former := must.Get(c.Internal().Retire(ctx, th, head))(t)
	must.Same(t, former.Name, first, "the name behind is %q, want %q")
	if head, err := c.Thread(th).Head(ctx); err != nil || head.Entries != 1 {
		t.Errorf("the thread that has the name now has %d entries, %v, want 1", head.Entries, err)
	}
	if dead, err := c.EverySession().DeadLetters(ctx); err != nil || len(dead) > 0 {
		t.Errorf("dead letters %v, %v, want none", dead, err)
	}
}

package client_test

import (
	"errors"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/threads"
)

// TestDeletedByAnother: who deletes a session hears of it also when another deletion came right behind its own, before it looked,
// and whatever has begun under that name since.
func TestDeletedByAnother(t *testing.T) {
	for _, anew := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun anew %v", anew), func(t *testing.T) {
			t.Parallel()
			conn := natstest.Conn(t)
			c := client.New(conn)
			ctx := limited(t)
			th := thread("s")
			pub := publishApplied(ctx, t, conn, th)
			var err error
			told := make(chan error)
			const callers = 3
			for range callers { // all decide before anything is deleted
				go func() {
					r, err := c.Session("s").Delete(ctx, client.Deletion{})
					if err == nil && !r.Deleted {
						err = errors.New("the receipt does not say that it is deleted")
					}
					told <- err
				}()
			}
			for n := uint64(0); n < 1+callers; {
				n = must.Get(conn.Events().NewestEvent(ctx, th))(t).Seq
			}
			if anew {
				must.Get(pub.Publish(ctx, post(th, "2")))(t)
			}
			stop, err := persister(conn)
			must.Do(t, err)
			defer stop()
			for range callers {
				must.Is(t, <-told, nil, "DeleteSession")
			}
			if anew { // the deletion is told before what came behind it is applied
				must.Get(c.Thread(th).AwaitHead(ctx))(t)
			}
		})
	}
}

// TestDeletedBeforeAnyPersisterCame: what was acknowledged goes with its session, also if nobody had come to it when its deletion was asked
// for; while nobody comes, it is not said that there is no session.
func TestDeletedBeforeAnyPersisterCame(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	ctx := limited(t)
	pub := c.Publisher(client.PublisherConfig{})
	must.Get(pub.Publish(ctx, post(thread("s"), "1")))(t)
	_, err := c.Session("s").Delete(ctx, client.Deletion{})
	must.Is(t, err, client.ErrBehind, "Delete while no persister runs")
	must.Get(pub.Publish(ctx, post(thread("s"), "2")))(t)
	stop := must.Get(persister(conn))(t)
	defer stop()
	r := must.Get(c.Session("s").Delete(ctx, client.Deletion{}))(t)
	must.Same(t, r.Gone.Threads, 1, "%d threads went, want %d")
	_, err = c.Thread(thread("s")).AwaitHead(ctx)
	must.Is(t, err, threads.ErrNoThread, "the thread behind that")
}

package client_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// wire is a connection in this process whose sender can be stopped, and whose server does not answer so many questions for dead letters.
type wire struct {
	nats.InProcessConnProvider
	stopped sync.Mutex
	deaf    atomic.Int32
}

func (w *wire) InProcessConn() (net.Conn, error) {
	c, err := w.InProcessConnProvider.InProcessConn()
	return wired{c, w}, err
}

type wired struct {
	net.Conn
	*wire
}

func (w wired) Write(b []byte) (int, error) {
	w.stopped.Lock()
	defer w.stopped.Unlock()
	ask := []byte("$JS.API.CONSUMER.CREATE." + events.DeadStream)
	if bytes.Contains(b, ask) && w.deaf.Add(-1) >= 0 {
		b = bytes.ReplaceAll(b, ask, bytes.Replace(ask, []byte("$JS"), []byte("$NO"), 1)) // nobody listens there
	}
	return w.Conn.Write(b)
}

// TestRefusedWhileNobodyAnswers: a client that was stopped while its operation was refused, and whose server is busy when it goes on, is
// told the refusal: a question that is not answered is no answer.
func TestRefusedWhileNobodyAnswers(t *testing.T) {
	s := natstest.Server(t)
	conn := natstest.Dial(t, s)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	w := &wire{InProcessConnProvider: s}
	late := client.New(natstest.Dial(t, w))
	r, main := &rig{Client: client.New(conn), conn: conn}, thread("s")
	stop := must.Get(persister(conn))(t)
	r.publish(t, posts(main, 1, 3)...)
	must.Do(t, r.Thread(main).Settled(limited(t)))
	stop()
	last := func() uint64 {
		return must.Get(conn.Streams().LastSeqs(t.Context(), events.EventsStream))(t)[events.EventsStream]
	}
	refused := func(n int) {
		must.Until(t, "it is refused", func() bool { return len(must.Get(r.Session("s").DeadLetters(t.Context()))(t)) >= n })
	}
	end := func(ctx context.Context, cl *client.Client, said string, to chan<- error) {
		before := last()
		go func() { to <- cl.Thread(main).End(ctx, events.End{Summary: said}) }()
		must.Until(t, "it is stored", func() bool { return last() > before })
	}
	first, second := make(chan error, 1), make(chan error, 1)
	end(limited(t), r.Client, "first", first)
	end(limited(t), late, "second", second)
	w.stopped.Lock()
	t.Cleanup(must.Get(persister(conn))(t))
	must.Do(t, <-first)
	refused(1)
	// What is refused next has the partition forget the letter that is out.
	must.Do(t, r.Publisher(client.PublisherConfig{}).Control(limited(t), main, 1, events.Control{Op: events.OpEnd, End: &events.End{}}))
	refused(2)
	w.deaf.Store(8)
	w.stopped.Unlock()
	if err := <-second; !errors.Is(err, client.ErrRefused) || !strings.HasPrefix(err.Error(), client.ErrRefused.Error()) {
		t.Errorf("the second End = %v, want what begins with %q", err, client.ErrRefused)
	}
}

package client_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/embedded"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/pkg/client"
	"spool/pkg/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// persister runs a persister until stop is called. before is told of each message before it is taken, and may hold it.
func persister(conn *natsio.Conn, before ...func(natsio.Delivery)) (stop func(), err error) {
	p := persist.New(persistnats.Deps(conn, 0, 8<<20), persist.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var stops []func()
	var run sync.WaitGroup
	stop = func() {
		cancel()
		for _, s := range stops {
			s()
		}
		run.Wait()
	}
	run.Go(func() { _ = p.Run(ctx) })
	for part := range events.Partitions {
		s, err := conn.Events().Consume(ctx, part, nil, func(d natsio.Delivery) {
			for _, tell := range before {
				tell(d)
			}
			p.Deliver(ctx, persist.Message{Subject: d.Subject, Data: d.Data, Seq: d.Seq, Stored: d.Stored, Partition: part, Term: d.Term, Ack: d.Ack,
				Working: d.Working})
		})
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s.Stop)
	}
	return stop, nil
}

// rig is a client with a server and a persister of its own.
type rig struct {
	*client.Client
	conn *natsio.Conn
	stop func() // of the persister
}

func newRig(t *testing.T) *rig {
	t.Helper()
	conn := natstest.Conn(t)
	stop := must.Get(persister(conn))(t)
	stop = sync.OnceFunc(stop)
	t.Cleanup(stop)
	return &rig{client.New(conn), conn, stop}
}

// site is a server at an address that it keeps, so that it can go away and come back.
type site struct {
	t    *testing.T
	dir  string
	addr string
	srv  *embedded.Server
	conn *natsio.Conn
	end  func()
}

func newSite(t *testing.T) *site {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &site{t: t, dir: t.TempDir(), addr: l.Addr().String()}
	must.Do(t, l.Close())
	t.Cleanup(s.down)
	return s
}

func (s *site) url() string { return "nats://" + s.addr }

func (s *site) up() {
	s.t.Helper()
	var err error
	if s.srv, err = embedded.Start(embedded.Config{Dir: s.dir, Listen: s.addr, Sync: time.Minute}); err != nil {
		s.t.Fatal(err)
	}
	if s.conn, err = natsio.Dial(context.Background(), natsio.Config{InProcess: s.srv}); err != nil {
		s.t.Fatal(err)
	}
	if err = s.conn.Ensure(s.t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}); err != nil {
		s.t.Fatal(err)
	}
	if s.end, err = persister(s.conn); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) down() {
	if s.srv == nil {
		return
	}
	s.end()
	s.conn.Close()
	s.srv.Stop()
	s.srv = nil
}

func thread(session string) events.Thread {
	return events.Thread{Session: session, Name: events.MainThread}
}

// publishApplied publishes one entry to a thread and waits until it is applied. Nobody applies anything behind that.
func publishApplied(ctx context.Context, t *testing.T, conn *natsio.Conn, th events.Thread) *client.Publisher {
	t.Helper()
	c := client.New(conn)
	stop, err := persister(conn)
	must.Do(t, err)
	pub := c.Publisher(client.PublisherConfig{})
	ack, err := pub.Publish(ctx, post(th, "1"))
	if err == nil {
		err = ack.Applied(ctx)
	}
	stop()
	must.Do(t, err)
	return pub
}

func post(t events.Thread, text string) client.Entry {
	return client.Entry{Thread: t, Dialect: "item", Body: fmt.Appendf(nil,
		`{"content":[{"type":"text","text":%q}],"metadata":{"type":"text"}}`, text)}
}

func posts(t events.Thread, from, to int) (es []client.Entry) {
	for i := from; i <= to; i++ {
		es = append(es, post(t, strconv.Itoa(i)))
	}
	return es
}

// publish appends entries and waits until their thread has them.
func (r *rig) publish(t *testing.T, es ...client.Entry) {
	t.Helper()
	must.Do(t, must.Get(r.Publisher(client.PublisherConfig{}).Publish(t.Context(), es...))(t).Applied(limited(t)))
}

func await(t *testing.T, c *client.Client, th events.Thread, producer string, seq uint64) {
	t.Helper()
	ctx := limited(t)
	must.Do(t, c.Thread(th).Await(ctx, producer, 0, seq))
}

// texts takes n items of a subscription.
func texts(t *testing.T, items func(func(client.Item, error) bool), n int) (out []string) {
	t.Helper()
	if n == 0 {
		return nil
	}
	for item := range must.All(t, items) {
		if out = append(out, item.Text()); len(out) == n {
			break
		}
	}
	return out
}

func numbers(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

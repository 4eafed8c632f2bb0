package client_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestCredentialsAreRefusedForAWhile: a server that lets nobody in any more, because the credentials are being changed, and then does
// again, finds its persister and its publishers at work.
func TestCredentialsAreRefusedForAWhile(t *testing.T) {
	options := func(password string) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Username: "spool", Password: password}
	}
	open := options("right")
	s := must.Get(server.NewServer(open))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	dial := func(name string) (*natsio.Conn, *natstest.Log) {
		log := &natstest.Log{}
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: s.ClientURL(), User: "spool", Password: "right", Name: name,
			Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}))(t)
		t.Cleanup(c.Close)
		return c, log
	}
	conn, _ := dial("persister")
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	stop := must.Get(persister(conn))(t)
	defer stop()
	mine, log := dial("publisher")
	c := client.New(mine)
	th := events.Thread{Session: "s", Name: "main"}
	pub := c.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(t.Context(), post(th, "before")))(t)
	await(t, c, th, "p", 1)

	shut := *open
	shut.Password = "another"
	must.Do(t, s.ReloadOptions(&shut))
	must.Until(t, "both are cut off", func() bool { return !mine.Connected() && !conn.Connected() })
	once, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := pub.Publish(once, post(th, "meanwhile"))
	must.Is(t, err, context.DeadlineExceeded, "Publish to a server that lets nobody in")
	must.Is(t, err, record.ErrUnknown, "Publish to a server that lets nobody in")
	if !strings.Contains(strings.ToLower(err.Error()), "authorization violation") {
		t.Errorf("Publish to a server that lets nobody in does not say why: %v", err)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("that nobody is let in was said %d times in the log, want once:\n%s", n, log)
	}

	must.Do(t, s.ReloadOptions(open))
	must.Get(pub.Publish(limited(t), post(th, "after")))(t)
	await(t, c, th, "p", 3)
}

// TestClosedClient: a client that its program has closed says so at once, whatever is called.
func TestClosedClient(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	th := events.Thread{Session: "s", Name: "main"}
	c := client.New(conn)
	pub := c.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(t.Context(), post(th, "stored")))(t)
	conn.Close()
	for what, call := range map[string]func(context.Context) error{
		"Publish": func(ctx context.Context) error {
			_, err := pub.Publish(ctx, post(th, "too late"))
			return err
		},
		"Publish of a body that is read": func(ctx context.Context) error {
			_, err := pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item",
				Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("{}")), nil }})
			return err
		},
		"Await":  func(ctx context.Context) error { return c.Thread(th).Await(ctx, "p", 0, 1) },
		"Thread": func(ctx context.Context) error { _, err := c.Thread(th).Head(ctx); return err },
		"Async": func(ctx context.Context) error {
			a := c.Async(client.AsyncConfig{PublisherConfig: client.PublisherConfig{Producer: "q"}})
			must.Do(t, a.Publish(ctx, post(th, "too late")))
			return a.Close(ctx)
		},
		"Subscribe": func(ctx context.Context) error {
			for _, err := range c.Subscribe(ctx, client.Filter{}, client.Position{All: true}) {
				return err
			}
			return ctx.Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			err := call(ctx)
			must.Is(t, err, client.ErrClosed, "%s", what)
			must.Do(t, ctx.Err())
		})
	}
}

// Package natstest gives tests a JetStream server in this process: a real one, or, with SPOOL_TEST_SERVER=memory in the
// environment, one of package memjs.
package natstest

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/embedded"
	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// Running is a server that was started.
type Running interface {
	nats.InProcessConnProvider
	Stop() // ends it at once
}

// InMemory reports whether Server gives servers of package memjs.
func InMemory() bool { return os.Getenv("SPOOL_TEST_SERVER") == "memory" }

type memory struct{ *memjs.Server }

func (m memory) Stop() { m.Close() }

// Server starts a server without a socket; a real one works on a temporary directory.
func Server(t testing.TB) Running {
	t.Helper()
	if !InMemory() {
		return ServerIn(t, t.TempDir())
	}
	s := memory{memjs.New(memjs.Config{MaxStore: 16 << 30})}
	t.Cleanup(s.Stop)
	return s
}

// ServerIn starts a real server on a directory that outlives it.
func ServerIn(t testing.TB, dir string) *embedded.Server {
	t.Helper()
	s := must.Get(embedded.Start(embedded.Config{Dir: dir, Sync: time.Minute}))(t)
	t.Cleanup(s.Stop)
	return s
}

// Dial connects to a server.
func Dial(t testing.TB, s nats.InProcessConnProvider) *natsio.Conn {
	t.Helper()
	c := must.Get(natsio.Dial(context.Background(), natsio.Config{InProcess: s}))(t)
	t.Cleanup(c.Close)
	return c
}

// Conn connects to a new server that has Spool's streams.
func Conn(t testing.TB) *natsio.Conn {
	t.Helper()
	c := Dial(t, Server(t))
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	return c
}

// Run runs something until stop is called or the test ends, which an error of it fails.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("what ran beside the test: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Partition finds the partition of the first stored event.
func Partition(t testing.TB, c *natsio.Conn) int {
	t.Helper()
	s := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
	m := must.Get(s.GetMsg(t.Context(), s.CachedInfo().State.FirstSeq))(t)
	p, err := strconv.Atoi(strings.Split(m.Subject, ".")[3])
	if err != nil {
		t.Fatalf("subject %q: %v", m.Subject, err)
	}
	return p
}

// AwaitAckFloor waits until a partition's acks have arrived up to a stream sequence: they are not answered.
func AwaitAckFloor(t testing.TB, c *natsio.Conn, p int, seq uint64) {
	t.Helper()
	must.Until(t, "its acks have arrived", func() bool {
		cons := must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(p)))(t)
		return cons.CachedInfo().AckFloor.Stream >= seq
	})
}

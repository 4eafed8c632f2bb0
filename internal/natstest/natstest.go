// Package natstest gives tests a real JetStream server in this process.
package natstest

import (
	"context"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/natsio"
)

// Server starts a server on a temporary directory, without a socket.
func Server(t testing.TB) *embedded.Server {
	t.Helper()
	return ServerIn(t, t.TempDir())
}

// ServerIn starts a server on a directory that outlives it.
func ServerIn(t testing.TB, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Sync: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Dial connects to a server.
func Dial(t testing.TB, s *embedded.Server) *natsio.Conn {
	t.Helper()
	c, err := natsio.Dial(context.Background(), natsio.Config{InProcess: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Conn connects to a new server that has Spool's streams.
func Conn(t testing.TB) *natsio.Conn {
	t.Helper()
	c := Dial(t, Server(t))
	if err := c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	return c
}

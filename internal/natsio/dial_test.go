package natsio_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"spool/internal/natsio"
	"spool/internal/natstest"
)

// Who has no time left gets no connection, and leaves none open.
func TestDialInNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	watched := &watched{Running: natstest.Server(t)}
	if c, err := natsio.Dial(ctx, natsio.Config{InProcess: watched}); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Dial = %v, %v, want no connection, and the context's error", c, err)
	}
	if n := watched.open.Load(); n != 0 {
		t.Errorf("%d connections are open, want none", n)
	}
}

// watched is a server that counts its open connections.
type watched struct {
	natstest.Running
	open atomic.Int64
}

func (w *watched) InProcessConn() (net.Conn, error) {
	c, err := w.Running.InProcessConn()
	w.open.Add(1)
	return &counted{Conn: c, open: &w.open}, err
}

type counted struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

package memjs

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is a connection, both ends of it: a client reads and writes it, the server executes what was written and adds
// to what is there to read. Writing never blocks. A read blocks on a channel only, which synctest knows.
type conn struct {
	s       *Server
	process string
	n       uint64

	// The server's end, under Server.mu.
	partial   []byte // of a command whose rest has not come
	in        []*command
	out       []outgoing
	done      uint64 // commands and messages that went through a queue: numbers actions
	subs      map[string]*subscription
	gone      bool
	noEcho    bool
	responder bool // tell it when nobody answers

	// The client's end, under mu. It is taken after Server.mu, never before it.
	mu       sync.Mutex
	unread   []byte
	off      int
	closed   bool
	deadline time.Time
	wake     chan struct{} // holds one token when there may be something for a reader
}

// outgoing is a message that the server has for a client.
type outgoing struct {
	n       uint64
	subject string
	bytes   []byte
}

func newConn(s *Server, process string, n uint64) *conn {
	return &conn{s: s, process: process, n: n, subs: map[string]*subscription{}, wake: make(chan struct{}, 1)}
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// receive puts bytes where the client reads.
func (c *conn) receive(b string) {
	c.mu.Lock()
	c.unread = append(c.unread, b...)
	c.mu.Unlock()
	c.signal()
}

func (c *conn) receiveBytes(b []byte) {
	c.mu.Lock()
	c.unread = append(c.unread, b...)
	c.mu.Unlock()
	c.signal()
}

// Read is net.Conn's.
func (c *conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		if n := copy(p, c.unread[c.off:]); n > 0 {
			if c.off += n; c.off == len(c.unread) {
				c.unread, c.off = c.unread[:0], 0
			}
			c.mu.Unlock()
			return n, nil
		}
		closed, deadline := c.closed, c.deadline
		c.mu.Unlock()
		if closed {
			return 0, io.EOF
		}
		if deadline.IsZero() {
			<-c.wake
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		select {
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Write is net.Conn's. On a server that runs by itself the commands are executed when it returns.
func (c *conn) Write(p []byte) (int, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return 0, io.ErrClosedPipe
	}
	s.now = time.Now()
	c.take(p)
	s.settle()
	return len(p), nil
}

// Close is net.Conn's.
func (c *conn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.disconnect()
	c.s.settle()
	return nil
}

// disconnect ends a connection from either end.
func (c *conn) disconnect() {
	if c.gone {
		return
	}
	c.gone = true
	c.s.forget(c)
	c.in, c.out, c.partial = nil, nil, nil
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.signal()
}

// SetDeadline is net.Conn's.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline is net.Conn's.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	c.signal()
	return nil
}

// SetWriteDeadline is net.Conn's; a write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type addr struct{}

func (addr) Network() string { return "memjs" }
func (addr) String() string  { return "memjs" }

// LocalAddr is net.Conn's.
func (c *conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr is net.Conn's.
func (c *conn) RemoteAddr() net.Addr { return addr{} }

package attack_test

import (
	"io"
	"net"
	"spool/internal/must"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between one client and its server, and can take answers away.
type proxy struct {
	addr, to string
	mute     atomic.Bool // what the server says is dropped
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

// newProxy listens until the test ends.
func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{addr: l.Addr().String(), to: to, conns: map[net.Conn]struct{}{}}
	t.Cleanup(func() { _ = l.Close(); p.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	go func() { _, _ = io.Copy(server, client); _ = server.Close(); _ = client.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 && !p.mute.Load() {
			if _, e := client.Write(buf[:n]); e != nil {
				err = e
			}
		} else if n > 0 {
			continue // a connection that lost a part of an answer is cut before anything else gets through
		}
		if err != nil {
			break
		}
	}
	_, _ = client.Close(), server.Close()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// cut closes all connections. What a client has sent may arrive nevertheless.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// loseAnswers lets requests through and drops all answers for a while; then it cuts the connections.
func (p *proxy) loseAnswers(d time.Duration) {
	p.mute.Store(true)
	time.Sleep(d) // how long the fault lasts
	p.cut()
	p.mute.Store(false)
}

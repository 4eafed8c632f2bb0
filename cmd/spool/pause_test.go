package main

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/internal/service"
)

// stillness is a way to a server that takes nothing to it behind some requests, until somebody says that he waits.
type stillness struct {
	net.Listener
	to string

	mu       sync.Mutex
	requests int
	said     bytes.Buffer
	told     chan struct{} // closed when he has said so
}

// Write takes what is said.
func (s *stillness) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.waits()
	s.said.Write(b)
	if !before && s.waits() {
		close(s.told)
	}
	return len(b), nil
}

func (s *stillness) waits() bool { return strings.Contains(s.said.String(), "waiting for an answer") }

func (s *stillness) serve() {
	for {
		near, err := s.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", s.to)
		if err != nil {
			near.Close()
			continue
		}
		go func() { _, _ = io.Copy(near, far); near.Close() }()
		go func() { _, _ = io.Copy(far, &requests{s, near}); far.Close() }()
	}
}

// requests are what goes to the server.
type requests struct {
	s *stillness
	io.Reader
}

func (r *requests) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.s.mu.Lock()
	r.s.requests += bytes.Count(b[:n], []byte("$JS.API."))
	still := r.s.requests > 3
	r.s.mu.Unlock()
	if still {
		<-r.s.told
	}
	return n, err
}

// Who reads all that is stored waits for a server that answers nothing for longer than a request may take, says so, and comes to an end.
func TestLongCommandsWaitForTheServer(t *testing.T) {
	server, _ := plain(t)
	for _, args := range [][]string{
		{"fsck"}, {"fsck", "--events"}, {"backup", "create", filepath.Join(t.TempDir(), "b")}, {"gc", "run"}, {"scrub", "--once"},
		{"export", "--all", filepath.Join(t.TempDir(), "e")},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			s := &stillness{Listener: must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), told: make(chan struct{})}
			s.to = strings.TrimPrefix(server.ClientURL(), "nats://")
			t.Cleanup(func() { s.Close() })
			go s.serve()
			code := run(append(args, "--nats", "nats://"+s.Addr().String(), "--timeout", "500ms"), strings.NewReader(""), io.Discard, s)
			if code != service.ExitOK || !s.waits() {
				t.Errorf("spool %v = %d, want that it says that it waits, and ends well:\n%s", args, code, &s.said)
			}
		})
	}
}

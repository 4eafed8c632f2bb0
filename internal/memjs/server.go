package memjs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"spool/internal/mapped"
)

// Config of a server. The zero value is one that runs by itself and loses nothing.
type Config struct {
	MaxPayload int    // bytes; 0 = 1 MiB
	Manual     bool   // nothing happens but by Do
	Layout     Layout // what there is from the start; the zero value: nothing
	MaxStore   int64  // what the account may store, as AccountInfo tells it; 0 = no limit. It is not enforced

	// Stale, if set, is asked before a read that a cluster may answer from a copy that is behind: how many of the
	// stream's last operations that copy does not know, at most r.Operations(). It must not call the server.
	Stale func(r Read) int
	// Stored, if set, is told of every message that a stream stores, also of those that it will lose or remove. It must not
	// call the server.
	Stored func(stream string, m Msg)
}

// Read is what Config.Stale decides about.
type Read struct {
	Kind   string // "direct" (any copy answers), "get" or "info" (who believes to lead answers)
	Stream string
	of     *stream
}

// Operations is how many are remembered, the last ones of the stream.
func (r Read) Operations() int { return r.of.operations() }

// Msg is a stored message.
type Msg struct {
	Seq     uint64
	Subject string
	hdr     []byte
	Data    []byte
	Time    time.Time
}

// Header is the first value of a key in the message's header.
func (m Msg) Header(key string) string { return header(m.hdr, key) }

// Server is safe for concurrent use.
type Server struct {
	cfg Config

	mu        sync.Mutex
	id        string
	starts    int
	down      bool
	now       time.Time     // of the command or timer that is executed
	ahead     time.Duration // SetClock
	ops       uint64        // that were
	given     uint64        // messages that clients got
	conns     []*conn       // in the order of their numbers
	lastConn  uint64
	processes map[string]bool // those that are frozen
	subs      subscriptions
	streams   []*stream // by name
	consumers int       // that were ever made: numbers their names
	pins      int
	dirty     []*consumer // that have something to look at once the command is done
	mute      string      // a reply subject to which nothing is sent now: Fault DropAnswer
	timers    timers
	alarm     *time.Timer
	alarmAt   time.Time
	batches   [2]int        // atomic and fast ones that are open
	arrived   chan struct{} // holds one token when something came for the driver
	ready     []Action      // what Ready returned last
}

// New makes a server that has no streams.
func New(cfg Config) *Server {
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, 1<<20)
	s := &Server{
		cfg: cfg, processes: map[string]bool{}, subs: subscriptions{literal: map[string][]*subscription{}},
		arrived: make(chan struct{}, 1),
	}
	s.nameServer()
	s.begin(cfg.Layout)
	return s
}

// SetClock makes the times wrong that messages and answers about streams get: so much ahead of the real time.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

func (s *Server) stamp() time.Time { return s.now.Add(s.ahead) }

func (s *Server) nameServer() {
	s.starts++
	s.id = fmt.Sprintf("NMEMJS%050d", s.starts)
}

const serverName = "memjs"

// ErrDown: the server takes no connections now.
var ErrDown = errors.New("memjs: server is down")

type process struct {
	s    *Server
	name string
}

func (p process) InProcessConn() (net.Conn, error) { return p.s.connect(p.name) }

// Process provides connections that belong to a process.
func (s *Server) Process(name string) nats.InProcessConnProvider { return process{s, name} }

// InProcessConn makes a connection of process "".
func (s *Server) InProcessConn() (net.Conn, error) { return s.connect("") }

// ID is the server's id: another one after each Crash.
func (s *Server) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *Server) connect(process string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.processes[process] { // one that stands still connects to nothing
		return nil, ErrDown
	}
	s.lastConn++
	c := newConn(s, process, s.lastConn)
	info, err := json.Marshal(server.Info{
		ID: s.id, Name: serverName, Version: server.VERSION, Proto: 1, Host: "memjs", Headers: true, JetStream: true,
		MaxPayload: int32(s.cfg.MaxPayload), CID: c.n, JSApiLevel: server.JSApiLevel,
	})
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, c)
	c.receive("INFO " + string(info) + "\r\n")
	return c, nil
}

// SetDown says whether the server takes connections. Taking it down breaks those that stand; its state stays.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	if down {
		s.cutAll(func(*conn) bool { return true })
	}
}

// Close breaks every connection and ends the alarm. Nothing is served any more.
func (s *Server) Close() {
	s.SetDown(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers = nil
	if s.alarm != nil {
		s.alarm.Stop()
	}
}

// Cut breaks every connection of a process. Its commands that were not executed are lost.
func (s *Server) Cut(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAll(func(c *conn) bool { return c.process == process })
}

func (s *Server) cutAll(of func(*conn) bool) {
	for _, c := range slices.Clone(s.conns) {
		if of(c) {
			c.disconnect()
		}
	}
	s.settle()
}

// Freeze stops a process, as SIGSTOP does: nothing of it is taken and nothing handed to it. Its connections stay.
func (s *Server) Freeze(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[process] = true
}

// Thaw undoes Freeze.
func (s *Server) Thaw(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, process)
	if s.cfg.Manual {
		s.notify()
		return
	}
	for _, c := range slices.Clone(s.conns) {
		if c.process == process {
			c.drain()
		}
	}
	s.settle()
}

// Messages are the messages of a stream, in order; nil when there is no such stream. Their bytes must not be changed.
func (s *Server) Messages(stream string) []Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(stream)
	if st == nil {
		return nil
	}
	out := make([]Msg, 0, st.count)
	for _, m := range st.msgs {
		if m != nil {
			out = append(out, m.shown())
		}
	}
	return out
}

// Streams are the names of the streams, in order.
func (s *Server) Streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := mapped.List(s.streams, func(st *stream) string { return st.cfg.Name })
	return names
}

func (s *Server) stream(name string) *stream {
	i, ok := slices.BinarySearchFunc(s.streams, name, func(st *stream,
		name string) int {
		return compare(st.cfg.Name, name)
	})
	if !ok {
		return nil
	}
	return s.streams[i]
}

// settle ends a command: consumers that were told of something deliver, and the alarm is set.
func (s *Server) settle() {
	for len(s.dirty) > 0 {
		o := s.dirty[0]
		s.dirty = s.dirty[1:]
		o.signalled = false
		o.gather()
	}
	s.setAlarm()
}

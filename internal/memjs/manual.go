package memjs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Kind is what an Action does.
type Kind int

// The kinds, in the order in which Ready lists them for one connection.
const (
	In    Kind = iota // the server takes the connection's next command
	Out               // the connection is handed the next message that the server has for it
	Timer             // a timer fires that is due
)

func (k Kind) String() string { return [...]string{"in", "out", "timer"}[k] }

// Action is something that can happen next. It is comparable: the same one is ready until it is done, or its
// connection breaks.
type Action struct {
	Process string
	Kind    Kind
	Conn    uint64 // number of the connection, 0 for a timer
	N       uint64 // tells the commands and messages of a connection, and timers, apart

	Verb    string // of a command: PUB, SUB, UNSUB, PING; of a message: MSG; of a timer: what it is about
	Subject string
	Stream  string // that a publish or request is for, if it is for one
}

func (a Action) String() string {
	return strings.TrimRight(fmt.Sprintf("%s/%d %s %s %s %s", a.Process, a.Conn, a.Kind, a.Verb, a.Subject,
		a.Stream), " ")
}

// Ready lists what can happen next: by process and connection, of each the next command and the next message, then
// the timers that are due, the earliest first. What belongs to a frozen process cannot happen. The list is the caller's until
// the next call.
func (s *Server) Ready() []Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now()
	var room [16]*conn
	conns := room[:0]
	for _, c := range s.conns {
		if len(c.in)+len(c.out) > 0 && !s.processes[c.process] {
			conns = append(conns, c)
		}
	}
	if len(conns) > 1 {
		slices.SortStableFunc(conns, func(a, b *conn) int {
			return cmp.Or(strings.Compare(a.process, b.process), cmp.Compare(a.n, b.n))
		})
	}
	ready := s.ready[:0]
	for _, c := range conns {
		if len(c.in) > 0 {
			cmd := c.in[0]
			if cmd.stream == "" { // asked for in each step that it waits
				cmd.stream = s.streamFor(cmd)
			}
			ready = append(ready, Action{c.process, In, c.n, cmd.n, cmd.verb, cmd.subject, cmd.stream})
		}
		if len(c.out) > 0 {
			ready = append(ready, Action{Process: c.process, Kind: Out, Conn: c.n, N: c.out[0].n, Verb: "MSG",
				Subject: c.out[0].subject})
		}
	}
	if s.cfg.Manual {
		ready = append(ready, s.dueTimers()...)
	}
	s.ready = ready
	return ready
}

func (s *Server) notify() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// Rest lets time pass until something came for the driver or a timer of the server is due, or for as long as it says.
func (s *Server) Rest(most time.Duration) {
	if at, ok := s.NextTimer(); ok {
		most = min(most, time.Until(at))
	}
	if most <= 0 {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-s.arrived:
	case <-timer.C:
	}
}

func (s *Server) dueTimers() (ready []Action) {
	for _, t := range s.timersDue() {
		ready = append(ready, Action{Kind: Timer, N: uint64(t.at.UnixNano()), Verb: t.what, Stream: t.stream})
	}
	return ready
}

func (s *Server) timersDue() (due []*timer) {
	if len(s.timers) == 0 || s.timers[0].at.After(s.now) {
		return nil
	}
	for _, t := range s.timers {
		if !t.at.After(s.now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *timer) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.stream, b.stream), cmp.Compare(a.what, b.what))
	})
	return due
}

// streamFor is the stream that a command is for; "" = none.
func (s *Server) streamFor(cmd *command) string {
	if cmd.verb != "PUB" {
		return ""
	}
	if rest, ok := strings.CutPrefix(cmd.subject, "$JS.ACK."); ok {
		name, _, _ := strings.Cut(rest, ".")
		return name
	}
	if rest, ok := strings.CutPrefix(cmd.subject, "$JS.API."); ok {
		for _, call := range apiCalls {
			if args, ok := strings.CutPrefix(rest, call.name+"."); ok {
				name, _, _ := strings.Cut(args, ".")
				return name
			}
		}
		return ""
	}
	for _, st := range s.streams {
		if st.takes(cmd.subject) {
			return st.cfg.Name
		}
	}
	return ""
}

// Failure is how an action fails.
type Failure int

// The failures. Of a message that is handed out DropRequest and DropAnswer both lose it, and the cuts break the
// connection before or after it; Refuse says nothing there. A timer does not fail.
const (
	None         Failure = iota
	Refuse               // a publish or request is not executed, and answered with an error; with Code 0 with nothing
	NoResponders         // it is not executed, and answered as if nobody listened
	DropRequest          // the command is lost
	DropAnswer           // it is executed; what it would be answered is lost
	CutBefore            // the connection breaks before it is executed
	CutAfter             // the connection breaks once it is executed, before anything more is handed out
)

// Fault makes an action fail. The zero value does not.
type Fault struct {
	Failure Failure
	Code    int    // of Refuse: as HTTP has them; 0 = no answer
	ErrCode int    // and JetStream's own
	Text    string // and what it says
}

// Busy is the refusal of a server that cannot do it now.
var Busy = Fault{Failure: Refuse, Code: 503, ErrCode: 10008, Text: "JetStream system temporarily unavailable"}

// Do makes an action happen, or fail. It reports whether the action was ready.
func (s *Server) Do(a Action, f Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now()
	if a.Kind == Timer {
		return s.fireTimer(a)
	}
	i := slices.IndexFunc(s.conns, func(c *conn) bool { return c.n == a.Conn })
	if i < 0 || s.processes[a.Process] {
		return false
	}
	c := s.conns[i]
	switch {
	case a.Kind == In && len(c.in) > 0 && c.in[0].n == a.N:
		cmd := c.in[0]
		c.in = c.in[1:]
		s.doIn(c, cmd, f)
	case a.Kind == Out && len(c.out) > 0 && c.out[0].n == a.N:
		o := c.out[0]
		c.out = c.out[1:]
		if f.Failure == CutBefore {
			c.disconnect()
			break
		}
		if f.Failure != DropRequest && f.Failure != DropAnswer {
			c.receiveBytes(o.bytes)
		}
		if f.Failure == CutAfter {
			c.disconnect()
		}
	default:
		return false
	}
	s.settle()
	return true
}

func (s *Server) doIn(c *conn, cmd *command, f Fault) {
	switch f.Failure {
	case DropRequest:
	case CutBefore:
		c.disconnect()
	case Refuse:
		s.refuse(cmd, f)
	case NoResponders:
		if cmd.reply != "" {
			s.answer(cmd.reply, noResponders, nil)
		}
	case DropAnswer:
		s.mute = cmd.reply
		s.execute(c, cmd)
		s.mute = ""
	case CutAfter:
		s.execute(c, cmd)
		c.disconnect()
	default:
		s.execute(c, cmd)
	}
}

// refuse answers a publish or request with an error, in the form that its kind has.
func (s *Server) refuse(cmd *command, f Fault) {
	if cmd.reply == "" || f.Code == 0 {
		return
	}
	err := &server.ApiError{Code: f.Code, ErrCode: uint16(f.ErrCode), Description: f.Text}
	switch {
	case strings.HasPrefix(cmd.subject, "$JS.API.DIRECT."), strings.HasPrefix(cmd.subject,
		"$JS.API.CONSUMER.MSG.NEXT."):
		s.answer(cmd.reply, fmt.Appendf(nil, "NATS/1.0 %d %s\r\n\r\n", f.Code, f.Text), nil)
	case strings.HasPrefix(cmd.subject, "$JS.API."):
		s.answer(cmd.reply, nil, mustJSON(server.ApiResponse{Type: server.JSApiSystemResponseType, Error: err}))
	default:
		ack, _ := json.Marshal(server.JSPubAckResponse{PubAck: &server.PubAck{Stream: s.streamFor(cmd)}, Error: err})
		s.answer(cmd.reply, nil, ack)
	}
}

func (s *Server) fireTimer(a Action) bool {
	for _, t := range s.timersDue() {
		if uint64(t.at.UnixNano()) == a.N && t.what == a.Verb && t.stream == a.Stream {
			s.ops++
			s.stopTimer(t)
			t.fire()
			s.settle()
			return true
		}
	}
	return false
}

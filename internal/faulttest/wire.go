package faulttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Mode is what happens to a message on its way to the server.
type Mode string

// The modes. A message that is refused never gets there and its sender is told so; one that is dropped does not get there either, and
// one whose answer is lost does, and their senders are told nothing. A sender
// dies right before a message or right behind it: nothing that it sends later gets there, and no answer reaches it.
const (
	Refuse    Mode = "refused"
	Drop      Mode = "dropped"
	Lose      Mode = "answer lost"
	DieBefore Mode = "dies before"
	DieAfter  Mode = "dies after"
)

// survived reports whether the sender lives on. Then it is the K-th message with an answer of its own that meets the fault.
func (m Mode) survived() bool { return m == Refuse || m == Drop || m == Lose }

// Fault is one fault: it befalls the K-th message, from 1, of a class.
type Fault struct {
	Mode  Mode
	Class string // see Class; Any counts all that is sent, reading too, and Reads what reads messages of a stream
	K     int
	Every bool // and every K-th after it
}

// Any is the class of everything that is sent.
const Any = "anything"

// Reads is the class of what asks a stream for a message by its subject or its place: records, chunks, events.
const Reads = "reads"

func (f Fault) String() string { return fmt.Sprintf("%s %s %d", f.Mode, f.Class, f.K) }

// ErrDead is what a connection gets that comes from a process that died.
var ErrDead = errors.New("the process is dead")

// Wire stands between a natsio.Conn and its server: it counts what is sent, by class, and lets a fault happen. Everything that
// comes through one Wire is one process.
type Wire struct {
	server nats.InProcessConnProvider
	fault  Fault

	mu     sync.Mutex
	dead   bool
	done   bool
	fired  chan struct{}
	counts map[string]int // messages by class
	answer map[string]int // those of them that have an answer of their own
	order  []string       // classes as they first came
	taps   []*tap
}

// NewWire makes a process that meets a fault; the zero Fault is none. Give it to natsio.Config as InProcess.
func NewWire(server nats.InProcessConnProvider, f Fault) *Wire {
	return &Wire{server: server, fault: f, fired: make(chan struct{}), counts: map[string]int{}, answer: map[string]int{}}
}

// Fired is closed when the fault has happened.
func (w *Wire) Fired() <-chan struct{} { return w.fired }

// Sent is how many messages of each class were sent, and how many of them the server answers one by one.
func (w *Wire) Sent() (classes []string, sent, answered map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.order...), maps.Clone(w.counts), maps.Clone(w.answer)
}

// Kill ends the process now.
func (w *Wire) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kill()
}

func (w *Wire) kill() {
	w.dead = true
	for _, t := range w.taps {
		t.close()
	}
}

// InProcessConn connects to the server.
func (w *Wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, ErrDead
	}
	up, err := w.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	t := &tap{w: w, up: up, down: far, sids: map[string]string{}, mute: map[string]bool{}}
	t.filled = sync.NewCond(&t.mu)
	w.taps = append(w.taps, t)
	go t.drain()
	go t.forward()
	go t.backward()
	return near, nil
}

// Class names what a message does, by its subject; "" for what changes nothing that others see: reading, asking, heartbeats.
func Class(subject string) string {
	tokens := strings.Split(subject, ".")
	at := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	switch {
	case at(0) == "$KV": // $KV.<bucket>.<class>.…
		return "record " + at(2)
	case at(0) == "$O": // $O.<bucket>.C|M.…
		return map[string]string{"C": "chunk ", "M": "meta "}[at(2)] + strings.TrimPrefix(at(1), "spool_")
	case at(0) == "$JS" && at(1) == "ACK":
		return "ack"
	case at(0) == "$JS" && at(1) == "API" && (at(3) == "PURGE" || at(3) == "CREATE" || at(3) == "UPDATE" ||
		at(4) == "DELETE" || at(3) == "DELETE"):
		if at(2) == "CONSUMER" {
			return ""
		}
		if at(4) == "DELETE" {
			return "delete " + short(at(5))
		}
		return strings.ToLower(at(3)) + " " + short(at(4))
	case at(0) == "spool" && at(1) == "v1":
		return at(2)
	}
	return ""
}

// short is a stream without what all streams have in common.
func short(stream string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(stream), "obj_"), "spool_")
}

// verdict is what to do with a message.
func (w *Wire) verdict(subject, reply string) Mode {
	class := Class(subject)
	switch w.fault.Class {
	case Any:
		class = Any
	case Reads:
		if class = ""; strings.Contains(subject, ".STREAM.MSG.GET.") || strings.Contains(subject, ".DIRECT.GET.") {
			class = Reads
		}
	}
	if class == "" {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[class] == 0 {
		w.order = append(w.order, class)
	}
	w.counts[class]++
	n := w.counts[class]
	if answered(reply) {
		w.answer[class]++
		if w.fault.Mode.survived() {
			n = w.answer[class]
		}
	} else if w.fault.Mode.survived() {
		return ""
	}
	meets := !w.done && n == w.fault.K || w.done && w.fault.Every && n%w.fault.K == 0
	if class != w.fault.Class || !meets {
		return ""
	}
	if !w.done {
		w.done = true
		close(w.fired)
	}
	return w.fault.Mode
}

// answered reports whether a message has an answer of its own: those of a batch that do not end it have none.
func answered(reply string) bool {
	return reply != "" && (!strings.HasSuffix(reply, ".$FI") || strings.HasSuffix(reply, ".2.$FI"))
}

// tap is one connection.
type tap struct {
	w        *Wire
	up, down net.Conn
	once     sync.Once

	mu     sync.Mutex
	sids   map[string]string
	mute   map[string]bool // subjects whose next message is dropped on its way back
	queue  []byte          // on its way to the client, who may be writing and not read meanwhile
	filled *sync.Cond
	closed bool
}

func (t *tap) close() {
	t.once.Do(func() {
		_ = t.up.Close()
		_ = t.down.Close()
		go func() { // who closes may hold the lock
			t.mu.Lock()
			defer t.mu.Unlock()
			t.closed = true
			t.filled.Broadcast()
		}()
	})
}

// drain writes what is queued to the client.
func (t *tap) drain() {
	defer t.close()
	for {
		t.mu.Lock()
		for len(t.queue) == 0 && !t.closed {
			t.filled.Wait()
		}
		out := t.queue
		t.queue = nil
		closed := t.closed
		t.mu.Unlock()
		if closed {
			return
		}
		if _, err := t.down.Write(out); err != nil {
			return
		}
	}
}

// forward passes on what the client sends.
func (t *tap) forward() {
	defer t.close()
	p := parser{from: t.down}
	for {
		op, err := p.next()
		if err != nil {
			return
		}
		mode := Mode("")
		switch op.verb {
		case "SUB":
			t.mu.Lock()
			t.sids[op.args[0]] = op.args[len(op.args)-1]
			t.mu.Unlock()
		case "PUB", "HPUB":
			subject, reply := op.published()
			if mode = t.w.verdict(subject, reply); mode == Lose {
				t.mu.Lock()
				t.mute[reply] = true
				t.mu.Unlock()
			}
			if mode == Refuse {
				t.refuse(reply)
			}
			if mode == Refuse || mode == Drop {
				continue
			}
		}
		if mode == DieBefore {
			t.w.Kill()
			return
		}
		if _, err := t.up.Write(op.raw); err != nil {
			return
		}
		if mode == DieAfter {
			t.w.Kill()
			return
		}
	}
}

// refuse answers in the server's place, as it does when nobody listens: 503.
func (t *tap) refuse(reply string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const header = "NATS/1.0 503\r\n\r\n"
	for pattern, sid := range t.sids {
		if matches(pattern, reply) {
			t.queue = fmt.Appendf(t.queue, "HMSG %s %s %d %d\r\n%s\r\n", reply, sid, len(header), len(header), header)
			t.filled.Signal()
			return
		}
	}
}

func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		if token == ">" {
			return i < len(s)
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

// backward passes on what the server sends.
func (t *tap) backward() {
	defer t.close()
	p := parser{from: t.up}
	for {
		op, err := p.next()
		if err != nil {
			return
		}
		t.mu.Lock()
		drop := (op.verb == "MSG" || op.verb == "HMSG") && t.mute[op.args[0]]
		if drop {
			delete(t.mute, op.args[0])
		} else {
			t.queue = append(t.queue, op.raw...)
			t.filled.Signal()
		}
		t.mu.Unlock()
	}
}

// parser reads operations of the NATS client protocol, in either direction.
type parser struct {
	from io.Reader
	buf  []byte
	used int
}

// operation is one of them, as it came.
type operation struct {
	verb string
	args []string
	raw  []byte
}

// published is where a PUB or HPUB goes, and where its answer is to go.
func (o operation) published() (subject, reply string) {
	rest := 2 // subject and size
	if o.verb == "HPUB" {
		rest = 3
	}
	if len(o.args) > rest {
		reply = o.args[1]
	}
	return o.args[0], reply
}

func (p *parser) next() (o operation, err error) {
	p.buf, p.used = p.buf[p.used:], 0
	end := -1
	for {
		if end = bytes.Index(p.buf, []byte("\r\n")); end >= 0 {
			break
		}
		if err := p.more(); err != nil {
			return o, err
		}
	}
	o.args = strings.Fields(string(p.buf[:end]))
	if len(o.args) > 0 {
		o.verb, o.args = strings.ToUpper(o.args[0]), o.args[1:]
	}
	size := end + 2
	switch o.verb {
	case "PUB", "HPUB", "MSG", "HMSG":
		n, err := strconv.Atoi(o.args[len(o.args)-1])
		if err != nil {
			return o, fmt.Errorf("NATS operation %q: %w", p.buf[:end], err)
		}
		size += n + 2
	}
	for len(p.buf) < size {
		if err := p.more(); err != nil {
			return o, err
		}
	}
	o.raw, p.used = p.buf[:size], size
	return o, nil
}

func (p *parser) more() error {
	chunk := make([]byte, 64<<10)
	n, err := p.from.Read(chunk)
	p.buf = append(p.buf, chunk[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

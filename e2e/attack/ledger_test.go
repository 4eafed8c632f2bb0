package attack_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"spool/pkg/events"
)

// name identifies an event for ever.
type name struct {
	thread     events.Thread
	producer   string
	epoch, seq uint64
}

// entry is what the ledger knows of one entry. Its body holds its id, and no other body does.
type entry struct {
	id    string
	name  name
	body  []byte
	acked atomic.Bool
}

// ids finds the id of an entry in anything that holds its body.
var ids = regexp.MustCompile(`e\d+~`)

func idIn(b []byte) string { return string(ids.Find(b)) }

// ledger is what clients have tried and what was acked, kept in a file as it happens.
type ledger struct {
	mu      sync.Mutex
	file    *os.File
	next    int
	byID    map[string]*entry
	byName  map[name]*entry
	outputs []*output
	files   []*artifact
	prompts []*prompt
	ended   map[events.Thread]bool // threads of which a client was told that they take nothing more
	closed  map[events.Thread]bool // threads that somebody asked to end or to be renamed
	acks    atomic.Int64
}

// output is a tool's output that was streamed into a thread.
type output struct {
	thread events.Thread
	id     string
	data   []byte
	acked  bool // all of it, and its end
}

// artifact is what a client put, and was told the id of.
type artifact struct {
	id   string
	data []byte
}

// prompt is a question, and who was told that his answer counts.
type prompt struct {
	thread events.Thread
	id     string
	mu     sync.Mutex
	won    []string
}

func newLedger(path string) (*ledger, error) {
	f, err := os.Create(path)
	l := &ledger{file: f, byID: map[string]*entry{}, byName: map[name]*entry{}}
	l.ended, l.closed = map[events.Thread]bool{}, map[events.Thread]bool{}
	return l, err
}

// note writes a line to the file; l.mu must be held.
func (l *ledger) note(what string, fields ...any) {
	line := []any{time.Now().Format("15:04:05.000"), what}
	b, _ := json.Marshal(append(line, fields...))
	_, _ = l.file.Write(append(b, '\n'))
}

// say notes something that is neither a try nor an ack.
func (l *ledger) say(what string, fields ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(what, fields...)
}

// try makes an entry of the dialect item and notes it before it is published.
func (l *ledger) try(n name, padding int) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.add(fmt.Sprintf("e%d~", l.next), n, padding)
}

func (l *ledger) add(id string, n name, padding int) *entry {
	e := &entry{id: id, name: n, body: bodyOf(id, padding)}
	l.byID[id], l.byName[n] = e, e
	l.note("try", id, n.thread.String(), n.producer, n.epoch, n.seq, len(e.body))
	return e
}

func bodyOf(id string, padding int) []byte {
	pad := make([]byte, padding)
	for i := range pad {
		pad[i] = "abcdefghijklmnopqrstuvwxyz "[(i*7+len(id)*i/11)%27]
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s %s"}]}`, id, pad)
}

// ack notes that entries were acknowledged.
func (l *ledger) ack(es ...*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range es {
		if !e.acked.Swap(true) {
			l.acks.Add(1)
			l.note("ack", e.id)
		}
	}
}

// end notes that a thread takes nothing more.
func (l *ledger) end(t events.Thread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[t] = true
	l.note("ended", t.String())
}

// ask notes that a thread is asked to do something.
func (l *ledger) ask(t events.Thread, who string, op events.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[t] = l.closed[t] || op == events.OpEnd || op == events.OpRename
	l.note("op", t.String(), who, string(op))
}

// stored is a message of SPOOL_EVENTS as far as the judge needs it.
type stored struct {
	at     uint64
	thread events.Thread
	each   []one
	sum    [sha256.Size]byte // of the message
}

// one is an event in a message.
type one struct {
	name name
	op   *events.Control // nil: no operation
}

// tail is all that SPOOL_EVENTS ever held, read while it grows: gc and deletions drop what was dealt with.
type tail struct {
	nc   *nats.Conn
	next uint64
	all  []stored
	err  error // what no reading may meet
}

// raw is a message as the server gives it.
type raw struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Hdrs    []byte `json:"hdrs"`
	Data    []byte `json:"data"`
}

// nextMessage gives the first message of a stream from a sequence on; nil if there is none.
func nextMessage(ctx context.Context, nc *nats.Conn, stream string, from uint64) (*raw, error) {
	ask := []byte(`{"next_by_subj":">","seq":` + strconv.FormatUint(from, 10) + `}`)
	some, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	answer, err := nc.RequestWithContext(some, "$JS.API.STREAM.MSG.GET."+stream, ask)
	if err != nil {
		return nil, err
	}
	var got struct {
		Message *raw `json:"message"`
		Error   *struct {
			ErrCode int    `json:"err_code"`
			Text    string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, err
	}
	if got.Error != nil && got.Error.ErrCode != 10037 {
		return nil, fmt.Errorf("%s: %s", stream, got.Error.Text)
	}
	return got.Message, nil
}

// follow reads until ctx ends; quiet ends it at the first moment at which nothing is left.
func (t *tail) follow(ctx context.Context, quiet bool) {
	for ctx.Err() == nil {
		m, err := nextMessage(ctx, t.nc, events.EventsStream, t.next)
		switch {
		case err == nil && m != nil:
			t.take(m)
			continue
		case err == nil && quiet:
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (t *tail) take(m *raw) {
	t.next = m.Seq + 1
	s := stored{at: m.Seq, sum: sha256.Sum256(m.Data)}
	e, err := events.Open(m.Subject, m.Data)
	if err != nil {
		t.err = fmt.Errorf("event %d of %s: %w", m.Seq, m.Subject, err)
		return
	}
	s.thread = e.Thread
	for _, ev := range e.Each() {
		o := one{name: name{ev.Thread, ev.Producer, ev.Epoch, ev.Seq}}
		if ev.Kind == events.KindControl {
			if op, err := events.ParseControl(ev.Body); err == nil {
				o.op = &op
			}
		}
		s.each = append(s.each, o)
	}
	t.all = append(t.all, s)
}

// places says where each event is stored, in order.
func (t *tail) places() map[name][]uint64 {
	at := map[name][]uint64{}
	for _, s := range t.all {
		for _, o := range s.each {
			if !slices.Contains(at[o.name], s.at) {
				at[o.name] = append(at[o.name], s.at)
			}
		}
	}
	return at
}

// letter is a dead letter.
type letter struct {
	event  uint64
	seq    uint64 // of the producer, where the letter is of a part of a message
	reason string
	data   []byte
}

func letters(ctx context.Context, nc *nats.Conn) (all []letter, err error) {
	for from := uint64(1); ; {
		m, err := nextMessage(ctx, nc, events.DeadStream, from)
		if err != nil || m == nil {
			return all, err
		}
		from = m.Seq + 1
		h, err := nats.DecodeHeadersMsg(m.Hdrs)
		if err != nil {
			return nil, err
		}
		at, err := strconv.ParseUint(h.Get("Spool-Event-Seq"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("letter %d: %w", m.Seq, err)
		}
		d := letter{event: at, reason: h.Get("Spool-Reason"), data: m.Data}
		if e, err := events.Decode(m.Data); err == nil {
			d.seq = e.Seq
		}
		all = append(all, d)
	}
}

package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pull asks a consumer for messages, again and again, and gives what comes. What is stored has a subject for its ack, and what the server
// says about the requests has none. nats.go's own pulls go by the headers, which whoever publishes writes: what looks there like the
// server's word they pass to nobody, and do as it says. Here it is a message like any other, and so is one with headers that nats.go cannot
// read, which has none.
//
// One goroutine uses it; stop and drain are for any.
type pull struct {
	c     *Conn
	pulls pulls
	next  string // where the consumer is asked
	inbox string

	sub  *nats.Subscription
	came chan *nats.Msg
	// closed is closed when nothing comes any more; stopped before that, when nothing is wanted any more. ctx ends when the server refuses
	// to be asked.
	closed    signal
	stopped   signal
	draining  atomic.Bool
	ctx       context.Context //nolint:containedctx // of the requests, while there are any
	done      func()
	connected chan nats.Status
	silence   *time.Timer

	pin   string // of the consumer's group that we were given
	blind bool   // we were given one with a message whose headers cannot be read
	left  int    // messages that may come of what was asked for
	large bool   // the next message is larger than what is asked for
	link  uint64 // over which it was
}

// pulls says what is asked for at a time. The zero values are those of nats.go.
type pulls struct {
	messages, bytes int
	expiry, beat    time.Duration
	group           string
}

// Ends of a pull that nats.go has no names for.
var (
	errPullEnded = errors.New("nothing is pulled any more")
	errOverNew   = errors.New("the connection was made again")
	errNoPin     = errors.New("the server gave a pin that cannot be read: it gives to nobody else while it lasts")
)

// statusRoom is for what the server says beside the messages that were asked for.
const statusRoom = 64

func (c *Conn) pullOf(stream, consumer string, of pulls) (*pull, error) {
	if of.messages == 0 {
		of.messages = 500
	}
	if of.expiry == 0 {
		of.expiry = 30 * time.Second
	}
	if of.beat == 0 {
		of.beat = of.expiry / 2
	}
	request := "CONSUMER.MSG.NEXT." + stream + "." + consumer
	p := &pull{c: c, pulls: of, next: apiSubject(c.js, request), inbox: c.nc.NewInbox(), came: make(chan *nats.Msg, 2*of.messages+statusRoom),
		closed: newSignal(), stopped: newSignal(), link: c.Events().Link()}
	var err error
	p.ctx, p.done, err = c.denied.watchAs(context.Background(), &waiter{lasts: true, sends: func(subject string) bool {
		return asks(subject, []string{request})
	}})
	if err != nil {
		return nil, err
	}
	if p.sub, err = c.nc.ChanSubscribe(p.inbox, p.came); err != nil {
		p.done()
		return nil, err
	}
	p.connected = c.nc.StatusChanged(nats.CONNECTED)
	p.silence = time.NewTimer(2 * of.beat)
	p.sub.SetClosedHandler(func(string) { p.closed.give() })
	p.ask()
	return p, nil
}

// stop ends it at once.
func (p *pull) stop() {
	p.stopped.once.Do(func() {
		close(p.stopped.c)
		p.done()
		p.c.nc.RemoveStatusListener(p.connected)
		_ = p.sub.Unsubscribe()
	})
}

// drain ends it behind what was given.
func (p *pull) drain() {
	p.draining.Store(true)
	_ = p.sub.Drain()
}

// ask asks for more where less than half of what may be on its way is, for half of the bytes: two requests are open, and seldom more. A message
// that is larger than that comes alone. Where nothing is to come any more, what the server has said of other requests is read first.
func (p *pull) ask() {
	n, size := p.pulls.messages-p.left, p.pulls.bytes/2
	if p.draining.Load() || 2*p.left >= p.pulls.messages || p.left == 0 && len(p.came) > 0 {
		return
	}
	switch {
	case p.large:
		n, size, p.large = 1, 0, false
	case size > 0: // a request whose last message takes the last byte ends without a word: publishers do not know which that is
		size -= rand.N(uneven)
	}
	body, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		Bytes   int           `json:"max_bytes,omitempty"`
		Expires time.Duration `json:"expires"`
		Beat    time.Duration `json:"idle_heartbeat"`
		Group   string        `json:"group,omitempty"`
		Pin     string        `json:"id,omitempty"`
	}{n, size, p.pulls.expiry, p.pulls.beat, p.pulls.group, p.pin})
	if err == nil {
		err = p.c.nc.PublishRequest(p.next, p.inbox, body)
	}
	if err != nil { // it is asked again when nothing is heard
		p.c.log.Debug("pull messages", "subject", p.next, "error", err)
	}
	p.left += n
}

// uneven is by how many bytes requests differ.
const uneven = 4096

// forget has what was asked for asked for again.
func (p *pull) forget() { p.left = 0 }

// message waits for the next message; most is for how long: then it is nats.ErrTimeout; 0: as long as it takes. The errors behind which
// another message may come: jetstream.ErrNoHeartbeat, when the server is not heard any more; errOverNew; and what the server says.
func (p *pull) message(most time.Duration) (message, error) {
	var late <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		late = t.C
	}
	p.silence.Reset(2 * p.pulls.beat)
	defer p.silence.Stop()
	for {
		p.ask()
		select {
		case m := <-p.came:
			p.silence.Reset(2 * p.pulls.beat)
			if got, err := p.take(m); got.m != nil || err != nil {
				return got, err
			}
		case <-p.stopped.c:
			return message{}, errPullEnded
		case <-p.closed.c:
			select {
			case m := <-p.came:
				if got, err := p.take(m); got.m != nil || err != nil {
					return got, err
				}
			default:
				p.stop()
				return message{}, errPullEnded
			}
		case <-p.ctx.Done():
			return message{}, outcome(p.ctx, errPullEnded)
		case <-p.connected:
			if link := p.c.Events().Link(); link != p.link {
				p.link = link
				p.forget()
				return message{}, errOverNew
			}
		case <-p.silence.C:
			if p.silence.Reset(2 * p.pulls.beat); len(p.came) == 0 && p.c.Connected() {
				p.forget()
				return message{}, jetstream.ErrNoHeartbeat
			}
			if p.c.nc.IsClosed() {
				return message{}, errPullEnded
			}
		case <-late:
			return message{}, nats.ErrTimeout
		}
	}
}

// take is a message, or what the server says, or neither.
func (p *pull) take(m *nats.Msg) (message, error) {
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		meta, err := m.Metadata()
		if err != nil {
			return message{}, err
		}
		p.left = max(0, p.left-1)
		got := message{m: m, meta: jetstream.MsgMetadata{
			Sequence:     jetstream.SequencePair{Consumer: meta.Sequence.Consumer, Stream: meta.Sequence.Stream},
			NumDelivered: meta.NumDelivered, NumPending: meta.NumPending, Timestamp: meta.Timestamp,
			Stream: meta.Stream, Consumer: meta.Consumer, Domain: meta.Domain,
		}}
		if pin := pinOf(got); pin != "" && p.pulls.group != "" {
			p.pin = pin
		}
		p.blind = p.pin == "" && p.pulls.group != ""
		return got, nil
	}
	status, what := m.Header.Get("Status"), strings.ToLower(m.Header.Get("Description"))
	is := func(s string) bool { return strings.Contains(what, s) }
	switch {
	case status == "100", status == "404":
		return message{}, nil
	case status == "408", status == "423", is("batch completed"), is("message size exceeds maxbytes"):
		n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		size, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Bytes"))
		if p.left = max(0, p.left-n); err != nil {
			p.forget()
		}
		p.large = p.large || is("exceeds") && 2*(size+uneven) > p.pulls.bytes
		if status == "423" {
			p.pin = ""
		}
		if p.blind {
			p.blind = false
			return message{}, errNoPin
		}
		return message{}, nil
	case is("leadership change"):
		p.forget()
		return message{}, nil
	case status == "503":
		return message{}, nats.ErrNoResponders // asked again when nothing is heard
	case is("consumer deleted"):
		return message{}, jetstream.ErrConsumerDeleted
	case status == "400":
		return message{}, fmt.Errorf("%w: %s", jetstream.ErrBadRequest, what)
	}
	return message{}, fmt.Errorf("%s: the server says %s %q", p.next, status, what)
}

// message is a message of a stream as a consumer gives it. What pull gives has no acks of nats.go.
type message struct {
	jetstream.Msg
	m    *nats.Msg
	meta jetstream.MsgMetadata
}

func (m message) Subject() string                           { return m.m.Subject }
func (m message) Data() []byte                              { return m.m.Data }
func (m message) Headers() nats.Header                      { return m.m.Header }
func (m message) Reply() string                             { return m.m.Reply }
func (m message) Metadata() (*jetstream.MsgMetadata, error) { return &m.meta, nil }

// pinOf is the pin that the server gave with a message. It stands behind one that the message's publisher wrote into the headers.
func pinOf(m jetstream.Msg) string {
	pins := m.Headers()[hdrPinID]
	if len(pins) == 0 {
		return ""
	}
	return pins[len(pins)-1]
}

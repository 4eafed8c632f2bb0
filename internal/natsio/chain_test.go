package natsio_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// cutter connects to a server, and cuts a connection after a number of bytes in one direction.
type cutter struct {
	server nats.InProcessConnProvider

	mu   sync.Mutex
	open *cut
}

type cut struct {
	net.Conn
	mu            sync.Mutex
	reads, writes int // bytes until the cut; negative: none
}

func (c *cutter) InProcessConn() (net.Conn, error) {
	conn, err := c.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = &cut{Conn: conn, reads: -1, writes: -1}
	return c.open, nil
}

// after arms the connection that is open now.
func (c *cutter) after(reads, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.mu.Lock()
	defer c.open.mu.Unlock()
	c.open.reads, c.open.writes = reads, writes
}

func (c *cut) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return c.pass(n, err, &c.reads)
}

func (c *cut) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.writes >= 0 && len(b) > c.writes {
		b = b[:c.writes]
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	return c.pass(n, err, &c.writes)
}

func (c *cut) pass(n int, err error, left *int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *left < 0 {
		return n, err
	}
	if *left -= n; *left <= 0 {
		*left = 0
		return 0, errors.Join(err, c.Close(), net.ErrClosed)
	}
	return n, err
}

// chainOf makes events of two producers in one thread, each a message of its own.
func chainOf(from, n, size int) (evs []*events.Event) {
	for i := from; i < from+n; i++ {
		evs = append(evs, &events.Event{
			Producer: fmt.Sprint("p", i%2), Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "raw", Trace: fmt.Sprint(i),
			Thread: events.Thread{Session: "s", Name: "main"}, Body: []byte(strings.Repeat("x", size)),
		})
	}
	return evs
}

// taken are the events that a thread takes in by the rule of links, from what is stored.
func taken(t *testing.T, c *natsio.Conn) (head threads.Head, n int) {
	t.Helper()
	must.Do(t, natsadmin.New(c).Messages(t.Context(), events.EventsStream, 1, func(seq uint64, subject string, data []byte) error {
		one, err := events.Open(subject, data)
		if err != nil {
			return err
		}
		for _, e := range one.Each() {
			if head.Duplicate(e.Producer, e.Epoch, e.Seq) || e.Prev != 0 && !head.Duplicate(e.Producer, e.Epoch, e.Prev) {
				continue
			}
			head.Saw(e.Producer, e.Epoch, e.Seq, seq)
			n++
		}
		return nil
	}))
	return head, n
}

// Whenever a connection is cut in the middle of a call, and however often the call is tried again: once it returns without an
// error, a thread takes in every event of it.
func TestNoLinkBreaksInACall(t *testing.T) {
	s := natstest.Server(t)
	sound := natstest.Dial(t, s)
	must.Do(t, sound.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	wire := &cutter{server: s}
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: wire, Timeout: 300 * time.Millisecond}))(t)
	defer c.Close()
	const calls, each, size = 12, 30, 200
	failed := 0
	for i := range calls {
		if i%2 == 0 {
			wire.after(-1, rand.IntN(each*(size+200)))
		} else {
			wire.after(rand.IntN(200), -1)
		}
		evs := chainOf(i*each, each, size)
		err := retry.Do(t.Context(), func(error, time.Duration) { failed++ }, func() error { return c.Events().PublishEvents(t.Context(), evs) })
		must.Do(t, err)
		if _, n := taken(t, sound); n != (i+1)*each {
			t.Fatalf("after call %d a thread takes in %d events, want %d", i+1, n, (i+1)*each)
		}
	}
	t.Logf("%d tries failed", failed)
}

// A daemon that starts while its server goes away, at whichever question, waits for it: Ensure fails of nothing that passes.
func TestEnsureOverAWireThatIsCut(t *testing.T) {
	s := natstest.Server(t)
	wire := &cutter{server: s}
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: wire, Timeout: 300 * time.Millisecond}))(t)
	defer c.Close()
	for at := 1; at < 60_000; at += at/3 + rand.IntN(1000) {
		wire.after(at, -1)
		must.Is(t, c.Ensure(t.Context(), natsio.Limits{}), nil, "cut after %d bytes from the server", at)
	}
}

// deaf drops what the server says once it is told to.
type deaf struct {
	net.Conn
	gone chan struct{}
}

func (d *deaf) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		select {
		case <-d.gone:
			if err == nil {
				continue
			}
		default:
		}
		return n, err
	}
}

type deafly struct {
	server nats.InProcessConnProvider
	gone   chan struct{}
}

func (d deafly) InProcessConn() (net.Conn, error) {
	c, err := d.server.InProcessConn()
	return &deaf{c, d.gone}, err
}

// A request whose answer is lost ends, also one to which nats.go sets no end: a persister waited for ever in a deletion.
func TestARequestThatIsNotAnsweredEnds(t *testing.T) {
	wire := deafly{natstest.Server(t), make(chan struct{})}
	c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: wire, Timeout: 300 * time.Millisecond}))(t)
	defer c.Close()
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
	cons := must.Get(c.JetStream().OrderedConsumer(t.Context(), events.ItemsStream, jetstream.OrderedConsumerConfig{}))(t)
	close(wire.gone)
	ended := make(chan error, 1)
	go func() { _, err := cons.Info(t.Context()); ended <- err }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it was answered")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for ever")
	}
}

// A server that refuses a message of a call stores none of those behind it, however the call is sent.
func TestRefusedInACall(t *testing.T) {
	for _, n := range []int{3, 7, 40} { // alone, while the way of sending is tried, and in a batch
		c := natstest.Conn(t)
		stream := must.Get(c.JetStream().Stream(t.Context(), events.EventsStream))(t)
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgSize = 2000
		must.Get(c.JetStream().UpdateStream(t.Context(), cfg))(t)
		evs := chainOf(0, n, 100)
		bad := n / 2
		evs[bad].Body = make([]byte, 4000)
		if err := c.Events().PublishEvents(t.Context(), evs); !errors.Is(err, record.ErrRefused) {
			t.Fatalf("PublishEvents of %d with one that is too large = %v, want ErrRefused", n, err)
		}
		stored := must.Get(stream.Info(t.Context()))(t)
		if got := stored.State.LastSeq; got > uint64(bad) {
			t.Errorf("of %d events, the %dth of which is refused, %d are stored, want those before it at most", n, bad+1, got)
		}
	}
}

package client_test

import (
	"context"
	"fmt"
	"iter"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// line is a wire that can be cut.
type line struct {
	natstest.Wire
	mu    sync.Mutex
	conns []net.Conn
}

func (l *line) InProcessConn() (net.Conn, error) {
	c, err := l.Wire.InProcessConn()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *line) cut() {
	l.Leads(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// liveRig is a server with a persister, and a reader whose connection can be cut.
type liveRig struct {
	*rig
	server natstest.Running
	line   line
	reader *client.Client
}

func newLiveRig(t *testing.T) *liveRig {
	l := &liveRig{server: natstest.Server(t)}
	conn := natstest.Dial(t, l.server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	stop := must.Get(persister(conn))(t)
	t.Cleanup(stop)
	l.rig = &rig{client.New(conn), conn, stop}
	l.line.Leads(l.server)
	reads := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: &l.line}))(t)
	t.Cleanup(reads.Close)
	l.reader = client.New(reads)
	return l
}

// following is a way to follow items; of one thread, or of a session.
type following func(c *client.Client, ctx context.Context, ready func()) iter.Seq2[client.Item, error]

func ofSession(c *client.Client, ctx context.Context, ready func()) iter.Seq2[client.Item, error] {
	return c.Session("s").Live(ctx, ready)
}

func ofThread(c *client.Client, ctx context.Context, ready func()) iter.Seq2[client.Item, error] {
	return c.Thread(thread("s")).Live(ctx, ready)
}

// follow gives what a live subscription gives; while hold is locked it takes nothing.
func (l *liveRig) follow(t *testing.T, items following, hold *sync.Mutex) <-chan client.Item {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got, stands, ended := make(chan client.Item, 100_000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for item, err := range items(l.reader, ctx, func() { close(stands) }) {
			if err != nil {
				t.Errorf("live: %v", err)
				return
			}
			hold.Lock()
			got <- item
			hold.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	must.Receive(t, stands, "the subscription stands")
	return got
}

// wants takes items and checks that those of each thread come in order, each once, from the number after that which it had.
func wants(t *testing.T, got <-chan client.Item, had map[string]int64, n int) (live int) {
	t.Helper()
	for range n {
		item := must.Receive(t, got, "an item behind %v", had)
		if had[item.Thread]++; item.N != had[item.Thread] {
			t.Fatalf("item %d of %s, want %d", item.N, item.Thread, had[item.Thread])
		}
		if item.Seq == 0 && !item.Filled {
			live++
		}
	}
	return live
}

// What is published while a live reader's connection is lost comes once it is back, of threads that it had and of new ones; each item once.
func TestLiveOverALostConnection(t *testing.T) {
	for what, items := range map[string]following{"session": ofSession, "thread": ofThread} {
		t.Run(what, func(t *testing.T) {
			l, main, other := newLiveRig(t), thread("s"), events.Thread{Session: "s", Name: "other"}
			l.publish(t, posts(main, 1, 5)...)
			got, had := l.follow(t, items, new(sync.Mutex)), map[string]int64{"main": 5}
			l.publish(t, posts(main, 6, 10)...)
			must.Same(t, wants(t, got, had, 5), 5, "%d items came live, want %d")
			l.line.cut()
			l.publish(t, posts(main, 11, 20)...)
			more := 0
			if what == "session" {
				l.publish(t, posts(other, 1, 5)...)
				more = 5
			}
			l.line.Leads(l.server)
			wants(t, got, had, 10+more)
			l.publish(t, posts(main, 21, 25)...)
			must.Same(t, wants(t, got, had, 5), 5, "%d items came live once the connection was back, want %d")
		})
	}
}

// A live reader that takes nothing for a while has all of it later.
func TestLiveAndSlow(t *testing.T) {
	l, main := newLiveRig(t), thread("s")
	l.publish(t, posts(main, 1, 1)...)
	var hold sync.Mutex
	got, had := l.follow(t, ofSession, &hold), map[string]int64{"main": 1}
	hold.Lock()
	for from := 2; from < 9002; from += 1000 {
		l.publish(t, posts(main, from, from+999)...)
	}
	hold.Unlock()
	if live := wants(t, got, had, 9000); live == 9000 {
		t.Error("all items came live: the reader was not slow")
	}
}

// A live subscription whose context ends while it reads what it missed ends without an error.
func TestLiveEndsInTheMiddle(t *testing.T) {
	l, main := newLiveRig(t), thread("s")
	l.publish(t, posts(main, 1, 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	stored := 0
	for item, err := range l.reader.Session("s").Live(ctx, func() {
		l.line.cut()
		l.publish(t, posts(main, 2, 500)...)
		l.line.Leads(l.server)
	}) {
		must.Do(t, err)
		if item.Seq != 0 {
			cancel()
			stored++
		}
	}
	cancel()
	if stored == 0 || stored == 499 {
		t.Errorf("%d items were read from the stream, want a part of them", stored)
	}
}

// A thread that begins under the name of one that was removed has numbers from 1, and a live reader gets them.
func TestLiveAndLives(t *testing.T) {
	l, main := newLiveRig(t), thread("s")
	l.publish(t, posts(main, 1, 3)...)
	for _, items := range []following{ofSession, ofThread} {
		got := l.follow(t, items, new(sync.Mutex))
		must.Do(t, l.Thread(main).Remove(t.Context()))
		l.publish(t, posts(main, 1, 3)...)
		wants(t, got, map[string]int64{}, 3)
	}
}

// Items of a thread that a live reader does not know can be on their way when its connection is back: published, so that they do not come
// any more, and stored later, with those that come. All come, in order.
func TestLiveInTheMiddleOfABatch(t *testing.T) {
	l := newLiveRig(t)
	l.publish(t, posts(thread("s"), 1, 1)...)
	got := l.follow(t, ofSession, new(sync.Mutex))
	nc := must.Get(nats.Connect("", nats.InProcessServer(l.server)))(t)
	defer nc.Close()
	other, last := events.Thread{Session: "s", Name: "other"}, 6
	send := func(n int) {
		m := &nats.Msg{Subject: events.ItemSubject(other, "text", ""), Header: nats.Header{
			"Nats-Batch-Id": []string{"b"}, "Nats-Batch-Sequence": []string{strconv.Itoa(n)},
		}}
		m.Data = fmt.Appendf(nil, `{"id":"i%d","n":%d,"session":"s","thread":"other","metadata":{"type":"text"}}`, n, n)
		if n == 1 { // else the server takes no batch
			m.Reply = nc.NewInbox()
		}
		if n == last {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			must.Get(nc.RequestMsg(m, must.Patience))(t)
			return
		}
		must.Do(t, nc.PublishMsg(m))
		must.Do(t, nc.Flush())
	}
	l.line.cut()
	for n := 1; n <= 3; n++ {
		send(n)
	}
	l.line.Leads(l.server)
	l.publish(t, posts(thread("s"), 2, 2)...)
	item := must.Receive(t, got, "an item of the thread that the reader knows")
	must.Same(t, item.Thread, "main", "%s, want %s")
	for n := 4; n <= last; n++ {
		send(n)
	}
	wants(t, got, map[string]int64{}, last)
}

package sim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// reader follows all items, live or under a name that the server keeps, over the lives of its process.
type reader struct {
	*process
	durable string
	takes   time.Duration // for each item
	whole   bool          // it was never interrupted
	began   atomic.Bool   // it reached a server

	mu    sync.Mutex
	got   []seen
	errs  []error
	stood chan struct{}
	ended chan struct{}
}

// seen is an item as a reader got it, or as ITEMS holds it.
type seen struct {
	thread events.Thread
	n      int64
	node   string
}

func (s seen) String() string { return fmt.Sprintf("%s #%d", s.thread, s.n) }

// follow starts a reader. A durable one goes on where the last of its name was.
func (w *World) follow(durable bool, n, takes int) *reader {
	r := &reader{takes: ms(takes), process: w.process("reader"), whole: true, stood: make(chan struct{}), ended: make(chan struct{})}
	if durable {
		r.durable = fmt.Sprintf("d%d", n)
	}
	go func() {
		defer close(r.ended)
		r.run()
	}()
	return r
}

func (r *reader) run() {
	ready := sync.OnceFunc(func() { close(r.stood) })
	defer ready()
	conn, err := r.connect()
	if err != nil {
		r.whole = false
		return
	}
	r.began.Store(true)
	for r.take(client.New(conn), ready) {
		time.Sleep(100 * time.Millisecond)
	}
}

// take follows until an error ends it. again: the error says to try again, and this reader can: the server keeps its place, or it has
// had nothing yet.
func (r *reader) take(cl *client.Client, ready func()) (again bool) {
	items := cl.SubscribeReady(r.ctx, client.Filter{}, client.Position{All: true}, ready)
	if r.durable != "" {
		ready()
		items = cl.SubscribeDurable(r.ctx, r.durable, client.Filter{}, client.Position{All: true})
	}
	for item, err := range items {
		if err == nil && r.takes > 0 { // it works with the item, and has not done it when it dies
			select {
			case <-time.After(r.takes):
			case <-r.ctx.Done():
			}
		}
		if r.dead.Load() {
			return false
		}
		r.mu.Lock()
		again = record.Temporary(err) && (r.durable != "" || len(r.got) == 0)
		switch {
		case err == nil:
			r.got = append(r.got, seen{events.Thread{Session: item.Session, Name: item.Thread}, item.N, item.Node})
		case !again:
			r.errs = append(r.errs, err)
		}
		r.mu.Unlock()
	}
	return again && !r.dead.Load()
}

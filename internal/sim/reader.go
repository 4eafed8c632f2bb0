package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/memjs"
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
	life   uint64
	n      int64
	node   string
}

func (s seen) String() string { return fmt.Sprintf("%s #%d of life %d", s.thread, s.n, s.life) }

// named is one of the threads that had a name: between them there is no order (SPEC P12).
type named struct {
	thread events.Thread
	life   uint64
}

func (s seen) named() named { return named{s.thread, s.life} }

// seenIn is the item of a message of ITEMS.
func seenIn(m memjs.Msg) seen {
	t, _ := events.ParseItemSubject(m.Subject)
	it := itemOf(m.Data)
	return seen{t, lifeOf(m), it.N, it.Node}
}

func sortedNamed[V any](m map[named]V) []named {
	return slices.SortedFunc(maps.Keys(m), func(a, b named) int {
		return cmp.Or(strings.Compare(a.thread.String(), b.thread.String()), cmp.Compare(a.life, b.life))
	})
}

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

func (r *reader) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
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
			r.got = append(r.got, seen{events.Thread{Session: item.Session, Name: item.Thread}, item.Life, item.N, item.Node})
		case !again:
			r.errs = append(r.errs, err)
		}
		r.mu.Unlock()
	}
	return again && !r.dead.Load()
}

// read checks what each reader got: of every thread, and of every life of it, the items in order and each once;
// all of them, if it was never interrupted.
func (j *judgement) read() {
	if len(j.readers) == 0 {
		return
	}
	truth, kept := map[named][]seen{}, map[seen]bool{}
	for _, seq := range slices.Sorted(maps.Keys(j.posted)) {
		s := seenIn(j.posted[seq])
		if !slices.Contains(truth[s.named()], s) {
			truth[s.named()] = append(truth[s.named()], s)
		}
	}
	for _, m := range j.srv.Messages(events.ItemsStream) {
		kept[seenIn(m)] = true
	}
	for i, r := range j.readers {
		r.mu.Lock()
		got := map[named][]seen{}
		for _, s := range r.got {
			got[s.named()] = append(got[s.named()], s)
		}
		for _, t := range sortedNamed(truth) {
			j.readThread(i, r, got[t], truth[t], kept)
		}
		for _, err := range r.errs {
			j.fail("reader %d: %v", i, err)
		}
		r.mu.Unlock()
	}
	j.durables(truth, kept)
}

// durables checks that whoever read under a name, one after another, got all.
func (j *judgement) durables(truth map[named][]seen, kept map[seen]bool) {
	got := map[string]map[seen]bool{}
	for _, r := range j.readers {
		if r.durable == "" || !r.began.Load() {
			continue
		}
		if got[r.durable] == nil {
			got[r.durable] = map[seen]bool{}
		}
		for _, s := range r.got {
			got[r.durable][s] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		for _, t := range sortedNamed(truth) {
			for _, s := range truth[t] {
				if kept[s] && !got[name][s] {
					j.fail("nobody who read under the name %s got %s", name, s)
					return
				}
			}
		}
	}
}

func (j *judgement) readThread(i int, r *reader, got, truth []seen, kept map[seen]bool) {
	at := 0
	for _, s := range got {
		next := slices.Index(truth[at:], s)
		if next < 0 {
			if r.durable == "" {
				j.fail("reader %d got %s twice, or out of its order: %v", i, s, got)
			}
			return
		}
		for _, skipped := range truth[at : at+next] {
			if kept[skipped] && r.whole && r.durable == "" {
				j.fail("reader %d never got %s, and got %s behind it", i, skipped, s)
				return
			}
		}
		at += next + 1
	}
	for _, s := range truth[at:] {
		if kept[s] && r.whole && r.durable == "" {
			j.fail("reader %d never got %s", i, s)
			return
		}
	}
}

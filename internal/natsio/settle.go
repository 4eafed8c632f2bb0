package natsio

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Settle calls look until that is enough. While nothing moves in the thread, it asks whether persisters have passed what is waited for, and
// look is told: nothing more will come of it then. The error is look's, or ctx's where that ended first.
func Settle(ctx context.Context, es Events, t events.Thread, passed Passed, look func(done bool) (enough bool, err error)) error {
	w := Wait(es, t)
	defer w.End()
	asked, done := w.begun, false
	for {
		enough, err := look(done) // behind the question: an event is acked behind its commit
		if err != nil || enough {
			return err
		}
		moved, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if !done && !moved && time.Since(asked) >= max(askAfter, time.Since(w.begun)/4) {
			done = passed(ctx)
			asked = time.Now()
		}
	}
}

// askAfter is how long nothing moves before a partition's consumer is asked whether the event was refused.
const askAfter = 50 * time.Millisecond

// Passed tells whether persisters are done with something that was published. An error counts as no.
type Passed func(context.Context) bool

// UpTo tells it of what EVENTS has of a thread up to a sequence; 0: of what it had when it was asked first.
func UpTo(es Events, t events.Thread, seq uint64) Passed {
	var newest Newest
	known := false
	return func(ctx context.Context) bool {
		var err error
		if !known {
			newest, err = es.NewestEvent(ctx, t)
			known = err == nil
			if seq > newest.Seq { // trimmed: it was applied
				newest.Seq = 0
			} else if seq > 0 {
				newest.Seq = seq
			}
		}
		if !known {
			return false
		}
		done, err := es.Done(ctx, newest)
		return err == nil && done
	}
}

// Waiting is somebody who waits for what becomes of a thread.
type Waiting struct {
	of    *moves
	key   string
	begun time.Time
	moved chan struct{}
}

// Wait begins to wait for a thread: before the first look at it, so that nothing is missed. End ends it. Whoever waits for EveryThread is
// told of no moves.
func Wait(es Events, t events.Thread) *Waiting {
	w := &Waiting{of: &es.c.moves, key: events.HeadKey(t), begun: time.Now(), moved: make(chan struct{}, 1)}
	if t.Name != events.EveryThread {
		w.of.add(es.c, w)
	}
	return w
}

// End ends it.
func (w *Waiting) End() { w.of.remove(w) }

// Next returns when it is time to look at the thread again: it moved, or a while passed. The pauses grow, up to a quarter of a second, and
// behind long waiting up to a twentieth of it. Where no persister runs, everybody waits, and nobody is to keep the server busy with it.
func (w *Waiting) Next(ctx context.Context) (moved bool, err error) {
	const most = 250 * time.Millisecond
	waited := time.Since(w.begun)
	pause := min(max(waited/8, time.Millisecond), max(most, waited/20)) // late by an eighth at most
	if w.of.tells(w) {
		pause = max(pause, most)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-w.moved:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// moves wakes those who wait for threads. As soon as two wait over a connection, one consumer tells it of all heads that are written; who
// is alone looks again and again, so that a fleet of processes that wait for a thread each costs the server no consumer each. It is a
// hint: a watch that is late or broken costs a pause.
type moves struct {
	mu      sync.Mutex
	waiting map[string][]*Waiting // by the key of the head
	n       int
	end     context.CancelFunc // of the watch; nil: there is none
	idle    *time.Timer        // ends the watch when nobody needed it for a while
	told    bool               // the watch stands
	closed  bool               // there will be none
}

// watchFrom is how many waiters are worth a watch, and watchFor how long it stays when there are fewer: who waited comes again.
const (
	watchFrom = 2
	watchFor  = 30 * time.Second
)

func (m *moves) add(c *Conn, w *Waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = map[string][]*Waiting{}
	}
	m.waiting[w.key] = append(m.waiting[w.key], w)
	if m.n++; m.n < watchFrom {
		return
	}
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
	if m.end == nil && !m.closed && c.scope == "" { // an ingest user may not
		ctx, end := context.WithCancel(context.Background())
		m.end = end
		go m.watch(ctx, c)
	}
}

func (m *moves) remove(w *Waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.waiting[w.key]
	i := slices.Index(left, w)
	if i < 0 {
		return
	}
	left = append(left[:i:i], left[i+1:]...)
	if m.waiting[w.key] = left; len(left) == 0 {
		delete(m.waiting, w.key)
	}
	if m.n--; m.n == watchFrom-1 && m.end != nil {
		m.idle = time.AfterFunc(watchFor, m.stop)
	}
}

// stop ends a watch that nobody needs.
func (m *moves) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != nil && (m.closed || m.n < watchFrom) {
		m.end()
		m.end, m.told = nil, false
	}
}

// close ends the watch for good.
func (m *moves) close() {
	m.mu.Lock()
	m.closed = true
	if m.idle != nil {
		m.idle.Stop()
	}
	m.mu.Unlock()
	m.stop()
}

// tells reports whether the watch stands, and who waits hears of it.
func (m *moves) tells(w *Waiting) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told && m.waiting[w.key] != nil
}

// stand notes whether the watch tells of every move from now on. Those who wait look: they may have missed one.
func (m *moves) stand(ctx context.Context, told bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil { // another one may have begun
		return
	}
	m.told = told
	for key := range m.waiting {
		m.wake(key)
	}
}

// wake is under the lock.
func (m *moves) wake(key string) {
	for _, w := range m.waiting[key] {
		select {
		case w.moved <- struct{}{}:
		default: // it is to look already
		}
	}
}

// watch tells of heads until ctx ends.
func (m *moves) watch(ctx context.Context, c *Conn) {
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(events.HeadKeys(""))}, DeliverPolicy: jetstream.DeliverNewPolicy, HeadersOnly: true,
		InactiveThreshold: time.Minute,
	}
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		for head, err := range c.Streams().messages(ctx, events.RecordsStream, cfg, func() { m.stand(ctx, true) }) {
			if err != nil {
				if c.log.Debug("watch heads", "error", err); errors.Is(err, record.ErrDenied) {
					pause = time.Minute
				}
				break
			}
			m.mu.Lock()
			m.wake(RecordKey(head.Subject()))
			m.mu.Unlock()
			pause = time.Second
		}
		m.stand(ctx, false)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

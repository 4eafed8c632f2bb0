package natsio

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// Settle calls look until that is enough. While nothing moves in the thread, it asks whether persisters have passed what is waited for, and
// look is told: nothing more will come of it then. The error is look's, or ctx's where that ended first.
func Settle(ctx context.Context, es Events, t events.Thread, passed Passed, look func(done bool) (enough bool, err error)) error {
	w := Wait(es, t)
	defer w.End()
	asked, done := time.Now(), false
	for {
		enough, err := look(done) // behind the question: an event is acked behind its commit
		if err != nil || enough {
			return err
		}
		since, _, _ := w.of.told(w)
		pause := mostPause
		if !done { // no move tells that persisters are
			pause = min(pause, max(askAfter, time.Since(since)/4))
		}
		moved, err := w.next(ctx, pause)
		if err != nil {
			return err
		}
		since, letter, _ := w.of.told(w)
		if !done && (letter || !moved && time.Since(asked) >= max(askAfter, time.Since(since)/4)) {
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
	moved chan struct{}

	begun  time.Time // or when the thread had its newest dead letter since, which comes right before the ack
	letter bool      // it had one
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
func (w *Waiting) Next(ctx context.Context) (moved bool, err error) { return w.next(ctx, mostPause) }

const mostPause = 250 * time.Millisecond

// next is Next that pauses only so long where moves are told.
func (w *Waiting) next(ctx context.Context, told time.Duration) (moved bool, err error) {
	begun, letter, watched := w.of.told(w)
	waited := time.Since(begun)
	pause := min(max(waited/8, time.Millisecond), max(mostPause, waited/20)) // late by an eighth at most
	if watched && !letter {
		pause = max(pause, told)
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

// moves wakes those who wait for threads. As soon as two wait over a connection, a consumer tells it of all heads that are written, and
// another one of dead letters; who is alone looks again and again, so that a fleet of processes that wait for a thread each costs the server no consumer each. It is a
// hint: a watch that is late or broken costs a pause.
type moves struct {
	mu      sync.Mutex
	waiting map[string][]*Waiting // by the key of the head
	n       int
	end     context.CancelFunc   // of the watch; nil: there is none
	idle    *time.Timer          // ends the watch when nobody needed it for a while
	stands  bool                 // the watch of heads does
	letters map[string]time.Time // when threads had their newest dead letters; some are forgotten
	closed  bool                 // there will be none
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
	w.letter = time.Since(m.letters[w.key]) < time.Second // it may be that of what was published just now
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
		go m.watch(ctx, c, events.RecordsStream, events.RecordSubject(events.HeadKeys("")), m.stand, func(subject string) {
			m.wake(RecordKey(subject), false)
		})
		go m.watch(ctx, c, events.DeadStream, events.DeadFilter(events.Thread{}), func(context.Context, bool) {}, func(subject string) {
			t, _ := events.ParseDead(subject)
			m.wake(events.HeadKey(t), true)
		})
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
		m.end, m.stands = nil, false
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

// told says since when somebody waits, whether it was told of a dead letter, and whether a watch tells it of moves.
func (m *moves) told(w *Waiting) (since time.Time, letter, watched bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.begun, w.letter, m.stands && m.waiting[w.key] != nil
}

// stand notes whether the watch tells of every move from now on. Those who wait look: they may have missed one.
func (m *moves) stand(ctx context.Context, stands bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil { // another one may have begun
		return
	}
	m.stands = stands
	for key := range m.waiting {
		m.wake(key, false)
	}
}

// wake is under the lock.
func (m *moves) wake(key string, letter bool) {
	if letter {
		if m.letters == nil || len(m.letters) > 1000 {
			m.letters = map[string]time.Time{}
		}
		m.letters[key] = time.Now()
	}
	for _, w := range m.waiting[key] {
		if letter {
			w.begun, w.letter = m.letters[key], true
		}
		select {
		case w.moved <- struct{}{}:
		default: // it is to look already
		}
	}
}

// watch tells of what comes to a stream until ctx ends, and stand of whether it does.
func (m *moves) watch(ctx context.Context, c *Conn, stream, filter string, stand func(context.Context, bool), tell func(subject string)) {
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverNewPolicy, HeadersOnly: true, InactiveThreshold: time.Minute,
	}
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		for msg, err := range c.Streams().messages(ctx, stream, cfg, pulls{}, func() { stand(ctx, true) }) {
			if err != nil {
				if c.log.Debug("watch what becomes of threads", "stream", stream, "error", err); errors.Is(err, record.ErrDenied) {
					pause = time.Minute
				}
				break
			}
			m.mu.Lock()
			tell(msg.Subject())
			m.mu.Unlock()
			pause = time.Second
		}
		stand(ctx, false)
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

package persist

import (
	"errors"
	"fmt"
	"time"

	"spool/pkg/events"
)

// latch refuses everything that comes for a thread, with its first cause: something in the store is not as it must be,
// and appending would hide it. Other threads go on. It holds over the head of one revision, and for latchFor: then what
// comes finds out anew, and so it does after a restart.
func (l *lane) latch(t events.Thread, rev uint64, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latched[t].cause == nil {
		l.latched[t] = latched{fmt.Errorf("%w: %w", errLatched, cause), rev, time.Now()}
		l.p.Log.Error("thread is latched: its events go to the dead letters", "thread", t, "error", cause)
	}
}

// latched is why a thread takes no events, over which revision of its head, and since when.
type latched struct {
	cause error
	rev   uint64
	since time.Time
}

// latchFor is how long a thread is refused before the store is looked at again: it may have been repaired.
var latchFor = 10 * time.Second

func (l *lane) latchedBy(t events.Thread) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latched[t].cause
}

// liftDue lets the threads of a batch have another try whose latch is due for it.
func (l *lane) liftDue(batch []*staged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.latched) == 0 {
		return
	}
	for _, s := range batch {
		t := s.event.Thread
		if held, ok := l.latched[t]; s.known && ok && time.Since(held.since) >= latchFor {
			delete(l.latched, t)
			delete(l.heads.threads, t)
		}
	}
}

// liftMoved lets a thread have another try whose head is of another revision than the one that failed.
func (l *lane) liftMoved(t events.Thread, rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.latched[t]; ok && held.rev != rev {
		delete(l.latched, t)
	}
}

// errLatched: the thread takes no more events.
var errLatched = errors.New("thread is latched")

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

// liftDue lets the threads have another try whose latch is due for it: their heads are read again.
func (l *lane) liftDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, held := range l.latched {
		if time.Since(held.since) < latchFor {
			continue
		}
		th := l.heads.threads[t]
		if th != nil && th.held() {
			continue
		}
		delete(l.latched, t)
		if th != nil {
			l.heads.drop(th)
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

package httpapi

import (
	"cmp"
	"sync"
	"time"
)

// recently remembers of what a look found nothing in the way a moment ago: no entry behind the first look waits for a read.
type recently[K comparable] struct {
	keep  time.Duration // how long a look counts; 0: lookAgain
	mu    sync.Mutex
	until map[K]time.Time
}

// How long a look counts where nothing else is said, and how many are remembered.
const (
	lookAgain = time.Second
	mostLooks = 10_000
)

func (r *recently[K]) is(what K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[what])
}

func (r *recently[K]) note(what K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(what)
}

// due reports whether a look at something known does not count any more, and notes another one. What it has not met it
// notes, too.
func (r *recently[K]) due(what K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.until[what]
	if time.Now().Before(until) {
		return false
	}
	r.put(what)
	return known
}

func (r *recently[K]) put(what K) {
	if r.until == nil || len(r.until) >= mostLooks {
		r.until = map[K]time.Time{}
	}
	r.until[what] = time.Now().Add(cmp.Or(r.keep, lookAgain))
}

// forget has the next entry look: what was found is changed here.
func (r *recently[K]) forget(what K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, what)
}

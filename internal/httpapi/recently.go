package httpapi

import (
	"sync"
	"time"
)

// recently remembers of what a look found nothing in the way a moment ago: no entry behind the first look waits for a read.
type recently[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

// How long a look counts, and how many are remembered.
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
	if r.until == nil || len(r.until) >= mostLooks {
		r.until = map[K]time.Time{}
	}
	r.until[what] = time.Now().Add(lookAgain)
}

// forget has the next entry look: what was found is changed here.
func (r *recently[K]) forget(what K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, what)
}

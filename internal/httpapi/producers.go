package httpapi

import (
	"sync"

	"github.com/oklog/ulid/v2"

	"spool/pkg/threads"
)

// producer is an identity that one request at a time uses.
type producer struct {
	id   string
	next uint64
}

// producers lends identities to requests that have none of their own. There are as many as were ever needed at once, not one a
// request: a thread's head remembers each that it has seen.
type producers struct {
	mu   sync.Mutex
	free []*producer
}

func (p *producers) take() *producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		last := p.free[n-1]
		p.free = p.free[:n-1]
		return last
	}
	return &producer{id: threads.Ephemeral + ulid.Make().String(), next: 1}
}

func (p *producers) give(one *producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, one)
}

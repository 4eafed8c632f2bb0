package httpapi

import (
	"context"
	"sync"
	"time"
)

// How many requests are remembered whose clients were not told what became of them, and how long.
const (
	mostUntold = 1024
	untoldTime = 10 * time.Minute
)

// attempt is a request that stores one entry and has no identity of its own.
type attempt struct {
	by   *producer // lent until the client is told
	seq  uint64
	done chan struct{} // closed while nobody works on it
	at   time.Time     // when it was done, untold
}

// attempts finds the request again that a client sends again because it was not told what became of it: it has the same body and is
// given the same identity, so that its entry is stored once. A request whose client was told is done with, and an equal one behind
// it is another entry. Equal requests wait for each other.
type attempts struct {
	producers *producers

	mu  sync.Mutex
	all map[[32]byte]*attempt // that are worked on, or untold
}

// take begins a request, or goes on with the one that it repeats.
func (as *attempts) take(ctx context.Context, key [32]byte, now time.Time) (*attempt, error) {
	for {
		as.mu.Lock()
		at := as.all[key]
		if at == nil || at.idle() && now.Sub(at.at) > untoldTime {
			as.drop(key)
			at = as.begin(key)
			as.mu.Unlock()
			return at, nil
		}
		if at.idle() {
			at.done = make(chan struct{})
			as.mu.Unlock()
			return at, nil
		}
		busy := at.done
		as.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin lends a new identity. Where there are too many, the one that has been untold for longest is forgotten.
func (as *attempts) begin(key [32]byte) *attempt {
	if len(as.all) >= mostUntold {
		var oldest *[32]byte
		for k, at := range as.all {
			if at.idle() && (oldest == nil || at.at.Before(as.all[*oldest].at)) {
				oldest = &k
			}
		}
		if oldest != nil {
			as.drop(*oldest)
		}
	}
	p := as.producers.take()
	at := &attempt{by: p, seq: p.next, done: make(chan struct{})}
	p.next++
	if as.all == nil {
		as.all = map[[32]byte]*attempt{}
	}
	as.all[key] = at
	return at
}

// drop forgets a request that nobody works on; what it was lent is free for others.
func (as *attempts) drop(key [32]byte) {
	if at := as.all[key]; at != nil {
		as.producers.give(at.by)
		delete(as.all, key)
	}
}

// end is called when a request is done with, and says whether its client was told what became of it.
func (as *attempts) end(key [32]byte, told bool, now time.Time) {
	as.mu.Lock()
	defer as.mu.Unlock()
	at := as.all[key]
	at.at = now
	close(at.done)
	if told {
		as.drop(key)
	}
}

func (at *attempt) idle() bool {
	select {
	case <-at.done:
		return true
	default:
		return false
	}
}

package persist

import "sync"

// queue holds staged events in the order in which they came. What it may hold is bounded by the persister's bytes.
type queue struct {
	mu    sync.Mutex
	items []*staged
	last  uint64         // highest sequence of what was ever in it
	terms map[int]uint64 // of each partition, the latest that came
	some  chan struct{}  // holds a token while there is something to take or to notice
}

func newQueue() *queue { return &queue{terms: map[int]uint64{}, some: make(chan struct{}, 1)} }

func (q *queue) push(s *staged) {
	q.mu.Lock()
	q.items = append(q.items, s)
	q.last = max(q.last, s.msg.Seq)
	q.terms[s.msg.Partition] = max(q.terms[s.msg.Partition], s.msg.Term)
	q.mu.Unlock()
	q.wake()
}

// unshift puts events back at the front.
func (q *queue) unshift(s []*staged) {
	q.mu.Lock()
	q.items = append(append(make([]*staged, 0, len(s)+len(q.items)), s...), q.items...)
	q.mu.Unlock()
	q.wake()
}

// wake makes whoever waits look around.
func (q *queue) wake() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// newest is the highest EVENTS sequence that has come: every event up to it was stored before now.
func (q *queue) newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// ended reports whether a later term of an event's partition has begun.
func (q *queue) ended(s *staged) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.msg.Term < q.terms[s.msg.Partition]
}

// anew forgets what came over other connections than that one: the store may give its sequences out again.
func (q *queue) anew(link uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = 0
	for _, s := range q.items {
		if s.msg.Link == link {
			q.last = max(q.last, s.msg.Seq)
		}
	}
}

// len is how many events wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// take removes events from the front while more says yes to the next one.
func (q *queue) take(more func(*staged) bool) []*staged {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.items) && more(q.items[n]) {
		n++
	}
	taken := q.items[:n:n]
	q.items = q.items[n:]
	if len(q.items) > 0 {
		q.wake()
	}
	return taken
}

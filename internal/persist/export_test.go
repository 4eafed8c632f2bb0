package persist

import "time"

// LatchFor sets how long a latched thread is refused, and gives what undoes that.
func LatchFor(d time.Duration) (undo func()) {
	was := latchFor
	latchFor = d
	return func() { latchFor = was }
}

// LatchesAreDue has the store looked at again for the threads that are latched by now, as it is when they were for a while.
func (p *Persister) LatchesAreDue() {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	for t, held := range p.lane.latched {
		held.since = time.Time{}
		p.lane.latched[t] = held
	}
}

// MostReread sets how much is read of a stretch, and how many of its sequences are told apart, and gives what undoes that.
func MostReread(bytes, given int) (undo func()) {
	wasBytes, wasGiven := mostBytes, mostGiven
	mostBytes, mostGiven = bytes, given
	return func() { mostBytes, mostGiven = wasBytes, wasGiven }
}

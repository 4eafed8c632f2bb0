package persist

import "time"

// LatchFor sets how long a latched thread is refused, and gives what undoes that.
func LatchFor(d time.Duration) (undo func()) {
	was := latchFor
	latchFor = d
	return func() { latchFor = was }
}

// MostReread sets how much is read of a stretch, and how many of its sequences are told apart, and gives what undoes that.
func MostReread(bytes, given int) (undo func()) {
	wasBytes, wasGiven := mostBytes, mostGiven
	mostBytes, mostGiven = bytes, given
	return func() { mostBytes, mostGiven = wasBytes, wasGiven }
}

package persist

import "time"

// LatchFor sets how long a latched thread is refused, and gives what undoes that.
func LatchFor(d time.Duration) (undo func()) {
	was := latchFor
	latchFor = d
	return func() { latchFor = was }
}

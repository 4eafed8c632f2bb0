package record

import "time"

// Skew is when the server's clock was behind: messages that it stored meanwhile say that they are older than they are.
// The zero value: never.
type Skew struct {
	From  map[string]uint64 `json:"from,omitempty"`  // the last sequence of each stream before
	To    map[string]uint64 `json:"to,omitempty"`    // the last ones when it was right again; none: it is wrong
	Right int64             `json:"right,omitempty"` // when that was, by the server's clock, Unix nanoseconds
}

// Open reports whether the clock is still wrong.
func (s Skew) Open() bool { return s.From != nil && s.To == nil }

// Since is the time from which the age of a message counts: when it was stored, if its time can be trusted; else the
// earliest at which the clock was known to be right. now is the server's time.
func (s Skew) Since(stream string, seq uint64, stored, now time.Time) time.Time {
	switch {
	case s.From == nil || seq <= s.From[stream]:
		return stored
	case s.To == nil:
		return now
	case seq <= s.To[stream] && stored.UnixNano() < s.Right: // else it is of a stream that was made anew since
		return time.Unix(0, s.Right)
	}
	return stored
}

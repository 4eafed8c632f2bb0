package record

import "time"

// Skew is when the server's clock was behind: messages that it stored meanwhile say that they are older than they are.
// The zero value: never.
type Skew struct {
	From  map[string]uint64 `json:"from,omitempty"`  // the last sequence of each stream before
	To    map[string]uint64 `json:"to,omitempty"`    // the last ones when it was right again; none: it is wrong
	Right int64             `json:"right,omitempty"` // when that was, by the server's clock, Unix nanoseconds
}

// Clock is what is known of the server's clock. It is part of the marks (package scrub), which are kept twice.
type Clock struct {
	High   int64 `json:"high,omitempty"`   // the latest that it ever said, Unix nanoseconds
	Skew   Skew  `json:"skew,omitzero"`    // when it said less
	Trusts int   `json:"trusts,omitempty"` // how often an operator has said that it is right, whatever it said before
}

// Latest is what of two copies was written last.
func (c Clock) Latest(other Clock) Clock {
	if other.Trusts > c.Trusts || other.Trusts == c.Trusts && other.High > c.High {
		return other
	}
	return c
}

// Trust notes that the clock is right now, whatever it said before. last are the last sequences of all streams.
func (c *Clock) Trust(now int64, last map[string]uint64) {
	if c.Skew.From == nil {
		c.Skew.From = last
	}
	c.High, c.Skew.To, c.Skew.Right, c.Trusts = now, last, now, c.Trusts+1
}

// Open reports whether the clock is still wrong.
func (s Skew) Open() bool { return s.From != nil && s.To == nil }

// Since is the time from which the age of a message counts: when it was stored, if its time can be trusted; else the
// earliest at which the clock was known to be right. now is the server's time; what says that it is stored later has no age.
func (s Skew) Since(stream string, seq uint64, stored, now time.Time) time.Time {
	switch {
	case stored.After(now) && s.To != nil && seq <= s.To[stream] && s.Right < now.UnixNano():
		return time.Unix(0, s.Right)
	case stored.After(now):
		return now
	case s.From == nil || seq <= s.From[stream]:
		return stored
	case s.To == nil:
		return now
	case seq <= s.To[stream] && stored.UnixNano() < s.Right: // else it is of a stream that was made anew since
		return time.Unix(0, s.Right)
	}
	return stored
}

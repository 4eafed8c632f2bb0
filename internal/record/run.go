package record

import (
	"time"

	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Run is the value of a run's record (SPEC A6). The lease begins when the record is written, by the server's clock.
type Run struct {
	ID      string
	Thread  string // its name
	Agent   string
	Status  artifacts.RunStatus
	Lease   int64 // milliseconds; 0 = none
	Summary string
	Begun   int64 // time of its first event, Unix milliseconds; 0 = unknown
	Touched int64 // time of the event that wrote the record last
}

// Encode is the value's bytes.
func (r Run) Encode() []byte {
	return encode(version, r.ID, r.Thread, r.Agent, string(r.Status), r.Lease, r.Summary, r.Begun, r.Touched)
}

// DecodeRun reads the value of a run's record.
func DecodeRun(b []byte) (v Run, err error) {
	r := open("run", b, 9)
	v.ID, v.Thread, v.Agent, v.Status = r.string(), r.string(), r.string(), artifacts.RunStatus(r.string())
	v.Lease, v.Summary, v.Begun, v.Touched = r.int(), r.string(), r.int(), r.int()
	return v, r.err
}

// Seen is a run as it is found in the bucket.
type Seen struct {
	Session string
	Run
	Ago time.Duration // how long ago its record was written, by the server's clock
}

// At is the run at the reader's time now, which is the moment it was seen: Lease is by the reader's clock.
func (s Seen) At(now time.Time) artifacts.Run {
	r := artifacts.Run{ID: s.ID, Status: s.Status}
	if s.Lease > 0 {
		r.Lease = now.Add(events.Millis(s.Lease) - s.Ago)
	}
	return r
}

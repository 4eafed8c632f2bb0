package events

import "fmt"

// OpRun says where a run of an agent stands, and renews its lease (SPEC A6).
const OpRun Op = "run"

// Run is one sign of life of a run. The first one of an ID begins the run.
type Run struct {
	ID    string `json:"id"`              // names the run in its session, for ever: a name as CheckToken takes it
	State string `json:"state"`           // queued, pending, running, completed, failed, aborted or cancelled
	Agent string `json:"agent,omitempty"` // who runs; empty: as before
	// Lease is for how many milliseconds this sign counts; 0: as before, and for one that waits its turn: without end.
	Lease   int64  `json:"lease,omitempty"`
	Summary string `json:"summary,omitempty"` // for people; empty: as before
}

// Limits of a run.
const (
	MaxRunAgent   = 256      // bytes
	MaxRunSummary = 4_000    // bytes
	MaxRunLease   = MaxLease // milliseconds
)

// Validate reports what is wrong with the members; which states follow which is not its matter.
func (r Run) Validate() error {
	if err := CheckToken("run", r.ID); err != nil {
		return err
	}
	switch {
	case len(r.Agent) > MaxRunAgent:
		return fmt.Errorf("run %s: agent of %d bytes; use at most %d", r.ID, len(r.Agent), MaxRunAgent)
	case len(r.Summary) > MaxRunSummary:
		return fmt.Errorf("run %s: summary of %d bytes; use at most %d, and put the rest into an entry", r.ID, len(r.Summary), MaxRunSummary)
	case r.Lease < 0 || r.Lease > MaxRunLease:
		return fmt.Errorf("run %s: lease of %d ms; use 0 to %d", r.ID, r.Lease, MaxRunLease)
	}
	return nil
}
